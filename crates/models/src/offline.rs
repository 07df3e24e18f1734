//! Being written.
pub struct Explorer;
