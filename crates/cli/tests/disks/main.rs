//! A laboratory for disks: they fill up, fail, lose power or come back damaged, and the real binary lives with it.
//!
//! `shim.c` stands between posse and the kernel: it fails the n-th change of a file, or writes down every change and every
//! printed byte in order. `lab.rs` builds and starts it, `story.rs` is what is done meanwhile and what must hold
//! afterwards. The default run takes a sample; `POSSE_DISK_SITES=2000` and `POSSE_POWER_IMAGES=1000` run all of it.
#![allow(clippy::unwrap_used)]

mod damage;
mod faults;
mod image;
mod journal;
mod lab;
mod mending;
mod power;
mod small;
mod story;
#[path = "../support/mod.rs"]
mod support;
