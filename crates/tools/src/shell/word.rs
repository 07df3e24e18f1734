//! A word as bash would pass it: pieces after quote removal, each literal or not.
//!
//! Taking a word apart also finds what runs while it is expanded: substitutions, in any depth, are handed to the caller
//! as scripts. Knows no programs and no rules.

use brush_parser::word::{Parameter, ParameterExpr, ParameterTransformOp, TildeExpr, WordPiece, WordPieceWithSource};

use super::parse;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    /// `$name`, `${name}`, `${name:-default}`, `~`, `~+`: something whose value may be known.
    Variable {
        name: String,
        quoted: bool,
        source: String,
        default: Option<String>,
    },
    /// Another user's home, the directory stack.
    Elsewhere {
        source: String,
    },
    Unknown {
        quoted: bool,
        source: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Word {
    pub(super) pieces: Vec<Piece>,
}

impl Word {
    pub(super) fn plain(text: &str) -> Self {
        Self { pieces: vec![Piece::Text { text: text.to_owned(), quoted: true }] }
    }

    pub(super) fn unknown(source: &str) -> Self {
        Self { pieces: vec![Piece::Unknown { quoted: false, source: source.to_owned() }] }
    }

    /// One word with something unknown in it.
    pub(super) fn filled(text: &str) -> Self {
        Self { pieces: vec![Piece::Unknown { quoted: true, source: text.to_owned() }] }
    }

    /// The same if it has this sign of something that is put in.
    pub(super) fn filled_if(text: &str, sign: &str) -> Self {
        if text.contains(sign) { Self::filled(text) } else { Self::plain(text) }
    }

    /// For rules and people: quotes gone, expansions as they were written.
    pub(super) fn text(&self) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text { text, .. } => text.as_str(),
                Piece::Variable { source, .. } | Piece::Elsewhere { source } | Piece::Unknown { source, .. } => source,
            })
            .collect()
    }

    /// So that no other word reads the same: what was quoted is quoted, if that makes a difference.
    pub(super) fn quoted(&self) -> String {
        let mut source = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted: true } if !is_plain(text) => source.push_str(&format!("'{}'", text.replace('\'', "'\\''"))),
                Piece::Text { text, .. } => source.push_str(text),
                Piece::Variable { source: raw, .. } | Piece::Elsewhere { source: raw } | Piece::Unknown { source: raw, .. } => {
                    source.push_str(raw)
                }
            }
        }
        if source.is_empty() { "''".to_owned() } else { source }
    }

    /// The one value this word can have; nothing if it depends on anything.
    pub(super) fn literal(&self) -> Option<String> {
        (!self.is_dynamic() && !self.has_glob()).then(|| self.text())
    }

    /// What is written out in it; expansions are left out.
    fn literal_text(&self) -> String {
        let text = |piece: &Piece| match piece {
            Piece::Text { text, .. } => text.clone(),
            _ => String::new(),
        };
        self.pieces.iter().map(text).collect()
    }

    pub(super) fn is_dynamic(&self) -> bool {
        self.pieces.iter().any(|piece| !matches!(piece, Piece::Text { .. }) && !piece.is_home())
    }

    /// Whether it may become several words, or none.
    pub(super) fn splits(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Variable { quoted, source, .. } | Piece::Unknown { quoted, source } => (!quoted && !piece.is_home()) || is_list(source),
            _ => false,
        })
    }

    pub(super) fn has_glob(&self) -> bool {
        let mut open = false;
        self.pieces.iter().any(|piece| match piece {
            Piece::Text { text, quoted } => {
                let bracket = (!quoted).then(|| text.find('[')).flatten();
                let closed = if open { text.contains(']') } else { bracket.is_some_and(|at| text[at..].contains(']')) };
                open |= bracket.is_some();
                closed || (!quoted && text.contains(['*', '?']))
            }
            _ => false,
        })
    }

    /// Whether it may begin with a dash although it is not written so.
    pub(super) fn may_be_option(&self) -> bool {
        let is_quote = |piece: &&Piece| matches!(piece, Piece::Text { text, quoted: true } if text.is_empty());
        match self.pieces.iter().find(|piece| !is_quote(piece)) {
            // With a blank in it, it is a sentence: `"- $item"`.
            Some(Piece::Text { text, quoted: true }) if text.contains(char::is_whitespace) => false,
            Some(Piece::Text { text, quoted }) => {
                text.starts_with('-') && (self.is_dynamic() || self.has_glob()) && !text.contains('=')
                    || (text.is_empty() && !quoted && self.is_dynamic())
            }
            Some(_) => false,
            None => false,
        }
    }
}

impl Piece {
    /// `~` at the start: another spelling of a fixed path.
    fn is_home(&self) -> bool {
        matches!(self, Self::Variable { source, .. } if source == "~")
    }
}

