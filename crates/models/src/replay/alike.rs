//! What differs between two runs of the same thing, and does not matter: ids, folders, dates, durations, process numbers.
//!
//! [`Reader::alike`] replaces each by a word for its kind, and ids by their number in order of appearance, so that two runs read
//! the same. [`Reader::translate`] is the way back: a recorded text with the folders and ids of this run. Pure.

use std::collections::HashMap;

/// How our ids begin; [`ID_CHARS`] letters and digits follow.
const ID_PREFIXES: [&str; 5] = ["ses_", "call_", "msg_", "ask_", "evt_"];
const ID_CHARS: usize = 26;

/// The place under which every first name is somebody's passing file or folder.
pub(super) const TEMPORARY: &str = "tmp";

/// Whole words after a number that make it a time that something took. The longer ones first.
const UNITS: [&str; 17] = [
    "milliseconds",
    "millisecond",
    "minutes",
    "minute",
    "seconds",
    "second",
    "hours",
    "hour",
    "mins",
    "secs",
    "min",
    "sec",
    "ms",
    "us",
    "µs",
    "ns",
    "s",
];

/// The same, written right behind the number only.
const SHORT_UNITS: [&str; 2] = ["m", "h"];

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// Words before the number of a process.
const PROCESS: [&str; 4] = ["pid", "process", "PID", "Process"];

/// The ids of a conversation, in the order in which they came up.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    pub(super) seen: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Ids {
    fn number(&mut self, id: &str) -> usize {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        self.seen.push(id.to_owned());
        self.numbers.insert(id.to_owned(), self.seen.len());
        self.seen.len()
    }

    /// The same as it was when so many had come up.
    pub(super) fn first(&self, count: usize) -> Self {
        let seen: Vec<String> = self.seen.iter().take(count).cloned().collect();
        Self { numbers: seen.iter().enumerate().map(|(at, id)| (id.clone(), at + 1)).collect(), seen }
    }
}

/// Knows the folders of one run by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Reader {
    /// The longest path first: a project lies in a home.
    places: Vec<(String, String)>,
}

