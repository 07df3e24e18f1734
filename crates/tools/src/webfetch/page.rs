//! A page as a reader wants it: from the tags and texts of `html.rs` to the words and breaks of `writer.rs`.
//!
//! Decides what an element means, what is left out (scripts, navigation, what is hidden), and what an end tag closes.
//! Open elements are a list with a bound, not calls: a page of a hundred thousand nested boxes costs no stack. Knows nothing
//! of the network.

use std::{borrow::Cow, collections::HashMap};

use reqwest::Url;

use super::{
    html::{Attributes, Token, tokens},
    table::Grid,
    writer::{Gap, Mark, Style, Writer},
};

/// Elements that are open at one time; what is opened beyond has no effect of its own.
const OPEN_MAX: usize = 10_000;

/// How far up an element is looked for that another one closes by beginning. Only pages with left out end tags need it.
const IMPLIED_END_MAX: usize = 32;

/// A longer address is data in disguise.
const ADDRESS_BYTES_MAX: usize = 2_000;

/// One line.
const TITLE_CHARS_MAX: usize = 200;

/// Never closed, because they hold nothing.
const VOID: [&str; 14] = ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"];

/// What holds no words for a reader.
const LEFT_OUT: [&str; 22] = [
    "audio", "button", "canvas", "datalist", "embed", "frameset", "iframe", "input", "map", "nav", "noembed", "noframes", "object", "rp",
    "script", "select", "style", "svg", "template", "textarea", "video", "dialog",
];

/// Classes of line numbers beside code.
const NUMBER_CLASSES: [&str; 6] = ["blob-num", "gutter", "line-number", "lineno", "linenodiv", "linenos"];

/// Classes of the signs beside headings that lead to themselves.
const SIGN_CLASSES: [&str; 5] = ["anchor", "hash-link", "header-anchor", "headerlink", "permalink"];

/// An end tag for these reaches out of a cell.
const TABLE_PARTS: [&str; 8] = ["caption", "table", "tbody", "td", "tfoot", "th", "thead", "tr"];

#[derive(Debug, PartialEq)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) text: String,
    /// A part of the text did not fit.
    pub(super) is_cut: bool,
}

/// The words of an HTML page; `base` is its address, for the links in it.
pub(super) fn page(html: &str, base: &Url, style: Style) -> Page {
    let mut builder = Builder::new(base.clone(), style);
    for token in tokens(html) {
        match token {
            Token::Start { name, attributes } => builder.start(name, attributes),
            Token::End { name } => builder.end(&name),
            Token::Text(text) => builder.text(&text),
        }
        if builder.root.is_full() {
            break;
        }
    }
    builder.finish()
}

/// What the end of an element undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Nothing,
    Hidden,
    Title,
    /// Inside the main part of a page a footer belongs to what is read.
    Main,
    Mark(Mark),
    /// A line start, of the writer with this number.
    Prefix(usize),
    List,
    Preformatted,
    /// The table whose cells are kept.
    Grid,
    Cell,
}

struct Element<'a> {
    name: Cow<'a, str>,
    effect: Effect,
}

struct List {
    /// The number of the next item, if they are numbered.
    number: Option<u64>,
    has_items: bool,
}

#[derive(Default)]
struct Preformatted {
    text: String,
    language: String,
}

struct Builder<'a> {
    base: Url,
    style: Style,
    root: Writer,
    grid: Option<Grid>,
    /// How many cells had a writer; the number of the present one.
    writers: usize,
    open: Vec<Element<'a>>,
    /// How many elements of a name are open: in the present cell, and in each of the cells around it.
    counts: Vec<HashMap<Cow<'a, str>, usize>>,
    /// The same for the parts of tables, in all cells together.
    table_parts: HashMap<Cow<'a, str>, usize>,
    /// Where the cells begin among the open elements.
    cells: Vec<usize>,
    hidden: usize,
    mains: usize,
    lists: Vec<List>,
    preformatted: Option<Preformatted>,
    /// Of the box around the next code, if a box named one.
    language: String,
    in_title: bool,
    title: String,
}