/// What runs or changes while words are expanded.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// Sources of substitutions.
    pub(super) scripts: Vec<String>,
    /// `${name:=...}` sets a variable.
    pub(super) assigned: Vec<String>,
    /// Why the words cannot be known to be harmless.
    pub(super) opaque: Vec<&'static str>,
    /// Bash may read this text in another way than we do.
    pub(super) distrusted: Vec<&'static str>,
}

/// How quotes count where a text stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoting {
    None,
    Double,
}

impl Effects {
    /// A word as it stands in the source.
    pub(super) fn word(&mut self, source: &str) -> Word {
        if is_plain(source) {
            return Word { pieces: vec![Piece::Text { text: source.to_owned(), quoted: false }] };
        }
        if is_document(source) {
            self.script("cat".to_owned());
            return Word::filled(source);
        }
        match parse::word(source) {
            Ok(pieces) => {
                let mut word = Word::default();
                self.pieces(&pieces, source, Quoting::None, &mut word);
                if (source.contains('[') || source.contains("$'")) && runs_as_subscript(&word.literal_text()) {
                    self.distrusted.push(SUBSCRIPT);
                }
                word
            }
            Err(reason) => {
                self.distrusted.push(reason);
                Word::unknown(source)
            }
        }
    }

    /// A text that is expanded as if between double quotes: a here-document, an arithmetic expression, a subscript.
    pub(super) fn text(&mut self, source: &str) -> Word {
        let mut word = Word::default();
        if !source.contains(['$', '`']) {
            word.pieces.push(Piece::Text { text: source.to_owned(), quoted: true });
            return word;
        }
        match parse::expanded_text(source) {
            Ok(pieces) => self.pieces(&pieces, source, Quoting::Double, &mut word),
            Err(reason) => {
                self.distrusted.push(reason);
                word.pieces.push(Piece::Unknown { quoted: true, source: source.to_owned() });
            }
        }
        word
    }

    /// Text that bash evaluates as arithmetic or as a name with a subscript, although it came as plain data.
    pub(super) fn evaluated(&mut self, text: &str) {
        if text.contains(['$', '`']) {
            self.opaque.push("a subscript or an expression is evaluated");
            self.text(text);
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], source: &str, quoting: Quoting, word: &mut Word) {
        let quoted = quoting == Quoting::Double;
        for piece in pieces {
            let raw = source.get(piece.start_index..piece.end_index).unwrap_or_default();
            match &piece.piece {
                WordPiece::Text(text) => {
                    if text == "$" && source.get(piece.end_index..).is_some_and(|rest| rest.starts_with(['(', '{', '['])) {
                        self.distrusted.push("an expansion without an end");
                    }
                    if !quoted && has_process(text) {
                        self.distrusted.push(PROCESS);
                    }
                    word.pieces.push(Piece::Text { text: text.clone(), quoted });
                }
                WordPiece::SingleQuotedText(text) => word.pieces.push(Piece::Text { text: text.clone(), quoted: true }),
                WordPiece::AnsiCQuotedText(text) => word.pieces.push(Piece::Text { text: ansi_c(text), quoted: true }),
                WordPiece::EscapeSequence(text) => {
                    let text = text.strip_prefix('\\').filter(|text| *text != "\n").unwrap_or_default();
                    word.pieces.push(Piece::Text { text: text.to_owned(), quoted: true });
                }
                WordPiece::DoubleQuotedSequence(inner) | WordPiece::GettextDoubleQuotedSequence(inner) => {
                    word.pieces.push(Piece::Text { text: String::new(), quoted: true });
                    self.pieces(inner, source, Quoting::Double, word);
                }
                WordPiece::TildeExpansion(tilde) => word.pieces.push(home(tilde, raw)),
                WordPiece::ParameterExpansion(parameter) => {
                    if quoted && raw.contains('\'') {
                        self.distrusted.push("a quote in an expansion inside double quotes");
                    }
                    let name = self.parameter(parameter, quoting);
                    word.pieces.push(match name {
                        Some((name, default)) => Piece::Variable { name, quoted, source: raw.to_owned(), default },
                        None => Piece::Unknown { quoted, source: raw.to_owned() },
                    });
                }
                WordPiece::CommandSubstitution(script) => {
                    self.script(script.clone());
                    word.pieces.push(Piece::Unknown { quoted, source: raw.to_owned() });
                }
                WordPiece::BackquotedCommandSubstitution(_) => {
                    self.script(without_backquotes(raw, quoted));
                    word.pieces.push(Piece::Unknown { quoted, source: raw.to_owned() });
                }
                WordPiece::ArithmeticExpression(expression) => {
                    self.arithmetic(&expression.value);
                    word.pieces.push(Piece::Unknown { quoted: true, source: raw.to_owned() });
                }
            }
        }
    }

