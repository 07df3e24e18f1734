//! What goes wrong around a run, and how a run takes it: streams, arguments, floods, children, signals, disks.
//!
//! Each row of the reliability notes that can be seen from outside is a story here, told through the real binary.
//! Crashes of posse itself are in `kill.rs`.
#![allow(clippy::unwrap_used)]

mod calls;
mod children;
mod floods;
mod hostile;
mod nasty;
mod signals;
mod storage;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod team;
