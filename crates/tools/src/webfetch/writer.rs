//! Lines of markdown, or of plain text, from words and breaks in the order they come.
//!
//! White space, line starts and marks are written only when a word follows, so nothing is written for what is empty. Knows
//! nothing of HTML. Nesting and the whole text are bounded, because a page may be made to grow without end.

/// A page of 5 MB with nothing but links can become a hundred times as long.
const TEXT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Deeper quotes and lists are written at this depth.
const PREFIXES_MAX: usize = 12;

/// What comes before the next word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    None,
    Space,
    Line,
    Block,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Markdown,
    Plain,
    /// In a table's cell: markdown on one line.
    Cell,
    PlainCell,
}

impl Style {
    pub(super) fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::PlainCell)
    }

    fn is_cell(self) -> bool {
        matches!(self, Self::Cell | Self::PlainCell)
    }

    pub(super) fn in_cell(self) -> Self {
        if self.is_plain() { Self::PlainCell } else { Self::Cell }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Strong,
    Emphasis,
    Code,
    Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No word yet.
    Waiting,
    /// Its first sign is at this place of the text.
    Open(usize),
    /// A link over several blocks: markdown has none, so the address follows the last of them.
    Broken,
}

struct Marked {
    mark: Mark,
    stage: Stage,
    /// Of a link.
    address: String,
}

/// What stands at the start of every line of a quote or a list item.
struct Prefix {
    /// On the first line, as long as that is not written.
    first: Option<String>,
    /// On all others.
    next: &'static str,
}

pub(super) struct Writer {
    out: String,
    style: Style,
    gap: Gap,
    prefixes: Vec<Prefix>,
    /// Prefixes beyond the deepest that is written.
    deeper: usize,
    marks: Vec<Marked>,
    is_full: bool,
}

impl Writer {
    pub(super) fn new(style: Style) -> Self {
        Self { out: String::new(), style, gap: Gap::None, prefixes: Vec::new(), deeper: 0, marks: Vec::new(), is_full: false }
    }

    /// The text, and whether a part of it did not fit.
    pub(super) fn finish(mut self) -> (String, bool) {
        while let Some(mark) = self.marks.last().map(|marked| marked.mark) {
            self.close(mark);
        }
        (self.out, self.is_full)
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn gap(&mut self, gap: Gap) {
        // The first words of a list item stand beside its sign, whatever paragraph they are in.
        let is_fresh = self.prefixes.last().is_some_and(|prefix| prefix.first.is_some());
        if !(is_fresh && Gap::Line <= self.gap) {
            self.gap = self.gap.max(gap);
        }
    }

    /// A line break, however large a gap was wanted.
    pub(super) fn only_line(&mut self) {
        self.gap = Gap::Line;
    }

    pub(super) fn text(&mut self, text: &str) {
        let mut rest = text;
        loop {
            let words = rest.trim_start();
            if words.len() < rest.len() {
                self.gap = self.gap.max(Gap::Space);
            }
            if words.is_empty() {
                return;
            }
            let word = &words[..words.find(char::is_whitespace).unwrap_or(words.len())];
            self.begin();
            match self.style {
                // A bar would end the cell.
                Style::Cell if word.contains('|') => self.push(&word.replace('|', "\\|")),
                _ => self.push(word),
            }
            rest = &words[word.len()..];
        }
    }

    pub(super) fn push_prefix(&mut self, first: impl Into<String>, next: &'static str) {
        if self.prefixes.len() < PREFIXES_MAX {
            self.prefixes.push(Prefix { first: Some(first.into()), next });
        } else {
            self.deeper += 1;
        }
    }

    pub(super) fn pop_prefix(&mut self) {
        match self.deeper {
            0 => drop(self.prefixes.pop()),
            _ => self.deeper -= 1,
        }
    }

    /// Whether words from here on are marked so; not when they already are.
    pub(super) fn open(&mut self, mark: Mark, address: String) {
        if !self.style.is_plain() && self.marks.iter().all(|marked| marked.mark != mark) {
            self.marks.push(Marked { mark, stage: Stage::Waiting, address });
        }
    }

    pub(super) fn close(&mut self, mark: Mark) {
        let Some(place) = self.marks.iter().position(|marked| marked.mark == mark) else { return };
        let marked = self.marks.remove(place);
        match marked.stage {
            Stage::Waiting => {}
            Stage::Open(at) => self.end_mark(mark, at, &marked.address),
            Stage::Broken => self.push(&format!(" <{}>", marked.address)),
        }
    }

    fn end_mark(&mut self, mark: Mark, at: usize, address: &str) {
        match mark {
            Mark::Strong => self.push("**"),
            Mark::Emphasis => self.push("*"),
            Mark::Link => self.push(&format!("]({address})")),
            Mark::Code => {
                let code = self.out.get(at + 1..).unwrap_or_default();
                if code.contains('`') {
                    let code = inline_code(code);
                    self.out.truncate(at);
                    self.push(&code);
                } else {
                    self.push("`");
                }
            }
        }
    }

    /// Lines as they are, between fences.
    pub(super) fn fenced(&mut self, text: &str, language: &str) {
        let text = text.trim_end();
        if text.trim().is_empty() {
            return;
        }
        if self.style.is_cell() {
            self.begin();
            return self.push(&if self.style.is_plain() { text.to_owned() } else { inline_code(text).replace('|', "\\|") });
        }
        let fence = if self.style.is_plain() { String::new() } else { "`".repeat(3.max(longest_run(text) + 1)) };
        self.gap(Gap::Block);
        self.fill_gap();
        if !fence.is_empty() {
            self.push(&format!("{fence}{language}"));
            self.new_line();
        }
        for (number, line) in text.lines().enumerate() {
            if number != 0 {
                self.new_line();
            }
            self.push(line.trim_end_matches('\r'));
        }
        if !fence.is_empty() {
            self.new_line();
            self.push(&fence);
        }
        self.gap(Gap::Block);
    }

    /// Lines that are complete in themselves: a table, a rule.
    pub(super) fn lines<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.gap(Gap::Block);
        for (number, line) in lines.into_iter().enumerate() {
            if number == 0 {
                self.fill_gap();
            } else {
                self.new_line();
            }
            self.push(line);
        }
        self.gap(Gap::Block);
    }

