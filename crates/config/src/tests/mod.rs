//! What users rely on, through the crate's front door, one file a topic.

mod claude;
mod errors;
mod hooks;
mod instructions;
mod models;
mod modes;
mod permissions;
mod precedence;
mod providers;
mod show;
mod trust;
mod trusted;