impl<'a> Builder<'a> {
    fn new(base: Url, style: Style) -> Self {
        Self {
            base,
            style,
            root: Writer::new(style),
            grid: None,
            writers: 0,
            open: Vec::new(),
            counts: vec![HashMap::new()],
            table_parts: HashMap::new(),
            cells: Vec::new(),
            hidden: 0,
            mains: 0,
            lists: Vec::new(),
            preformatted: None,
            language: String::new(),
            in_title: false,
            title: String::new(),
        }
    }

    fn finish(mut self) -> Page {
        while !self.open.is_empty() {
            self.pop();
        }
        let (text, is_cut) = self.root.finish();
        let title = self.title.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(TITLE_CHARS_MAX).collect();
        Page { title, text, is_cut }
    }

    fn writer(&mut self) -> &mut Writer {
        self.grid.as_mut().and_then(|grid| grid.cell.as_mut()).unwrap_or(&mut self.root)
    }

    /// The number of the present writer; line starts are taken from the one that they were given to.
    fn writer_number(&self) -> usize {
        let in_cell = self.grid.as_ref().is_some_and(|grid| grid.cell.is_some());
        if in_cell { self.writers } else { 0 }
    }

    fn text(&mut self, text: &str) {
        if self.in_title {
            if self.title.len() < TITLE_CHARS_MAX * 4 {
                self.title.push_str(text);
            }
        } else if self.hidden != 0 {
        } else if let Some(preformatted) = &mut self.preformatted {
            preformatted.text.push_str(text);
        } else {
            if !self.language.is_empty() && !text.trim().is_empty() {
                self.language.clear();
            }
            self.writer().text(text);
        }
    }

    fn start(&mut self, name: Cow<'a, str>, attributes: Attributes<'a>) {
        self.imply_ends(&name);
        if VOID.contains(&&*name) {
            if self.hidden == 0 {
                self.void(&name, attributes);
            }
            return;
        }
        let effect = if name == "title" && self.hidden == 0 && self.title.is_empty() {
            self.in_title = true;
            Effect::Title
        } else if self.is_left_out(&name, attributes) {
            self.hidden += 1;
            Effect::Hidden
        } else if self.hidden != 0 {
            Effect::Nothing
        } else {
            self.gap(&name);
            match &mut self.preformatted {
                Some(preformatted) => {
                    if preformatted.language.is_empty() {
                        preformatted.language = language(attributes);
                    }
                    Effect::Nothing
                }
                None => self.effect(&name, attributes),
            }
        };
        if self.open.len() < OPEN_MAX {
            self.push(Element { name, effect });
        } else {
            self.undo(effect);
        }
    }

    fn end(&mut self, name: &str) {
        if name == "br" || name == "p" && self.is_open("p") == 0 {
            return self.gap_of(if name == "br" { Gap::Line } else { Gap::Block });
        }
        if self.is_open(name) != 0 {
            while self.pop().is_some_and(|closed| closed != name) {}
        }
    }

    /// How many elements of this name an end tag could close from here.
    fn is_open(&self, name: &str) -> usize {
        let counts = if TABLE_PARTS.contains(&name) { Some(&self.table_parts) } else { self.counts.last() };
        counts.and_then(|counts| counts.get(name)).copied().unwrap_or(0)
    }

    fn push(&mut self, element: Element<'a>) {
        if let Some(counts) = self.counts.last_mut() {
            *counts.entry(element.name.clone()).or_default() += 1;
        }
        if TABLE_PARTS.contains(&&*element.name) {
            *self.table_parts.entry(element.name.clone()).or_default() += 1;
        }
        if matches!(&*element.name, "td" | "th" | "caption") {
            self.cells.push(self.open.len());
            self.counts.push(HashMap::new());
        }
        self.open.push(element);
    }

