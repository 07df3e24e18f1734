//! Being written.
mod offline;
pub use offline::Explorer;
