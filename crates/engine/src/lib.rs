//! Drives sessions: commits their facts, keeps going what they are owed, waits for reports.
//!
//! Knows no store, no model and no tool, only their seams; words no error for people. [`Hub`] opens sessions,
//! `run.rs` is the loop, `work.rs` what it starts, [`Lanes`] and `ledger.rs` admit steps, `visits.rs` brings words to whom nobody runs.

mod advising;
mod batch;
mod clockwork;
mod compacting;
mod delegating;
mod errand;
mod forking;
mod head;
mod hearing;
mod hub;
mod ids;
mod lanes;
mod ledger;
mod live;
mod meter;
mod past;
mod prefix;
mod run;
mod spill;
mod subtask;
mod tree;
mod typing;
mod unready;
mod views;
mod visits;
mod work;
mod world;

pub use advising::Aside;
pub use hub::{Handle, Hub, OpenError};
pub use ids::Ulids;
pub use lanes::{LaneStanding, Lanes};
pub use live::{LIVE_MAX, Shown};
pub use past::Past;
pub use run::RunError;
pub use spill::{content_hash, read_all, restore};
pub use world::{Advising, Compacting, Consolidation, Outfit, Outfits, Shape, Upkeep, World};
