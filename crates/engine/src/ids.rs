//! Fresh ids: 26 characters that sort by time, also within one millisecond.

use std::sync::{Arc, Mutex};

use posse_session::{Clock, Ids};

/// Crockford's base 32: no letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

pub struct Ulids {
    clock: Arc<dyn Clock>,
    last: Mutex<u128>,
}

impl Ulids {
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: Mutex::new(0) }
    }

    /// 48 bits of time, 80 of chance; a later id is always the larger one, even when the clock goes back.
    fn next(&self) -> u128 {
        let fresh = (u128::from(self.clock.now().0) << 80) | (fastrand::u128(..) >> 48);
        let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *last = fresh.max(*last + 1);
        *last
    }
}

impl Ids for Ulids {
    fn fresh(&self, prefix: &str) -> String {
        let mut number = self.next();
        let mut letters = [0u8; 26];
        for letter in letters.iter_mut().rev() {
            *letter = ALPHABET[(number & 31) as usize];
            number >>= 5;
        }
        format!("{prefix}{}", String::from_utf8_lossy(&letters))
    }
}