    fn pop(&mut self) -> Option<Cow<'a, str>> {
        let Element { name, effect } = self.open.pop()?;
        if self.cells.last() == Some(&self.open.len()) {
            self.cells.pop();
            self.counts.pop();
        }
        for counts in self.counts.last_mut().into_iter().chain([&mut self.table_parts]) {
            if let Some(count) = counts.get_mut(&name) {
                *count = count.saturating_sub(1);
            }
        }
        self.undo(effect);
        if self.hidden == 0 {
            self.gap(&name);
        }
        Some(name)
    }

    fn undo(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Hidden => self.hidden -= 1,
            Effect::Title => self.in_title = false,
            Effect::Main => self.mains -= 1,
            Effect::Mark(mark) => self.writer().close(mark),
            Effect::Prefix(number) => self.pop_prefix(number),
            Effect::List => {
                self.lists.pop();
                if self.lists.is_empty() {
                    self.gap_of(Gap::Block);
                }
            }
            Effect::Preformatted => {
                let Preformatted { text, language } = self.preformatted.take().unwrap_or_default();
                let text = text.strip_prefix('\n').unwrap_or(&text);
                if text.trim().contains('\n') {
                    self.dissolve_grid();
                }
                self.writer().fenced(text, &language);
            }
            Effect::Cell => {
                if let Some(grid) = &mut self.grid {
                    grid.end_cell();
                }
            }
            Effect::Grid => {
                if let Some(grid) = self.grid.take() {
                    grid.write(&mut self.root, self.style);
                }
            }
        }
    }

    fn pop_prefix(&mut self, number: usize) {
        if self.writer_number() == number {
            self.writer().pop_prefix();
        }
    }

    /// A table with blocks in its cells only arranges a page; its cells are read one after the other.
    fn dissolve_grid(&mut self) {
        if let Some(grid) = self.grid.take() {
            grid.dissolve(&mut self.root);
        }
    }

    /// Closes what cannot hold the element that begins.
    fn imply_ends(&mut self, name: &str) {
        match name {
            "li" => self.end_nearest(&["li"], &["ul", "ol", "menu"]),
            "dt" | "dd" => self.end_nearest(&["dt", "dd"], &["dl"]),
            "a" if self.is_open("a") != 0 => self.end("a"),
            "td" | "th" => self.end_cell_of_this_table(),
            "tr" | "tbody" | "thead" | "tfoot" => {
                self.end_cell_of_this_table();
                self.end_nearest(&["tr"], &["table"]);
                if name != "tr" {
                    self.end_nearest(&["tbody", "thead", "tfoot"], &["table"]);
                }
            }
            _ => {}
        }
        if Gap::Line <= gap_around(name) {
            self.end_nearest(&["p"], &["div", "section", "article", "blockquote", "li", "td", "th", "main", "body", "table", "button"]);
        }
        if is_heading(name) && self.open.last().is_some_and(|last| is_heading(&last.name)) {
            self.pop();
        }
    }

    /// Ends the nearest of these elements, unless one of the others is nearer.
    fn end_nearest(&mut self, names: &[&str], walls: &[&str]) {
        let near = self.open.iter().rev().take(IMPLIED_END_MAX).map(|element| &*element.name);
        let depth = near.take_while(|name| !walls.contains(name)).position(|name| names.contains(&name));
        for _ in 0..depth.map_or(0, |depth| depth + 1) {
            self.pop();
        }
    }

    fn end_cell_of_this_table(&mut self) {
        let has_inner_table = self.counts.last().is_some_and(|counts| counts.get("table").is_some_and(|count| *count != 0));
        if let (Some(start), false) = (self.cells.last().copied(), has_inner_table) {
            while start < self.open.len() {
                self.pop();
            }
        }
    }

    fn is_left_out(&self, name: &str, attributes: Attributes<'a>) -> bool {
        if LEFT_OUT.contains(&name) || name == "footer" && self.mains == 0 {
            return true;
        }
        if attributes.is_empty() {
            return false;
        }
        let is = |attribute: &str, value: &str| attributes.get(attribute).is_some_and(|got| got.trim().eq_ignore_ascii_case(value));
        let has_class = |known: &[&str]| {
            let classes = attributes.get("class").unwrap_or_default();
            classes.split_whitespace().any(|class| known.contains(&class))
        };
        let is_invisible = || {
            let style = attributes.get("style").unwrap_or_default();
            let style: String = style.chars().filter(|letter| !letter.is_whitespace()).flat_map(char::to_lowercase).collect();
            style.contains("display:none") || style.contains("visibility:hidden")
        };
        attributes.get("hidden").is_some()
            || is("aria-hidden", "true")
            || is("role", "navigation")
            || matches!(name, "td" | "th" | "span" | "pre" | "div") && has_class(&NUMBER_CLASSES)
            || name == "a" && has_class(&SIGN_CLASSES) && attributes.get("href").is_some_and(|address| address.starts_with('#'))
            || is_invisible()
    }

    fn gap(&mut self, name: &str) {
        self.gap_of(gap_around(name));
    }

    fn gap_of(&mut self, gap: Gap) {
        if gap == Gap::None || self.hidden != 0 {
            return;
        }
        match &mut self.preformatted {
            Some(preformatted) if Gap::Line <= gap => {
                if !preformatted.text.is_empty() && !preformatted.text.ends_with('\n') {
                    preformatted.text.push('\n');
                }
            }
            Some(_) => {}
            None => self.writer().gap(gap),
        }
    }

    fn void(&mut self, name: &str, attributes: Attributes<'a>) {
        match name {
            "br" => {
                let in_link = self.is_open("a") != 0;
                match &mut self.preformatted {
                    Some(preformatted) => preformatted.text.push('\n'),
                    // It is no reason to end the link.
                    None => self.gap_of(if in_link { Gap::Space } else { Gap::Line }),
                }
            }
            "hr" if self.preformatted.is_none() => {
                self.dissolve_grid();
                let rule = if self.style.is_plain() { "----" } else { "---" };
                self.root.lines([rule]);
            }
            "img" => {
                let alt = attributes.get("alt").unwrap_or_default();
                if !alt.trim().is_empty() && !self.is_left_out(name, attributes) {
                    self.text(&format!("[image: {}]", alt.trim()));
                }
            }
            "base" => {
                if let Some(base) = attributes.get("href").and_then(|address| self.base.join(address.trim()).ok()) {
                    self.base = base;
                }
            }
            _ => {}
        }
    }

    /// What an element does to the words in it.
    fn effect(&mut self, name: &str, attributes: Attributes<'a>) -> Effect {
        match name {
            "b" | "strong" => self.mark(Mark::Strong, String::new()),
            "i" | "em" | "cite" => self.mark(Mark::Emphasis, String::new()),
            "code" | "kbd" | "samp" | "tt" => self.mark(Mark::Code, String::new()),
            "a" => match self.address(attributes) {
                Some(address) => self.mark(Mark::Link, address),
                None => Effect::Nothing,
            },
            "main" | "article" => {
                self.mains += 1;
                Effect::Main
            }
            "pre" | "listing" | "xmp" => {
                let own = language(attributes);
                let around = std::mem::take(&mut self.language);
                self.preformatted = Some(Preformatted { text: String::new(), language: if own.is_empty() { around } else { own } });
                Effect::Preformatted
            }
            "blockquote" => {
                let sign = if self.style.is_plain() { "  " } else { "> " };
                self.prefix(sign, sign)
            }
            "dd" => self.prefix("  ", "  "),
            "ul" | "ol" | "menu" | "dir" => self.list(name, attributes),
            "li" => self.item(),
            "table" => {
                self.dissolve_grid();
                let only_arranges = attributes.get("role").is_some_and(|role| matches!(role.trim(), "presentation" | "none"));
                if only_arranges {
                    return Effect::Nothing;
                }
                self.grid = Some(Grid::default());
                Effect::Grid
            }
            "tr" => {
                if let Some(grid) = &mut self.grid {
                    grid.start_row();
                }
                Effect::Nothing
            }
            "td" | "th" => self.cell(attributes),
            "div" => {
                let named = language(attributes);
                if !named.is_empty() {
                    self.language = named;
                }
                Effect::Nothing
            }
            _ if is_heading(name) => {
                let level = usize::from(name.as_bytes()[1] - b'0');
                let in_cell = self.writer_number() != 0;
                if in_cell {
                    return self.mark(Mark::Strong, String::new());
                }
                self.prefix(if self.style.is_plain() { String::new() } else { format!("{} ", "#".repeat(level)) }, "")
            }
            _ => Effect::Nothing,
        }
    }

    fn mark(&mut self, mark: Mark, address: String) -> Effect {
        self.writer().open(mark, address);
        Effect::Mark(mark)
    }

    fn prefix(&mut self, first: impl Into<String>, next: &'static str) -> Effect {
        self.writer().push_prefix(first, next);
        Effect::Prefix(self.writer_number())
    }

    fn list(&mut self, name: &str, attributes: Attributes<'a>) -> Effect {
        // A list in an item follows it without an empty line, and is set in under its words.
        let is_nested = !self.lists.is_empty();
        let start = attributes.get("start").and_then(|start| start.trim().parse().ok()).unwrap_or(1);
        self.lists.push(List { number: (name == "ol").then_some(start), has_items: false });
        if !is_nested {
            self.gap_of(Gap::Block);
        }
        Effect::List
    }

    fn item(&mut self) -> Effect {
        let mut sign = "- ".to_owned();
        let mut is_later = false;
        if let Some(list) = self.lists.last_mut() {
            is_later = std::mem::replace(&mut list.has_items, true);
            if let Some(number) = &mut list.number {
                sign = format!("{number}. ");
                *number = number.saturating_add(1);
            }
        }
        if is_later {
            self.writer().only_line();
        }
        let next = if sign.len() == 2 { "  " } else { "   " };
        self.prefix(sign, next)
    }

    fn cell(&mut self, attributes: Attributes<'a>) -> Effect {
        if self.grid.as_ref().is_some_and(Grid::is_too_large) {
            self.dissolve_grid();
        }
        // Without a grid it is the cell of a table that only arranges.
        let Some(grid) = &mut self.grid else { return Effect::Nothing };
        let span = attributes.get("colspan").and_then(|span| span.trim().parse().ok()).unwrap_or(1);
        grid.start_cell(Writer::new(self.style.in_cell()), span);
        self.writers += 1;
        Effect::Cell
    }

    /// Where a link leads, if that is a place to go to.
    fn address(&self, attributes: Attributes<'a>) -> Option<String> {
        let written = attributes.get("href")?;
        let written = written.trim();
        if written.starts_with('#') || ADDRESS_BYTES_MAX < written.len() {
            return None;
        }
        let address = self.base.join(written).ok()?;
        let is_place = matches!(address.scheme(), "http" | "https" | "mailto" | "ftp");
        let address = address.as_str();
        // A bar would end a cell, a closing parenthesis the link.
        (is_place && address.len() <= ADDRESS_BYTES_MAX).then(|| address.replace('|', "%7C").replace('(', "%28").replace(')', "%29"))
    }
}

