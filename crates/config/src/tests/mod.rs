//! What users rely on, through the crate's front door, one file a topic.

mod agents;
mod claude;
mod commands;
mod errors;
mod frontmatter;
mod guarded;
mod hooks;
mod instructions;
mod keys;
mod memory;
mod mentions;
mod models;
mod modes;
mod native;
mod permissions;
mod precedence;
mod providers;
mod rounds;
mod show;
mod skills;
mod template;
mod trust;
mod trusted;
