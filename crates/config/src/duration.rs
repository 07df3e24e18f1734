//! Durations as people write them: `90s`, `10m`, `1h30m`, `500ms`, or a number of seconds.
//!
//! Used for the `limits` of a file and for the command line's flags alike.

use std::time::Duration;

use thiserror::Error;

/// A deadline beyond a year is a mistake, and adding it to a clock could overflow.
pub const DURATION_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("expected a duration like \"90s\", \"10m\" or \"1h30m\"")]
    Unreadable,
    #[error("expected a duration above zero")]
    Zero,
    #[error("expected a duration of at most a year")]
    TooLong,
}

/// Largest first: the order in which they may follow one another.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>()
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        return from_seconds(seconds);
    }
    let mut rest = text;
    let mut units = UNITS.iter();
    let mut milliseconds = 0_u64;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
        let number: u64 = match &rest[..digits] {
            "" => return Err(DurationError::Unreadable),
            number => number.parse().map_err(|_| DurationError::TooLong)?,
        };
        let unit = rest[digits..].split(|letter: char| letter.is_ascii_digit()).next().unwrap_or_default();
        // Each unit once and in order, so that `5m1h` is asked about and not guessed.
        let (_, factor) = units.find(|(name, _)| *name == unit).ok_or(DurationError::Unreadable)?;
        milliseconds = number.checked_mul(*factor).and_then(|part| milliseconds.checked_add(part)).ok_or(DurationError::TooLong)?;
        rest = &rest[digits + unit.len()..];
    }
    if text.is_empty() { Err(DurationError::Unreadable) } else { bounded(Duration::from_millis(milliseconds)) }
}

pub(crate) fn from_seconds(seconds: f64) -> Result<Duration, DurationError> {
    if seconds < 0.0 {
        return Err(DurationError::Zero);
    }
    bounded(Duration::try_from_secs_f64(seconds).map_err(|_| DurationError::TooLong)?)
}

fn bounded(duration: Duration) -> Result<Duration, DurationError> {
    match duration {
        // A millisecond is the smallest that can be written.
        duration if duration.as_millis() == 0 => Err(DurationError::Zero),
        duration if DURATION_MAX < duration => Err(DurationError::TooLong),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use posse_session::format_duration;

    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let table = [
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("45s", 45_000),
            ("500ms", 500),
            ("90", 90_000),
            ("0.5", 500),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            (" 5m ", 300_000),
            ("1h1m1s1ms", 3_661_001),
        ];
        for (text, milliseconds) in table {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_words() {
        use DurationError::{TooLong, Unreadable, Zero};
        let table = [
            ("", Unreadable),
            ("m", Unreadable),
            ("5 m", Unreadable),
            ("5x", Unreadable),
            ("1h30", Unreadable),
            ("30m1h", Unreadable),
            ("5m5m", Unreadable),
            ("-5", Unreadable),
            ("-5m", Unreadable),
            ("1e3", Unreadable),
            ("NaN", Unreadable),
            ("inf", Unreadable),
            ("5µs", Unreadable),
            ("0", Zero),
            ("0s", Zero),
            ("0.0001", Zero),
            ("99999d", TooLong),
            ("99999999999999999999s", TooLong),
            ("18446744073709551615h", TooLong),
            ("99999999999999999999", TooLong),
        ];
        for (text, error) in table {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
        assert_eq!(Unreadable.to_string(), "expected a duration like \"90s\", \"10m\" or \"1h30m\"");
    }

    #[test]
    fn what_is_written_is_read_back() {
        for text in ["10m", "1h30m", "45s", "500ms", "1m30s", "2h", "36h"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }
}
