//! What end-to-end tests share: a scripted model on loopback and a throw-away user who runs the real binary.
//!
//! Knows the wire of providers and the command line of `posse`, and nothing of the crates below: these tests see
//! what a stranger would. `model.rs` is the server, `answer.rs` and `newer.rs` what it can say, `seen.rs` what it was asked,
//! `world.rs` the user.
// Each test binary uses its own part of this, and none of it leaves the binary.
#![allow(dead_code, unused_imports, unreachable_pub, clippy::unwrap_used)]

pub mod answer;
pub mod http;
pub mod model;
pub mod newer;
pub mod procs;
pub mod running;
pub mod seen;
pub mod terminal;
pub mod world;

pub use answer::{Answer, Usage, call, raw_call};
pub use model::ModelServer;
pub use running::{Done, Running};
pub use seen::{Api, Block, Seen};
pub use terminal::AtTerminal;
pub use world::{World, git};
