//! Moving text from the indentation it was written with to the one of the place it goes to.
//!
//! What moves where is learned from lines that are known to be the same: one given indentation stands for one of the
//! file, and deeper for deeper, or there is no sane way and none is guessed. Pure.

/// Which indentation of the file each given one stands for, the shortest first.
#[derive(Debug, PartialEq)]
pub(crate) struct Shift(Vec<(String, String)>);

impl Shift {
    /// Learned from pairs of lines, as given and as they stand in the file; lines of blanks say nothing.
    pub(crate) fn between<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut known: Vec<(String, String)> = Vec::new();
        for (given, there) in lines.filter(|(given, _)| !given.trim().is_empty()) {
            let (given, there) = (blanks(given), blanks(there));
            match known.iter().find(|(known, _)| known == given) {
                Some((_, known)) if known == there => {}
                Some(_) => return None,
                None => known.push((given.to_owned(), there.to_owned())),
            }
        }
        known.sort_by_key(|(given, _)| given.len());
        let sane = |(outer, outer_there): &(String, String), (inner, inner_there): &(String, String)| {
            !inner.starts_with(outer.as_str()) || inner_there.starts_with(outer_there.as_str())
        };
        let ordered = known.iter().enumerate().all(|(place, outer)| known[place + 1..].iter().all(|inner| sane(outer, inner)));
        ordered.then_some(Self(known))
    }

    /// Every line moved; lines of blanks stay as they are.
    pub(crate) fn moved(&self, text: &str) -> String {
        text.split('\n').map(|line| if line.trim().is_empty() { line.to_owned() } else { self.line(line) }).collect::<Vec<_>>().join("\n")
    }

    fn line(&self, line: &str) -> String {
        let given = blanks(line);
        let body = &line[given.len()..];
        // As deep as a known line, or deeper by some steps.
        if let Some((known, there)) = self.0.iter().rev().find(|(known, _)| given.starts_with(known.as_str())) {
            return format!("{there}{}{body}", self.steps(&given[known.len()..]));
        }
        // Less deep than all of them: as much less in the file, where that can be told.
        let outer = self.0.first().and_then(|(known, there)| there.strip_suffix(self.steps(known.strip_prefix(given)?).as_str()));
        format!("{}{body}", outer.unwrap_or(given))
    }

    /// Blanks beyond a known indentation, in the file's own kind of steps.
    fn steps(&self, mut rest: &str) -> String {
        let mut steps = String::new();
        if let Some((given, there)) = self.step() {
            while let Some(less) = rest.strip_prefix(given.as_str()) {
                steps.push_str(&there);
                rest = less;
            }
        }
        steps + rest
    }

    /// One step as it was given and as the file has it.
    fn step(&self) -> Option<(String, String)> {
        let between = |(outer, inner): (&(String, String), &(String, String))| {
            let (given, there) = (inner.0.strip_prefix(outer.0.as_str())?, inner.1.strip_prefix(outer.1.as_str())?);
            (!given.is_empty() && !there.is_empty()).then(|| (given.to_owned(), there.to_owned()))
        };
        let neighbours = self.0.iter().zip(self.0.iter().skip(1));
        neighbours
            .filter_map(between)
            .min_by_key(|(given, _)| given.len())
            .or_else(|| self.0.iter().find_map(|(given, there)| tabs(given, there)))
    }
}

/// Spaces for tabs, or the other way, when one is a whole number of the other.
fn tabs(given: &str, there: &str) -> Option<(String, String)> {
    let (spaces, tabs, is_given) = match (given.trim_matches(' '), there.trim_matches('\t')) {
        ("", "") => (given.len(), there.len(), true),
        _ if given.trim_matches('\t').is_empty() && there.trim_matches(' ').is_empty() => (there.len(), given.len(), false),
        _ => return None,
    };
    if tabs == 0 || spaces == 0 || spaces % tabs != 0 {
        return None;
    }
    let step = " ".repeat(spaces / tabs);
    Some(if is_given { (step, "\t".into()) } else { ("\t".into(), step) })
}

fn blanks(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(given: &str, there: &str, new: &str) -> Option<String> {
        Shift::between(given.lines().zip(there.lines())).map(|shift| shift.moved(new))
    }

    #[test]
    fn lines_move_as_the_lines_beside_them_did() {
        for (given, there, new, result) in [
            ("a", "    a", "b\n  c\n\nd", "    b\n      c\n\n    d"),
            ("    a", "a", "    b\n        c\n", "b\n    c\n"),
            ("    a", "\ta", "    b\n        c\n            d", "\tb\n\t\tc\n\t\t\td"),
            ("\ta", "    a", "\tb\n\t\tc", "    b\n        c"),
            // The first line was cut out of the middle of its line, the others were not.
            ("if x:\n        a", "    if x:\n        a", "if y:\n        b\n            c", "    if y:\n        b\n            c"),
            // Steps of two in a file of steps of four.
            ("f:\n  a", "f:\n    a", "f:\n  b:\n    c:\n      d", "f:\n    b:\n        c:\n            d"),
            // One less than what is known.
            ("        a", "            a", "        b\n    c", "            b\n        c"),
            ("\t\ta", "        a", "\t\tb\n\tc\nd", "        b\n    c\nd"),
            ("  a", "\ta", "b", "b"),
            ("  a", "\t\ta", "b", "b"),
        ] {
            assert_eq!(moved(given, there, new).as_deref(), Some(result), "{given:?} at {there:?}: {new:?}");
        }
    }

    #[test]
    fn nothing_is_guessed_where_the_structure_is_another() {
        // One indentation for two: where would a new line go?
        assert_eq!(moved("if a:\nb()", "    if a:\n        b()", "if a:\nc()"), None);
        // Deeper for less deep.
        assert_eq!(moved("a\n    b", "        a\n    b", "a"), None);
    }
}
