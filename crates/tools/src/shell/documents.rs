//! Where the bodies of here-documents stand in a line: what is written there is data, however deep it nests.
//!
//! Only for limits that count signs before anything is parsed. Reads quotes, substitutions and comments just far enough
//! to be sure; from the first thing that could be read in two ways nothing is a body any more, so that too much is
//! counted and never too little.

pub(super) struct Documents {
    /// The text with blanks for every body, byte by byte.
    pub(super) without_bodies: String,
    /// An expansion stands in the line that begins a document, where the parser takes it apart wrongly.
    pub(super) mixed: bool,
}

pub(super) fn documents(text: &str) -> Documents {
    let mut reader =
        Reader { bytes: text.as_bytes(), at: 0, inside: vec![Inside::Commands { depth: 0 }], waiting: Vec::new(), mixed: false };
    let mut plain = text.as_bytes().to_vec();
    // `case a in a)` closes nothing, and only a grammar knows.
    if text.contains("<<") && !(text.contains("$(") && text.contains("case")) {
        while let Some((start, end)) = reader.next_body() {
            plain[start..end].fill(b' ');
        }
    }
    let unread = text.as_bytes()[..reader.at.min(text.len())].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    let mixed = reader.mixed || (reader.at < text.len() && may_be_mixed(text.get(unread..).unwrap_or(text)));
    Documents { without_bodies: String::from_utf8(plain).unwrap_or_else(|_| text.to_owned()), mixed }
}