    /// Everything that stands before a word.
    fn begin(&mut self) {
        self.fill_gap();
        for place in 0..self.marks.len() {
            if self.marks[place].stage == Stage::Waiting {
                self.marks[place].stage = Stage::Open(self.out.len());
                self.push(match self.marks[place].mark {
                    Mark::Strong => "**",
                    Mark::Emphasis => "*",
                    Mark::Code => "`",
                    Mark::Link => "[",
                });
            }
        }
    }

    fn fill_gap(&mut self) {
        let gap = std::mem::replace(&mut self.gap, Gap::None);
        if self.out.is_empty() {
            return self.push_prefixes();
        }
        match gap {
            Gap::None => {}
            Gap::Space => self.push(" "),
            _ if self.style.is_cell() => {
                self.push(if self.style.is_plain() { " " } else { "<br>" });
                self.push_prefixes();
            }
            _ => {
                self.interrupt_marks();
                if gap == Gap::Block {
                    let quotes: String =
                        self.prefixes.iter().take_while(|prefix| prefix.first.is_none()).map(|prefix| prefix.next).collect();
                    self.push("\n");
                    self.push(quotes.trim_end());
                }
                self.new_line();
            }
        }
    }

    fn new_line(&mut self) {
        self.push("\n");
        self.push_prefixes();
    }

    fn push_prefixes(&mut self) {
        let is_cell = self.style.is_cell();
        let prefixes: String = self
            .prefixes
            .iter_mut()
            .map(|prefix| match (prefix.first.take(), is_cell) {
                (Some(first), _) => first,
                (None, false) => prefix.next.to_owned(),
                (None, true) => String::new(),
            })
            .collect();
        self.push(&prefixes);
    }

    /// No mark reaches over a line break: it is closed before and opened again after.
    fn interrupt_marks(&mut self) {
        for place in (0..self.marks.len()).rev() {
            let (mark, stage) = (self.marks[place].mark, self.marks[place].stage);
            match (mark, stage) {
                (_, Stage::Waiting | Stage::Broken) => {}
                (Mark::Link, Stage::Open(at)) => {
                    // Another mark that ended in between may have moved it.
                    if self.out.get(at..).is_some_and(|text| text.starts_with('[')) {
                        self.out.remove(at);
                    }
                    self.marks[place].stage = Stage::Broken;
                }
                (_, Stage::Open(at)) => {
                    self.end_mark(mark, at, "");
                    self.marks[place].stage = Stage::Waiting;
                }
            }
        }
    }

    fn push(&mut self, text: &str) {
        if TEXT_BYTES_MAX < self.out.len() + text.len() {
            self.is_full = true;
        } else {
            self.out.push_str(text);
        }
    }
}

fn inline_code(code: &str) -> String {
    match longest_run(code) {
        0 => format!("`{code}`"),
        run => {
            let fence = "`".repeat(run + 1);
            format!("{fence} {code} {fence}")
        }
    }
}

fn longest_run(text: &str) -> usize {
    text.split(|letter| letter != '`').map(str::len).max().unwrap_or(0)
}