    fn script(&mut self, script: String) {
        if parse::has_comment(&script) {
            self.distrusted.push("a comment in a substitution");
        }
        self.scripts.push(script);
    }

    /// An arithmetic expression that stands in the source; its expansions happen, its names are only numbers.
    pub(super) fn arithmetic(&mut self, expression: &str) {
        if expression.contains([';', '\'', '"', '\n', '\\']) || has_two_words(expression) {
            self.distrusted.push("an expression that may be commands");
        }
        self.text(expression);
    }

    /// Walks everything an expansion contains; the name if it is only a variable's value, and the other value it may have.
    fn parameter(&mut self, expression: &ParameterExpr, quoting: Quoting) -> Option<(String, Option<String>)> {
        let mut words: Vec<&str> = Vec::new();
        let parameter = match expression {
            ParameterExpr::Parameter { parameter, indirect } => {
                self.subscript(parameter);
                return match parameter {
                    Parameter::Named(name) if !indirect => Some((name.clone(), None)),
                    _ => None,
                };
            }
            ParameterExpr::AssignDefaultValues { parameter, default_value, .. } => {
                if let Parameter::Named(name) | Parameter::NamedWithIndex { name, .. } = parameter {
                    self.assigned.push(name.clone());
                }
                words.extend(default_value.as_deref());
                parameter
            }
            ParameterExpr::UseDefaultValues { parameter, default_value: value, .. }
            | ParameterExpr::IndicateErrorIfNullOrUnset { parameter, error_message: value, .. }
            | ParameterExpr::UseAlternativeValue { parameter, alternative_value: value, .. }
            | ParameterExpr::RemoveSmallestSuffixPattern { parameter, pattern: value, .. }
            | ParameterExpr::RemoveLargestSuffixPattern { parameter, pattern: value, .. }
            | ParameterExpr::RemoveSmallestPrefixPattern { parameter, pattern: value, .. }
            | ParameterExpr::RemoveLargestPrefixPattern { parameter, pattern: value, .. }
            | ParameterExpr::UppercaseFirstChar { parameter, pattern: value, .. }
            | ParameterExpr::UppercasePattern { parameter, pattern: value, .. }
            | ParameterExpr::LowercaseFirstChar { parameter, pattern: value, .. }
            | ParameterExpr::LowercasePattern { parameter, pattern: value, .. } => {
                words.extend(value.as_deref());
                parameter
            }
            ParameterExpr::ReplaceSubstring { parameter, pattern, replacement, .. } => {
                words.push(pattern);
                words.extend(replacement.as_deref());
                parameter
            }
            ParameterExpr::Substring { parameter, offset, length, .. } => {
                self.arithmetic(&offset.value);
                if let Some(length) = length {
                    self.arithmetic(&length.value);
                }
                parameter
            }
            ParameterExpr::Transform { parameter, op, .. } => {
                if matches!(op, ParameterTransformOp::PromptExpand) {
                    self.opaque.push("a prompt expansion runs what the variable holds");
                }
                parameter
            }
            ParameterExpr::ParameterLength { parameter, .. } => parameter,
            ParameterExpr::VariableNames { .. } | ParameterExpr::MemberKeys { .. } => return None,
        };
        self.subscript(parameter);
        let mut default = None;
        for inner in words {
            // Patterns are expanded as if no quotes stood around them; a default is not.
            let value = matches!(
                expression,
                ParameterExpr::UseDefaultValues { .. }
                    | ParameterExpr::AssignDefaultValues { .. }
                    | ParameterExpr::UseAlternativeValue { .. }
                    | ParameterExpr::IndicateErrorIfNullOrUnset { .. }
            );
            if quoting == Quoting::Double && !value && has_process(inner) || inner.contains('\\') && has_process(&inner.replace("\\\n", ""))
            {
                self.distrusted.push(PROCESS);
            }
            let word = if quoting == Quoting::Double { self.text(inner) } else { self.word(inner) };
            default = word.literal();
        }
        match (expression, parameter) {
            (
                ParameterExpr::UseDefaultValues { indirect: false, .. }
                | ParameterExpr::AssignDefaultValues { indirect: false, .. }
                | ParameterExpr::UseAlternativeValue { indirect: false, .. },
                Parameter::Named(name),
            ) => Some((name.clone(), default)),
            _ => None,
        }
    }

    fn subscript(&mut self, parameter: &Parameter) {
        if let Parameter::NamedWithIndex { index, .. } = parameter {
            self.arithmetic(index);
        }
    }
}