/// Something in a text that another run has otherwise.
enum Found<'a> {
    /// The name of a place.
    Place(&'a str),
    /// A passing file: only that it is one matters.
    Passing,
    Id,
    /// A word for the kind.
    Kind(&'static str),
}

impl Reader {
    pub(super) fn new(places: &[(String, String)]) -> Self {
        let whole = |(_, path): &&(String, String)| 1 < path.len();
        let mut places: Vec<(String, String)> = places.iter().filter(whole).cloned().collect();
        places.sort_by_key(|(_, path)| std::cmp::Reverse(path.len()));
        Self { places }
    }

    /// The text as any run would have it.
    pub(super) fn alike(&self, text: &str, ids: &mut Ids) -> String {
        self.rewrite(text, |found, piece, out| match found {
            Found::Place(name) => out.push_str(&format!("{{{name}}}")),
            Found::Passing => out.push_str("{tmp}"),
            Found::Id => {
                let kind = piece.split('_').next().unwrap_or_default();
                out.push_str(&format!("{{{kind} {}}}", ids.number(piece)));
            }
            Found::Kind(kind) => out.push_str(kind),
        })
    }

    /// A recorded text as this run has it: the folders of `here` and the ids that have the same numbers here.
    pub(super) fn translate(&self, text: &str, here: &Self, ids: &HashMap<&str, &str>) -> String {
        self.rewrite(text, |found, piece, out| match found {
            Found::Place(name) => out.push_str(here.place(name).unwrap_or(piece)),
            Found::Id => out.push_str(ids.get(piece).copied().unwrap_or(piece)),
            Found::Passing | Found::Kind(_) => out.push_str(piece),
        })
    }

    fn place(&self, name: &str) -> Option<&str> {
        self.places.iter().find(|(known, _)| known == name).map(|(_, path)| path.as_str())
    }

    fn rewrite(&self, text: &str, mut put: impl FnMut(Found<'_>, &str, &mut String)) -> String {
        let mut out = String::with_capacity(text.len());
        let (mut at, mut before) = (0, None);
        while let Some(letter) = text[at..].chars().next() {
            let rest = &text[at..];
            // Almost every letter begins nothing.
            let found = match letter {
                '/' => self.path(rest, before),
                '0'..='9' => time(rest, before),
                letter if letter.is_ascii_alphabetic() => named(rest, before),
                _ => None,
            };
            let (length, last) = match found {
                Some((found, skipped, length)) => {
                    out.push_str(&rest[..skipped]);
                    put(found, &rest[skipped..length], &mut out);
                    (length, rest[..length].chars().next_back())
                }
                None => {
                    out.push(letter);
                    (letter.len_utf8(), Some(letter))
                }
            };
            at += length;
            before = last;
        }
        out
    }

    fn path(&self, rest: &str, before: Option<char>) -> Option<(Found<'_>, usize, usize)> {
        if before.is_some_and(|before| is_name(before) || before == '/') {
            return None;
        }
        let (name, path) = self.places.iter().find(|(_, path)| {
            let after = rest.strip_prefix(path.as_str());
            after.is_some_and(|after| !after.starts_with(|next: char| next.is_alphanumeric() || matches!(next, '_' | '-')))
        })?;
        if name != TEMPORARY {
            return Some((Found::Place(name), 0, path.len()));
        }
        let passing = rest[path.len()..].strip_prefix('/')?;
        let length = passing.find(|letter: char| !is_name(letter)).unwrap_or(passing.len());
        (0 < length).then_some((Found::Passing, 0, path.len() + 1 + length))
    }
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// An id, a day by its name, or the number of a process. What comes before it in the piece is kept.
fn named(rest: &str, before: Option<char>) -> Option<(Found<'static>, usize, usize)> {
    if before.is_some_and(is_word) {
        return None;
    }
    if let Some(prefix) = ID_PREFIXES.iter().find(|prefix| rest.starts_with(**prefix)) {
        let length = prefix.len() + ID_CHARS;
        let is_id =
            rest.as_bytes().get(prefix.len()..length).is_some_and(|id| id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'A'..=b'Z')));
        let is_whole = is_id && !rest[length..].starts_with(is_word);
        return is_whole.then_some((Found::Id, 0, length));
    }
    let digits = |text: &str| text.len() - text.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    if let Some(word) = PROCESS.iter().find(|word| rest.starts_with(**word)) {
        let after = &rest[word.len()..];
        let gap = after.len() - after.trim_start_matches([' ', ':', '=']).len();
        let number = digits(&after[gap..]);
        return (0 < gap && gap <= 2 && 0 < number).then_some((Found::Kind("{pid}"), word.len() + gap, word.len() + gap + number));
    }
    if WEEKDAYS.iter().any(|day| rest.starts_with(day)) {
        let after = rest[3..].trim_start_matches([',', ' ']);
        let is_date = after.len() < rest.len() - 3 && (MONTHS.iter().any(|month| after.starts_with(month)) || 0 < digits(after));
        return is_date.then_some((Found::Kind("{weekday}"), 0, 3));
    }
    if MONTHS.iter().any(|month| rest.starts_with(month)) {
        let after = &rest[3..];
        let gap = after.len() - after.trim_start_matches(' ').len();
        let number = digits(&after[gap..]);
        return ((1..=2).contains(&gap) && (1..=2).contains(&number)).then_some((Found::Kind("{day}"), 0, 3 + gap + number));
    }
    None
}

/// A date, a time of day, or how long something took.
fn time(rest: &str, before: Option<char>) -> Option<(Found<'static>, usize, usize)> {
    // Part of a name, a version, or the place in a file.
    if before.is_some_and(|before| is_word(before) || matches!(before, '.' | ':' | '-' | '/')) {
        return None;
    }
    let kind = |kind, length| Some((Found::Kind(kind), 0, length));
    if let Some(length) = pattern(rest, "dddd-dd-dd") {
        let after = &rest[length..];
        let clock = after.strip_prefix(['T', ' ']).and_then(clock_length);
        let length = length + clock.map_or(0, |clock| 1 + clock);
        return (!rest[length..].starts_with(is_word)).then_some(()).and_then(|()| kind("{date}", length));
    }
    if let Some(length) = clock_length(rest) {
        return kind("{time}", length);
    }
    let mut length = duration_length(rest)?;
    // 1m30s, 0m0.003s, 2h 5m.
    while let Some(more) = duration_length(&rest[length..]) {
        length += more;
    }
    (!rest[length..].starts_with(is_word)).then_some(()).and_then(|()| kind("{duration}", length))
}

/// The length of a start that looks like this: `d` is a digit, everything else itself.
fn pattern(text: &str, pattern: &str) -> Option<usize> {
    let bytes = text.as_bytes().get(..pattern.len())?;
    let fits = |(byte, wanted): (&u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { *byte == wanted };
    bytes.iter().zip(pattern.bytes()).all(fits).then_some(pattern.len())
}

/// Hours, minutes and seconds, with what may follow them: fractions and a zone.
fn clock_length(text: &str) -> Option<usize> {
    let mut length = pattern(text, "dd:dd:dd").or_else(|| pattern(text, "d:dd:dd"))?;
    if let Some(fraction) = text[length..].strip_prefix('.') {
        length += 1 + fraction.len() - fraction.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    }
    let zone = &text[length..];
    length += match zone.strip_prefix(['+', '-']) {
        Some(zone) => pattern(zone, "dd:dd").or_else(|| pattern(zone, "dddd")).map_or(0, |zone| zone + 1),
        None => usize::from(zone.starts_with('Z')),
    };
    Some(length)
}

fn duration_length(text: &str) -> Option<usize> {
    let after = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let number = text.len() - after.len();
    if number == 0 {
        return None;
    }
    let fraction = after.strip_prefix('.').map(|rest| (rest, rest.trim_start_matches(|letter: char| letter.is_ascii_digit())));
    let after = fraction.filter(|(rest, left)| left.len() < rest.len()).map_or(after, |(_, left)| left);
    let is_unit = |unit: &&&str, text: &str| {
        text.strip_prefix(**unit).is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphabetic() || next == '_'))
    };
    let spaced = after.strip_prefix(' ').unwrap_or(after);
    if let Some(unit) = UNITS.iter().find(|unit| is_unit(unit, spaced)) {
        return Some(text.len() - spaced.len() + unit.len());
    }
    let unit = SHORT_UNITS.iter().find(|unit| is_unit(unit, after))?;
    Some(text.len() - after.len() + unit.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> Reader {
        let place = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        Reader::new(&[place("home", "/users/ann"), place("cwd", "/users/ann/work"), place(TEMPORARY, "/tmp")])
    }

    #[test]
    fn what_differs_between_runs_reads_the_same() {
        let table = [
            ("in /users/ann/work/src and /users/ann/.x", "in {cwd}/src and {home}/.x"),
            ("/users/ann/workshop /users/anna x/users/ann", "{home}/workshop /users/anna x/users/ann"),
            ("\"/users/ann/work\"", "\"{cwd}\""),
            ("/tmp/posse-x1.y/z and /tmp", "{tmp}/z and /tmp"),
            (
                "ses_01JDZZZZZZZZZZZZZZZZZZZZZZ, call_01JDZZZZZZZZZZZZZZZZZZZZZZ, ses_01JDZZZZZZZZZZZZZZZZZZZZZZ",
                "{ses 1}, {call 2}, {ses 1}",
            ),
            ("ses_01JD call_abc", "ses_01JD call_abc"),
            ("on 2026-11-16 and 2026-11-16T08:55:25.123Z or 2026-11-16 08:55:25+01:00", "on {date} and {date} or {date}"),
            ("Mon Nov 16 08:55:25 UTC", "{weekday} {day} {time} UTC"),
            ("took 1.25 s, 12ms, 3 seconds, 1m30s, 0m0.003s", "took {duration}, {duration}, {duration}, {duration}, {duration}"),
            ("main.rs:12:30 v1.2.3 3 sets 5 models 7m2", "main.rs:12:30 v1.2.3 3 sets 5 models 7m2"),
            ("pid 4711, process: 12, rapid 3, processes 4", "pid {pid}, process: {pid}, rapid 3, processes 4"),
            ("Marching May 5 Sunday", "Marching {day} Sunday"),
            ("żółć 漢字 5 µs", "żółć 漢字 {duration}"),
        ];
        for (text, expected) in table {
            assert_eq!(reader().alike(text, &mut Ids::default()), expected, "{text}");
        }
    }

    #[test]
    fn what_matters_stays_different() {
        let alike = |text: &str| reader().alike(text, &mut Ids::default());
        for (one, other) in [("3 lines", "4 lines"), ("exit 1", "exit 2"), ("a.txt", "b.txt"), ("v1.2.3", "v1.2.4"), ("x: 10", "x: 11")] {
            assert_ne!(alike(one), alike(other));
        }
    }

    #[test]
    fn a_recorded_text_is_told_with_the_folders_and_ids_of_this_run() {
        let here = Reader::new(&[("cwd".to_owned(), "/srv/b".to_owned()), ("home".to_owned(), "/admin".to_owned())]);
        let (old, new) = ("ses_01JDZZZZZZZZZZZZZZZZZZZZZZ", "ses_01JEYYYYYYYYYYYYYYYYYYYYYY");
        let text = format!("{{\"path\":\"/users/ann/work/a\",\"to\":\"{old}\",\"in\":\"5 s\"}} /users/ann/x /tmp/q");
        let told = reader().translate(&text, &here, &HashMap::from([(old, new)]));
        assert_eq!(told, format!("{{\"path\":\"/srv/b/a\",\"to\":\"{new}\",\"in\":\"5 s\"}} /admin/x /tmp/q"));
    }
}
