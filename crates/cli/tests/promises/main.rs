//! What the command line promises about one agent, each promise a story told through the real binary.
//!
//! The promises are those of `cli.md`; what goes wrong in the world around a run is in `faults`, what a crash may do in
//! `kill.rs`.
#![allow(clippy::unwrap_used)]

mod agents;
mod asks;
mod auth;
mod background;
mod checked;
mod claude;
mod claude_rights;
mod commands;
mod compaction;
mod config;
mod cut_answers;
mod definitions;
mod delegation;
mod demo;
mod edges;
mod exits;
mod explained;
mod export;
mod forks;
mod going_on;
mod home;
mod import;
mod inline;
mod internal;
mod limits;
mod mended;
mod mentions;
mod messages;
mod models;
mod output;
mod prompts;
mod providers;
mod replay;
mod rights;
mod rules;
mod rules_command;
mod sessions;
mod skills;
mod slash;
mod storage;
mod structured;
#[path = "../support/mod.rs"]
mod support;
mod titles;
mod tree;
mod trust;
mod undo;
mod usage;
mod why;
mod worktrees;