/// `"$(cat <<'EOF' ... EOF)"`, as messages are written: whatever parentheses and quotes stand in it, all of it is text.
/// A double quote in it could end the word for an older bash.
fn is_document(source: &str) -> bool {
    let Some((tag, rest)) = source.strip_prefix("\"$(cat <<'").and_then(|rest| rest.split_once("'\n")) else { return false };
    let plain = !tag.is_empty() && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let body = rest.strip_suffix(")\"").map(|rest| rest.trim_end_matches('\n'));
    let body = body.and_then(|body| body.strip_suffix(tag)).and_then(|body| body.strip_suffix('\n'));
    plain && body.is_some_and(|body| !body.contains('"') && body.split('\n').all(|line| line != tag))
}

pub(super) const SUBSCRIPT: &str = "a subscript that holds a command";

const PROCESS: &str = "a process substitution inside a word";

/// The word grammar takes `<(...)` for text where bash runs it.
fn has_process(text: &str) -> bool {
    text.contains("<(") || text.contains(">(")
}

/// `name[... $(command) ...]`, kept as text: arithmetic that meets it in a variable runs the command.
pub(super) fn runs_as_subscript(text: &str) -> bool {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    if !text.contains(['$', '`']) {
        return false;
    }
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, letter) in text.char_indices() {
        match letter {
            '[' if 0 < depth || is_name(before) => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            '`' if 0 < depth => return true,
            '(' if 0 < depth && before == '$' && !is_field(&text[at + 1..]) => return true,
            _ => {}
        }
        before = letter;
    }
    false
}

/// `$@`, `${a[@]}`, `${!name}`: several words although quotes stand around them.
fn is_list(source: &str) -> bool {
    let expansion = source.starts_with('$') && !source.starts_with("$(");
    expansion && (["$@", "${@", "[@]", "${!"].iter().any(|sign| source.contains(sign)) || source.ends_with("@}"))
}

/// `$(NF)`, `$(i+1)`: what stands in awk's brackets all day.
fn is_field(rest: &str) -> bool {
    let inside = rest.split(')').next().unwrap_or_default();
    let number = inside.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
    let name = &inside[..inside.len() - number.len()];
    let plain = number.strip_prefix(['+', '-']).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
    matches!(name, "NF" | "NR" | "FNR" | "i" | "j" | "k" | "n") && (plain || (number.is_empty() && name.starts_with('N')))
}

/// Letters that mean nothing but themselves wherever they stand in a word.
fn is_plain(source: &str) -> bool {
    source.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./,:=+%@".contains(&byte))
}

fn home(tilde: &TildeExpr, source: &str) -> Piece {
    let variable = |name: &str| Piece::Variable { name: name.to_owned(), quoted: false, source: source.to_owned(), default: None };
    match tilde {
        TildeExpr::Home => variable("HOME"),
        TildeExpr::WorkingDir => variable("PWD"),
        _ => Piece::Elsewhere { source: source.to_owned() },
    }
}

/// `rm x`: two names with a blank between are no expression.
fn has_two_words(expression: &str) -> bool {
    let is_name = |word: &str, end: fn(&str) -> Option<char>| end(word).is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    words.windows(2).any(|pair| is_name(pair[0], |word| word.chars().next_back()) && is_name(pair[1], |word| word.chars().next()))
}

/// Bash removes one level of backslashes before it reads what is between backquotes.
fn without_backquotes(raw: &str, quoted: bool) -> String {
    let inner = raw.strip_prefix('`').and_then(|raw| raw.strip_suffix('`')).unwrap_or(raw);
    let mut script = String::with_capacity(inner.len());
    let mut letters = inner.chars().peekable();
    while let Some(letter) = letters.next() {
        let escapes = |next: char| matches!(next, '`' | '\\' | '$') || (quoted && next == '"');
        match letters.peek() {
            Some(next) if letter == '\\' && escapes(*next) => {}
            _ => {
                script.push(letter);
                continue;
            }
        }
        script.extend(letters.next());
    }
    script
}

/// The text of `$'...'`.
pub(super) fn ansi_c(source: &str) -> String {
    let mut text = String::new();
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        let Some(code) = letters.next() else {
            text.push('\\');
            break;
        };
        let mut number = |first: u32, radix: u32, digits: usize| {
            let mut value = first;
            for _ in 0..digits {
                match letters.peek().and_then(|digit| digit.to_digit(radix)) {
                    Some(digit) => value = value.wrapping_mul(radix).wrapping_add(digit),
                    None => break,
                }
                letters.next();
            }
            value
        };
        let value = match code {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            'x' => number(0, 16, 2),
            'u' => number(0, 16, 4),
            'U' => number(0, 16, 8),
            '0'..='7' => number(code.to_digit(8).unwrap_or(0), 8, 2) & 0xff,
            'c' => letters.next().map_or(0, |control| control as u32 & 0x1f),
            '\\' | '\'' | '"' | '?' => code as u32,
            other => {
                text.push('\\');
                other as u32
            }
        };
        if value == 0 {
            break;
        }
        text.push(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    text
}
