//! The text of a patch, read into what it wants of which file.
//!
//! Markers stand at the start of a line; what a model often gets wrong around them is forgiven (a missing end, a
//! here-document or a code fence around all, CRLF, a context line without its blank), because every context line is
//! compared with the file anyway. Pure; knows nothing of files. `locate.rs` finds the places.

/// One file of a patch.
#[derive(Debug, PartialEq)]
pub(super) struct Section {
    pub(super) path: String,
    pub(super) action: Action,
}

#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// The lines of a new file.
    Add {
        lines: Vec<String>,
    },
    Delete,
    Update {
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// One place to change.
#[derive(Debug, PartialEq, Default)]
pub(super) struct Hunk {
    /// What the `@@` lines say: lines above the place, from the outermost on.
    pub(super) anchors: Vec<Anchor>,
    pub(super) lines: Vec<Line>,
    /// The last line is the last of the file.
    pub(super) at_end: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Anchor {
    pub(super) text: String,
    /// Only a hint, from a header as diff writes it.
    pub(super) hint: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Keep(String),
    Remove(String),
    Add(String),
}

impl Hunk {
    /// The lines that must stand in the file.
    pub(super) fn lines_before(&self) -> Vec<&str> {
        self.lines
            .iter()
            .filter_map(|line| match line {
                Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
                Line::Add(_) => None,
            })
            .collect()
    }

    /// The lines that will.
    pub(super) fn lines_after(&self) -> Vec<&str> {
        self.lines
            .iter()
            .filter_map(|line| match line {
                Line::Keep(text) | Line::Add(text) => Some(text.as_str()),
                Line::Remove(_) => None,
            })
            .collect()
    }
}

/// Sections of one patch: a record of each must fit into one event of the log.
const SECTIONS_MAX: usize = 32;
/// Places changed by one patch.
const HUNKS_MAX: usize = 500;

const FORM: &str = "A patch has this form:\n*** Begin Patch\n*** Update File: path\n@@ a line above the change\n context line\n-old line\n+new line\n*** Add File: path\n+line\n*** Delete File: path\n*** End Patch";

/// What a line at the start of a line means.
enum Marker<'a> {
    Begin,
    End,
    Add(&'a str),
    Delete(&'a str),
    Update(&'a str),
    MoveTo(&'a str),
    EndOfFile,
    Unknown,
}

pub(super) fn parse(patch: &str) -> Result<Vec<Section>, String> {
    let mut sections: Vec<Section> = Vec::new();
    let mut blanks = Vec::new();
    // Between an end and the next beginning are words for people.
    let mut ended = false;
    for (number, line) in body(patch) {
        let wrong = |words: &str| Err(format!("apply_patch: line {number} of the patch (`{}`) {words}\n{FORM}", short(line)));
        let marker = marker(line);
        if marker.is_some() {
            blanks.clear();
        }
        ended &= !matches!(marker, Some(Marker::Begin));
        if ended {
            continue;
        }
        match marker {
            Some(Marker::Begin) => {}
            Some(Marker::End) => ended = true,
            Some(Marker::Add("") | Marker::Delete("") | Marker::Update("") | Marker::MoveTo("")) => return wrong("names no file."),
            Some(Marker::Add(path)) => sections.push(Section { path: path.into(), action: Action::Add { lines: Vec::new() } }),
            Some(Marker::Delete(path)) => sections.push(Section { path: path.into(), action: Action::Delete }),
            Some(Marker::Update(path)) => {
                sections.push(Section { path: path.into(), action: Action::Update { to: None, hunks: Vec::new() } })
            }
            Some(Marker::MoveTo(path)) => match sections.last_mut().map(|section| &mut section.action) {
                Some(Action::Update { to, hunks }) if to.is_none() && hunks.is_empty() => *to = Some(path.into()),
                _ => return wrong("must stand directly under an `*** Update File:` line."),
            },
            Some(Marker::EndOfFile) => match sections.last_mut().map(|section| &mut section.action) {
                Some(Action::Update { hunks, .. }) if !hunks.is_empty() => {
                    if let Some(last) = hunks.last_mut() {
                        last.at_end = true;
                    }
                }
                // The end of a new file is where it ends.
                Some(Action::Add { .. }) => {}
                _ => return wrong("must stand at the end of a hunk."),
            },
            Some(Marker::Unknown) => return wrong("is no marker of a patch."),
            None => {
                if let Err(words) = content(sections.last_mut(), line, &mut blanks) {
                    return wrong(words);
                }
            }
        }
    }
    sections.iter_mut().for_each(tidy);
    check(sections)
}

/// The numbered lines of the patch itself, without what a model wraps around it.
fn body(patch: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = patch.lines().map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let begin = lines.iter().position(|line| matches!(marker(line), Some(Marker::Begin)));
    let first = |line: &&str| matches!(marker(line), Some(Marker::Add(_) | Marker::Delete(_) | Marker::Update(_)));
    let from = begin.or_else(|| lines.iter().position(first)).unwrap_or(0);
    // `<<'EOF'` above the patch: the word that ends it.
    let ending =
        |line: &&str| line.split_once("<<").map(|(_, word)| word.trim_start_matches('-').trim().trim_matches(['\'', '"']).to_owned());
    let ending = lines[..from].iter().rev().find_map(ending).filter(|word| !word.is_empty());
    let fenced = lines[..from].iter().any(|line| line.trim_start().starts_with("```"));
    let is_wrapping = |line: &str| Some(line.trim()) == ending.as_deref() || (fenced && line.trim() == "```");
    let mut to = lines.len();
    while from < to && (lines[to - 1].trim().is_empty() || is_wrapping(lines[to - 1])) {
        to -= 1;
    }
    (from..to).map(move |at| (at + 1, lines[at]))
}

fn marker(line: &str) -> Option<Marker<'_>> {
    let rest = line.strip_prefix("***")?;
    let (word, path) = rest.split_once(':').unwrap_or((rest, ""));
    let path = unquoted(path.trim());
    Some(match word.trim().to_ascii_lowercase().as_str() {
        "begin patch" => Marker::Begin,
        "end patch" => Marker::End,
        "end of file" => Marker::EndOfFile,
        "add file" | "create file" => Marker::Add(path),
        "delete file" | "remove file" => Marker::Delete(path),
        "update file" => Marker::Update(path),
        "move to" | "rename to" => Marker::MoveTo(path),
        _ => Marker::Unknown,
    })
}

fn unquoted(path: &str) -> &str {
    ['`', '"', '\''].into_iter().find_map(|quote| path.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(path)
}

fn content(section: Option<&mut Section>, line: &str, blanks: &mut Vec<String>) -> Result<(), &'static str> {
    match section.map(|section| &mut section.action) {
        None if line.trim().is_empty() => Ok(()),
        None => Err("stands before the first file. Begin with `*** Update File:`, `*** Add File:` or `*** Delete File:`."),
        Some(Action::Add { lines }) => match line.strip_prefix('+') {
            Some(added) => {
                lines.append(blanks);
                lines.push(added.into());
                Ok(())
            }
            // Without its `+` it counts when the file goes on below it.
            None if line.trim().is_empty() => {
                blanks.push(String::new());
                Ok(())
            }
            None if line.starts_with("@@") && lines.is_empty() => Ok(()),
            None => Err("is in a new file, where every line begins with `+`."),
        },
        // The lines that go need not be said, and some models say them.
        Some(Action::Delete) if line.trim().is_empty() || line.starts_with('-') => Ok(()),
        Some(Action::Delete) => Err("follows `*** Delete File:`, which has no lines of its own."),
        Some(Action::Update { hunks, .. }) => {
            update(hunks, line);
            Ok(())
        }
    }
}

fn update(hunks: &mut Vec<Hunk>, line: &str) {
    if let Some(header) = line.strip_prefix("@@") {
        // Several headers under each other lead to one place.
        if hunks.last().is_none_or(|last| !last.lines.is_empty() || last.at_end) {
            hunks.push(Hunk::default());
        }
        if let (Some(hunk), Some(anchor)) = (hunks.last_mut(), anchor(header)) {
            hunk.anchors.push(anchor);
        }
        return;
    }
    let line = match line.split_at_checked(1) {
        Some(("+", text)) => Line::Add(text.into()),
        Some(("-", text)) => Line::Remove(text.into()),
        Some((" ", text)) => Line::Keep(text.into()),
        _ => Line::Keep(line.into()),
    };
    if hunks.last().is_none_or(|last| last.at_end) {
        hunks.push(Hunk::default());
    }
    if let Some(hunk) = hunks.last_mut() {
        hunk.lines.push(line);
    }
}

fn anchor(header: &str) -> Option<Anchor> {
    // `@@ -1,7 +1,8 @@ fn main() {`, as diff writes it: numbers that models do not count right, and a hint.
    if let Some((range, text)) = header.trim_start().split_once("@@").filter(|(range, _)| range.starts_with('-')) {
        let is_range = range.bytes().all(|byte| byte.is_ascii_digit() || b"-+, ".contains(&byte));
        if is_range {
            return Some(Anchor { text: text.strip_prefix(' ').unwrap_or(text).into(), hint: true })
                .filter(|anchor| !anchor.text.trim().is_empty());
        }
    }
    let text = header.strip_prefix(' ').unwrap_or(header);
    let text = text.strip_suffix("@@").map_or(text, str::trim_end);
    (!text.trim().is_empty()).then(|| Anchor { text: text.into(), hint: false })
}

/// Blank lines between sections belong to none of them.
fn tidy(section: &mut Section) {
    match &mut section.action {
        Action::Update { hunks, .. } => {
            for hunk in hunks.iter_mut() {
                let is_blank = |line: &Line| matches!(line, Line::Keep(text) if text.is_empty());
                while hunk.lines.last().is_some_and(is_blank) {
                    hunk.lines.pop();
                }
                let leading = hunk.lines.iter().take_while(|line| is_blank(line)).count();
                hunk.lines.drain(..leading);
            }
            hunks.retain(|hunk| !hunk.lines.is_empty());
        }
        Action::Add { .. } | Action::Delete => {}
    }
}

fn check(sections: Vec<Section>) -> Result<Vec<Section>, String> {
    if sections.is_empty() {
        return Err(format!("apply_patch: the patch names no file, so nothing was changed.\n{FORM}"));
    }
    if SECTIONS_MAX < sections.len() {
        return Err(format!(
            "apply_patch: the patch names {} files; at most {SECTIONS_MAX} can be changed in one call. Send it in parts.",
            sections.len()
        ));
    }
    let mut hunks_count = 0;
    for Section { path, action } in &sections {
        let Action::Update { to, hunks } = action else { continue };
        if hunks.is_empty() && to.is_none() {
            return Err(format!("apply_patch: `*** Update File: {path}` is followed by no lines to change.\n{FORM}"));
        }
        hunks_count += hunks.len();
    }
    if HUNKS_MAX < hunks_count {
        return Err(format!("apply_patch: the patch has {hunks_count} hunks; at most {HUNKS_MAX} in one call. Send it in parts."));
    }
    Ok(sections)
}

fn short(line: &str) -> String {
    line.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(text: &str) -> Line {
        Line::Keep(text.into())
    }

    fn remove(text: &str) -> Line {
        Line::Remove(text.into())
    }

    fn add(text: &str) -> Line {
        Line::Add(text.into())
    }

    fn named(text: &str) -> Anchor {
        Anchor { text: text.into(), hint: false }
    }

    fn updated(path: &str, hunks: Vec<Hunk>) -> Section {
        Section { path: path.into(), action: Action::Update { to: None, hunks } }
    }

    #[test]
    fn every_kind_of_section_is_read() {
        let patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n+two\n*** Update File: src/a.py\n*** Move to: src/b.py\n@@ class A:\n@@     def f(self):\n     x = 1\n-    y = 2\n+    y = 3\n@@\n-last\n+end\n*** End of File\n*** Delete File: old.txt\n*** End Patch\n";
        let hunks = vec![
            Hunk {
                anchors: vec![named("class A:"), named("    def f(self):")],
                lines: vec![keep("    x = 1"), remove("    y = 2"), add("    y = 3")],
                at_end: false,
            },
            Hunk { anchors: Vec::new(), lines: vec![remove("last"), add("end")], at_end: true },
        ];
        assert_eq!(
            parse(patch).unwrap(),
            [
                Section { path: "new.txt".into(), action: Action::Add { lines: vec!["one".into(), String::new(), "two".into()] } },
                Section { path: "src/a.py".into(), action: Action::Update { to: Some("src/b.py".into()), hunks } },
                Section { path: "old.txt".into(), action: Action::Delete },
            ]
        );
    }

    #[test]
    fn what_models_get_wrong_is_forgiven() {
        let plain = updated("a.txt", vec![Hunk { lines: vec![keep("x"), remove("y"), add("z")], ..Hunk::default() }]);
        for patch in [
            "*** Begin Patch\n*** Update File: a.txt\n@@\n x\n-y\n+z\n*** End Patch",
            // No `@@`, no end, no beginning.
            "*** Begin Patch\n*** Update File: a.txt\n x\n-y\n+z\n*** End Patch",
            "*** Begin Patch\n*** Update File: a.txt\n@@\n x\n-y\n+z\n",
            "*** Update File: a.txt\n@@\n x\n-y\n+z",
            // Wrapped as for a shell, or for a reader.
            "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: a.txt\n@@\n x\n-y\n+z\n*** End Patch\nEOF\n",
            "<<\"PATCH\"\n*** Begin Patch\n*** Update File: a.txt\n@@\n x\n-y\n+z\nPATCH\n",
            "Here it is:\n```diff\n*** Begin Patch\n*** Update File: a.txt\n@@\n x\n-y\n+z\n```\n",
            // Blanks and CRLF.
            "*** Begin Patch  \r\n*** Update File:   a.txt \r\n@@ \r\n x\r\n-y\r\n+z\r\n*** End Patch\r\n",
            "***Begin Patch\n\n*** update file: `a.txt`\n\n@@\n\n x\n-y\n+z\n\n*** End Patch\n\nDone!",
            // A context line without its blank.
            "*** Begin Patch\n*** Update File: a.txt\n@@\nx\n-y\n+z\n*** End Patch",
            "*** Begin Patch\n*** Update File: a.txt\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n*** End Patch",
        ] {
            assert_eq!(parse(patch).unwrap(), std::slice::from_ref(&plain), "{patch}");
        }
        let two = "*** Begin Patch\n*** Delete File: a\n*** End Patch\nand then\n*** Begin Patch\n*** Delete File: b\n*** End Patch\n";
        assert_eq!(parse(two).unwrap().len(), 2, "a second patch is not dropped");
        let added = |patch: &str| match &parse(patch).unwrap()[0].action {
            Action::Add { lines } => lines.join("|"),
            other => panic!("{other:?}"),
        };
        assert_eq!(added("*** Begin Patch\n*** Add File: a\n+x\n\n+y\n\n*** End Patch"), "x||y");
        assert_eq!(added("*** Begin Patch\n*** Add File: a\n*** End Patch"), "");
        let deleted = parse("*** Begin Patch\n*** Delete File: a\n-gone\n\n*** End Patch").unwrap();
        assert_eq!(deleted, [Section { path: "a".into(), action: Action::Delete }]);
    }

    #[test]
    fn headers_say_where() {
        for (header, expected) in [
            ("@@", None),
            ("@@   ", None),
            ("@@ def f():", Some(named("def f():"))),
            ("@@     def f():", Some(named("    def f():"))),
            ("@@ def f(): @@", Some(named("def f():"))),
            ("@@ -1,7 +1,8 @@", None),
            ("@@ -1 +1 @@ fn main() {", Some(Anchor { text: "fn main() {".into(), hint: true })),
            ("@@ - [ ] a list item", Some(named("- [ ] a list item"))),
        ] {
            assert_eq!(anchor(&header[2..]), expected, "{header}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_line() {
        for (patch, words) in [
            ("", "the patch names no file"),
            ("*** Begin Patch\n*** End Patch", "the patch names no file"),
            ("fix it please", "line 1 of the patch (`fix it please`) stands before the first file"),
            ("*** Begin Patch\n*** Update File: a\n*** End Patch", "`*** Update File: a` is followed by no lines to change"),
            (
                "*** Begin Patch\n*** Add File: a\ntext\n*** End Patch",
                "line 3 of the patch (`text`) is in a new file, where every line begins with `+`",
            ),
            ("*** Begin Patch\n*** Delete File: a\n+text\n*** End Patch", "line 3 of the patch (`+text`) follows `*** Delete File:`"),
            ("*** Begin Patch\n*** Patch File: a\n*** End Patch", "line 2 of the patch (`*** Patch File: a`) is no marker of a patch"),
            ("*** Begin Patch\n*** Update File:\n*** End Patch", "line 2 of the patch (`*** Update File:`) names no file"),
            ("*** Begin Patch\n*** Move to: b\n*** End Patch", "line 2 of the patch (`*** Move to: b`) must stand directly under"),
            ("*** Begin Patch\n*** Update File: a\n*** End of File\n*** End Patch", "must stand at the end of a hunk"),
        ] {
            let said = parse(patch).unwrap_err();
            assert!(said.starts_with("apply_patch: ") && said.contains(words), "{patch:?}: {said}");
        }
        let many: String = (0..33).map(|n| format!("*** Delete File: {n}\n")).collect();
        assert!(parse(&format!("*** Begin Patch\n{many}")).unwrap_err().contains("names 33 files; at most 32"));
        let hunks = "@@\n-a\n+b\n".repeat(501);
        assert!(parse(&format!("*** Begin Patch\n*** Update File: a\n{hunks}")).unwrap_err().contains("501 hunks; at most 500"));
    }
}
