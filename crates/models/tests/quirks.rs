//! Servers that speak Chat Completions, each with its own ways: every quirk is a scripted server on a real socket.
//!
//! What is only about reading a stream is beside the folds; here is what a whole request and its answer need.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

#[path = "quirks/answers.rs"]
mod answers;
#[path = "quirks/cuts.rs"]
mod cuts;
#[path = "quirks/local.rs"]
mod local;
#[path = "quirks/refusals.rs"]
mod refusals;
#[allow(dead_code, reason = "the tests of the wire use the rest")]
#[path = "wire/server.rs"]
mod server;
#[path = "quirks/services.rs"]
mod services;
#[path = "quirks/world.rs"]
mod world;