fn is_heading(name: &str) -> bool {
    matches!(name.as_bytes(), [b'h', b'1'..=b'6'])
}

/// What stands before and after an element.
fn gap_around(name: &str) -> Gap {
    match name {
        "p" | "blockquote" | "pre" | "listing" | "xmp" | "table" | "section" | "article" | "main" | "header" | "footer" | "figure"
        | "hr" | "dl" | "details" | "aside" | "fieldset" | "form" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "body" => Gap::Block,
        "div" | "li" | "ul" | "ol" | "menu" | "dir" | "dt" | "dd" | "tr" | "figcaption" | "summary" | "address" | "legend" | "center"
        | "caption" | "hgroup" | "search" | "noscript" | "optgroup" | "option" | "tbody" | "thead" | "tfoot" => Gap::Line,
        "td" | "th" => Gap::Space,
        _ => Gap::None,
    }
}

/// The language that a class names: `language-rust`, `lang-js`, `highlight-source-shell`, `brush: python`.
fn language(attributes: Attributes<'_>) -> String {
    if attributes.is_empty() {
        return String::new();
    }
    let classes = attributes.get("class").unwrap_or_default().replace("brush: ", "brush:");
    let named = ["language-", "lang-", "highlight-source-", "highlight-", "brush:"]
        .iter()
        .find_map(|prefix| classes.split([' ', ';']).find_map(|class| class.trim().strip_prefix(prefix)));
    let named =
        named.map(str::to_owned).or_else(|| attributes.get("data-lang").or_else(|| attributes.get("data-language")).map(Cow::into_owned));
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '#' | '_' | '.');
    named.unwrap_or_default().trim().chars().take_while(|letter| is_plain(*letter)).take(20).collect()
}
