//! The in-process `Client`: the same wishes a remote screen will have, on the log of this machine.
//!
//! HTTP comes here later. Knows the engine and the api, nothing of terminals or configuration.

mod local;
mod seek;

pub use local::Local;