/// The same question for a text that could not be read: after any `<<` up to the end of a line, or of everything where
/// quotes or a continuation may hide that end.
fn may_be_mixed(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("<<") {
        let line = rest[at..].split('\n').next().unwrap_or_default();
        let searched = if line.contains(['\'', '"', '\\']) { &rest[at..] } else { line };
        let here_string = searched.trim_start_matches("<<<").find("<<").is_none() && searched.starts_with("<<<");
        if !here_string && ["${", "$(", "$["].iter().any(|sign| searched.contains(sign)) {
            return true;
        }
        rest = &rest[at + searched.len()..];
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inside {
    Commands { depth: usize },
    Quotes,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    inside: Vec<Inside>,
    /// Ends of the documents begun in this line, and whether tabs before them go.
    waiting: Vec<(&'a [u8], bool)>,
    mixed: bool,
}

impl<'a> Reader<'a> {
    /// The next body's range; nothing once there is none, or no telling.
    fn next_body(&mut self) -> Option<(usize, usize)> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            let rest = &self.bytes[self.at..];
            let inside = *self.inside.last()?;
            if let Some(length) = plain_arithmetic(rest) {
                self.at += length;
                continue;
            }
            self.mixed |= !self.waiting.is_empty() && byte == b'$' && matches!(rest.get(1), Some(b'(' | b'{' | b'['));
            match (inside, byte) {
                (_, b'\\') => self.at += 2,
                (_, b'`') => return None,
                (_, b'$') if rest.starts_with(b"$((") || rest.starts_with(b"$[") => return None,
                (_, b'$') if rest.starts_with(b"$(") => {
                    self.inside.push(Inside::Commands { depth: 0 });
                    self.at += 2;
                }
                (_, b'$') if rest.starts_with(b"${") => self.at += plain_parameter(rest)?,
                (Inside::Quotes, b'"') => {
                    self.inside.pop();
                    self.at += 1;
                }
                (Inside::Quotes, _) => self.at += 1,
                (_, b'$') if matches!(rest.get(1), Some(b'\'' | b'"')) => return None,
                (_, b'\'') => self.at += 2 + rest[1..].iter().position(|byte| *byte == b'\'')?,
                (_, b'"') => {
                    self.inside.push(Inside::Quotes);
                    self.at += 1;
                }
                (Inside::Commands { depth }, b'(' | b')') => self.parenthesis(depth, byte)?,
                (_, b'#') if self.at_word() => self.comment()?,
                (_, b'<') if rest.starts_with(b"<<<") => self.at += 3,
                (_, b'<') if rest.starts_with(b"<<") => self.document()?,
                (_, b'\n') if !self.waiting.is_empty() => return self.body(),
                _ => self.at += 1,
            }
        }
    }

    fn parenthesis(&mut self, depth: usize, byte: u8) -> Option<()> {
        let outermost = self.inside.len() == 1;
        if byte == b'(' && self.bytes.get(self.at + 1) == Some(&b'(') {
            return None;
        }
        self.at += 1;
        match (byte, depth) {
            (b'(', _) => self.inside.push(Inside::Commands { depth: depth + 1 }),
            (_, 0) if outermost => {}
            _ if self.waiting.is_empty() => drop(self.inside.pop()),
            _ => return None,
        }
        Some(())
    }

    fn at_word(&self) -> bool {
        self.at == 0 || matches!(self.bytes[self.at - 1], b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')')
    }

    /// Inside a substitution the parser has its own mind about comments.
    fn comment(&mut self) -> Option<()> {
        if 1 < self.inside.len() {
            return None;
        }
        self.at += self.bytes[self.at..].iter().position(|byte| *byte == b'\n')?;
        Some(())
    }

    /// `<<TAG`, `<<-'TAG'`, `<< "TAG"`, `<<\TAG`.
    fn document(&mut self) -> Option<()> {
        let mut at = self.at + 2;
        let tabs = self.bytes.get(at) == Some(&b'-');
        at += usize::from(tabs);
        while matches!(self.bytes.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        let quote = self.bytes.get(at).copied().filter(|byte| matches!(byte, b'\'' | b'"' | b'\\'));
        at += usize::from(quote.is_some());
        let length = self.bytes[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        let tag = &self.bytes[at..at + length];
        at += length;
        if let Some(quote @ (b'\'' | b'"')) = quote {
            if self.bytes.get(at) != Some(&quote) {
                return None;
            }
            at += 1;
        }
        let ends = matches!(self.bytes.get(at), Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' | b'<' | b'>'));
        if tag.is_empty() || !ends {
            return None;
        }
        self.waiting.push((tag, tabs));
        self.at = at;
        Some(())
    }

    /// From the line after this one to the last end that is waited for.
    fn body(&mut self) -> Option<(usize, usize)> {
        let start = self.at + 1;
        let mut at = start;
        for (tag, tabs) in std::mem::take(&mut self.waiting) {
            loop {
                let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let line = &rest[..length];
                let indent = if tabs { line.iter().take_while(|byte| **byte == b'\t').count() } else { 0 };
                at += length + 1;
                if line[indent..] == *tag {
                    break;
                }
            }
        }
        let end = at.min(self.bytes.len());
        self.at = end;
        Some((start, end))
    }
}

/// The length of `$((1 << 2))` or `((x = 1))`, if nothing in it can be more than numbers, names and operators.
pub(super) fn plain_arithmetic(rest: &[u8]) -> Option<usize> {
    let start = usize::from(rest.first() == Some(&b'$'));
    if !rest[start..].starts_with(b"((") {
        return None;
    }
    let mut depth = 0usize;
    for (at, byte) in rest.iter().enumerate().skip(start) {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if byte.is_ascii_alphanumeric() || b"_ \t+-*/%&|^~!<>=?:,".contains(byte) => {}
            _ => return None,
        }
        // The second parenthesis closes right before the first, or they are two subshells.
        if *byte == b')' && depth == 1 {
            return (rest.get(at + 1) == Some(&b')')).then_some(at + 2);
        }
    }
    None
}

/// The length of `${name}`; anything longer may hold quotes that count otherwise.
fn plain_parameter(rest: &[u8]) -> Option<usize> {
    let name = rest[2..].iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
    (rest.get(2 + name) == Some(&b'}')).then_some(name + 3)
}
