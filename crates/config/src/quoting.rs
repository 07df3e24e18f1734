//! Arguments put into a shell line that somebody else wrote, so that they stay data.
//!
//! Each becomes a literal between single quotes, and only where this reader knows for certain that the shell reads a plain
//! word, a double-quoted or a single-quoted text. Where it does not know (here-documents, arithmetic, `eval`, another
//! shell's line) the line is refused, never guessed at. What comes out is the very line that runs, so rules can judge it.

/// What stands at a place of a line and is replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Bytes of the line that it takes.
    pub(crate) len: usize,
    /// The words to put in. More than one only where they may stand apart; joined by spaces elsewhere.
    pub(crate) words: Vec<String>,
    /// A value of ours and not of the one who typed the command, so it may also name the command to run.
    pub(crate) ours: bool,
}

/// A line that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) line: String,
    /// Where in the line as it was written the slots stand.
    pub(crate) slots: Vec<usize>,
}

/// The line with every slot filled, or why that cannot be done safely.
pub(crate) fn fill(line: &str, slot_at: &dyn Fn(&str) -> Option<Slot>) -> Result<Filled, &'static str> {
    let words = Words { now: Word { command: true, ..Word::default() }, ..Words::default() };
    let mut filler =
        Filler { line, at: 0, out: String::with_capacity(line.len() + 32), slots: Vec::new(), stack: Vec::new(), slot_at, words };
    filler.run()?;
    filler.words.end();
    filler.words.verdict()?;
    Ok(Filled { line: filler.out, slots: filler.slots })
}

/// What an open quote or bracket is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Open {
    /// `(`.
    Bracket,
    /// `$(`, and the word that it stands in.
    Command(Word),
    Double,
}

struct Filler<'a> {
    line: &'a str,
    at: usize,
    out: String,
    slots: Vec<usize>,
    stack: Vec<Open>,
    slot_at: &'a dyn Fn(&str) -> Option<Slot>,
    words: Words,
}

impl Filler<'_> {
    fn run(&mut self) -> Result<(), &'static str> {
        while let Some(letter) = self.rest().chars().next() {
            match self.stack.last() {
                Some(Open::Double) => self.double(letter)?,
                _ => self.plain(letter)?,
            }
        }
        if self.stack.is_empty() { Ok(()) } else { Err("a quote or a bracket is not closed") }
    }

    fn rest(&self) -> &str {
        &self.line[self.at..]
    }

    fn copy(&mut self, bytes: usize) {
        let text = &self.line[self.at..self.at + bytes];
        self.out.push_str(text);
        self.words.text(text);
        self.at += bytes;
    }

    fn copy_two(&mut self) {
        let bytes = self.rest().chars().take(2).map(char::len_utf8).sum();
        self.copy(bytes);
    }

    fn skip_two(&mut self) {
        self.out.push_str(&self.line[self.at..self.at + 2]);
        self.at += 2;
    }

    fn plain(&mut self, letter: char) -> Result<(), &'static str> {
        let next = self.rest()[letter.len_utf8()..].chars().next();
        match letter {
            // The line goes on as if nothing stood here.
            '\\' if next == Some('\n') => self.skip_two(),
            '\\' => self.copy_two(),
            '\'' => return self.single(),
            '"' => {
                self.quote('"');
                self.stack.push(Open::Double);
            }
            '`' => return Err("it uses backquotes"),
            '$' => return self.dollar(next),
            '(' if next == Some('(') => return Err("it does arithmetic"),
            '(' => {
                self.separator(letter);
                self.stack.push(Open::Bracket);
            }
            ')' => match self.stack.pop() {
                // After one a command may begin: `f() { ...`.
                Some(Open::Bracket) => self.separator(letter),
                Some(Open::Command(word)) => {
                    self.words.end();
                    self.words.now = word;
                    self.skip(letter);
                }
                _ => return Err("its brackets do not match"),
            },
            '<' if next == Some('<') => return Err("it holds a here-document"),
            '<' | '>' => {
                self.words.redirect();
                self.skip(letter);
            }
            '#' if self.words.is_between() => return self.comment(),
            ';' | '|' | '&' | '\n' => self.separator(letter),
            ' ' | '\t' => {
                self.words.end();
                self.skip(letter);
            }
            '[' if next == Some('[') => return Err("it compares with [["),
            letter => self.copy(letter.len_utf8()),
        }
        Ok(())
    }

    fn double(&mut self, letter: char) -> Result<(), &'static str> {
        let next = self.rest()[letter.len_utf8()..].chars().next();
        match letter {
            '\\' => self.copy_two(),
            '"' => {
                self.quote('"');
                self.stack.pop();
            }
            '`' => return Err("it uses backquotes"),
            '$' => return self.dollar(next),
            letter => self.copy(letter.len_utf8()),
        }
        Ok(())
    }

    /// A quote is no letter of the word, but it makes one.
    fn quote(&mut self, quote: char) {
        self.words.now.begun = true;
        self.skip(quote);
    }

    fn skip(&mut self, letter: char) {
        self.out.push(letter);
        self.at += letter.len_utf8();
    }

    fn separator(&mut self, letter: char) {
        self.words.end();
        self.words.now.command = true;
        self.skip(letter);
    }

    fn dollar(&mut self, next: Option<char>) -> Result<(), &'static str> {
        if let Some(slot) = (self.slot_at)(self.rest()) {
            return self.put(slot);
        }
        match next {
            Some('(') if self.rest().starts_with("$((") => Err("it does arithmetic"),
            Some('(') => {
                self.words.computed();
                self.skip('$');
                // The word goes on after the bracket; what is inside is a line of its own.
                let around = std::mem::replace(&mut self.words.now, Word { command: true, ..Word::default() });
                self.stack.push(Open::Command(around));
                self.skip('(');
                Ok(())
            }
            Some('{') => {
                let name = self.rest()[2..].split('}').next().unwrap_or_default();
                let len = name.len() + 3;
                if name.is_empty() || !is_name(name) || self.rest().len() < len {
                    return Err("it changes a variable with ${...}");
                }
                self.words.computed();
                self.copy(len);
                Ok(())
            }
            Some('[') => Err("it does arithmetic"),
            Some('\'' | '"') if self.stack.last() != Some(&Open::Double) => Err("it uses $ before a quote"),
            // `$$`, `$?` and the like are two letters; the second never begins another.
            Some('$' | '?' | '!' | '#' | '@' | '*' | '-') => {
                self.words.computed();
                self.copy(2);
                Ok(())
            }
            _ => {
                self.words.computed();
                self.copy(1);
                Ok(())
            }
        }
    }

    fn put(&mut self, slot: Slot) -> Result<(), &'static str> {
        // `$'` would be another kind of quote.
        if self.out.ends_with('$') {
            return Err("it has a $ before an argument");
        }
        let double = self.stack.last() == Some(&Open::Double);
        self.words.slot(&slot)?;
        self.slots.push(self.at);
        self.at += slot.len;
        let words: Vec<String> = slot.words.iter().map(|word| quoted(word)).collect();
        if double {
            self.out.push_str(&format!("\"{}\"", quoted(&slot.words.join(" "))));
            self.words.now.begun = true;
        } else if words.iter().any(|word| word != "''") {
            // Nothing, between spaces, is no word at all.
            self.out.push_str(&words.join(" "));
            self.words.now.begun = true;
        }
        Ok(())
    }

    /// Between single quotes the shell changes nothing. Whoever writes a program there (`awk '{print $1}'`) means it so;
    /// `'$1'` and `'--since=$1'` mean the argument.
    fn single(&mut self) -> Result<(), &'static str> {
        let inside = &self.rest()[1..];
        let Some(end) = inside.find('\'') else { return Err("a quote is not closed") };
        let text = inside[..end].to_owned();
        self.quote('\'');
        let stop = self.at + end;
        let has_slots = !slots_in_single(&text, self.slot_at).is_empty();
        while self.at < stop {
            let slot = if has_slots { (self.slot_at)(self.rest()) } else { None };
            match slot {
                Some(slot) => {
                    self.words.slot(&slot)?;
                    self.slots.push(self.at);
                    self.at += slot.len;
                    self.out.push_str(&format!("'{}'", quoted(&slot.words.join(" "))));
                }
                None => {
                    let bytes = self.rest().chars().next().map_or(1, char::len_utf8);
                    self.copy(bytes);
                }
            }
        }
        self.quote('\'');
        Ok(())
    }

    fn comment(&mut self) -> Result<(), &'static str> {
        let end = self.rest().find('\n').unwrap_or(self.rest().len());
        let comment = &self.rest()[..end];
        if comment.char_indices().any(|(at, _)| (self.slot_at)(&comment[at..]).is_some()) {
            return Err("an argument stands in a comment");
        }
        self.out.push_str(&self.line[self.at..self.at + end]);
        self.at += end;
        Ok(())
    }
}

/// The slots of a single-quoted text: none when it is a program and not a word.
pub(crate) fn slots_in_single(text: &str, slot_at: &dyn Fn(&str) -> Option<Slot>) -> Vec<usize> {
    let mut slots = Vec::new();
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if let Some(slot) = slot_at(&text[at..]) {
            slots.push(at);
            at += slot.len;
        } else if letter.is_ascii_alphanumeric() || "_./:=@%+,-".contains(letter) {
            at += letter.len_utf8();
        } else {
            return Vec::new();
        }
    }
    slots
}

/// A text as one literal word of a POSIX shell.
pub(crate) fn quoted(text: &str) -> String {
    // No program can be given one, and a shell would drop it or end there.
    format!("'{}'", text.replace('\0', "").replace('\'', r"'\''"))
}

/// Words that hand what follows them to another reader, or make a command of it.
const HANDS_ON: [&str; 51] = [
    "eval",
    "source",
    ".",
    "exec",
    "command",
    "builtin",
    "trap",
    "let",
    "declare",
    "typeset",
    "local",
    "readonly",
    "export",
    "unset",
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "alias",
    "enable",
    "complete",
    "case",
    "esac",
    "coproc",
    "ssh",
    "su",
    "sudo",
    "doas",
    "runuser",
    "watch",
    "parallel",
    "xargs",
    "env",
    "nohup",
    "timeout",
    "nice",
    "ionice",
    "setsid",
    "stdbuf",
    "chroot",
    "unshare",
    "script",
    "at",
    "batch",
    "crontab",
    "sed",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "time",
];

/// Programs whose text may be an argument; with a file to run they are like any other.
const INTERPRETERS: [&str; 22] = [
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "mksh",
    "ash",
    "fish",
    "csh",
    "tcsh",
    "busybox",
    "python",
    "perl",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "tclsh",
    "osascript",
];

/// Variables whose value is run, or says what is.
const STEERING: [&str; 9] = ["PS4", "BASH_ENV", "ENV", "PATH", "SHELL", "PAGER", "EDITOR", "VISUAL", "IFS"];

/// `python3.12` is `python`.
const VERSION: [char; 11] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '.'];

/// After these a command begins all the same.
const KEYWORDS: [&str; 11] = ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "fi"];

/// The word that is being read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Word {
    text: String,
    begun: bool,
    /// It names a command, or the next one does.
    command: bool,
    /// It is a file that is written or read, or the next one is.
    redirect: bool,
}

/// The words of a line as far as needed to say whether an argument is only data in it.
#[derive(Default)]
struct Words {
    all: Vec<String>,
    now: Word,
    /// A command that is not spelled out.
    hidden_command: bool,
    /// There are slots that are no values of ours.
    has_arguments: bool,
}

impl Words {
    fn is_between(&self) -> bool {
        !self.now.begun
    }

    fn text(&mut self, text: &str) {
        self.now.text.push_str(text);
        self.now.begun = true;
    }

    fn names_command(&self) -> bool {
        self.now.command && !self.now.redirect && !is_assignment(&self.now.text)
    }

    fn computed(&mut self) {
        self.hidden_command |= self.names_command();
        self.now.begun = true;
    }

    fn slot(&mut self, slot: &Slot) -> Result<(), &'static str> {
        if slot.ours {
            return Ok(());
        }
        self.has_arguments = true;
        if self.names_command() {
            return Err("an argument would name the command to run");
        }
        let assigned = self.now.text.split_once('=').map_or("", |(name, _)| name);
        if STEERING.contains(&assigned) || ["GIT_", "LD_", "DYLD_"].iter().any(|start| assigned.starts_with(start)) {
            return Err("an argument would steer what other programs run");
        }
        if self.now.text.contains('[') {
            return Err("an argument stands in an index");
        }
        Ok(())
    }

    /// `2>` and `{name}>` are no words before the redirection.
    fn redirect(&mut self) {
        let text = &self.now.text;
        if text.chars().all(|letter| letter.is_ascii_digit()) || text.starts_with('{') && text.ends_with('}') {
            self.now.text.clear();
            self.now.begun = false;
        }
        self.end();
        self.now.redirect = true;
    }

    fn end(&mut self) {
        if !self.now.begun {
            return;
        }
        self.now.begun = false;
        let word = std::mem::take(&mut self.now.text);
        if KEYWORDS.contains(&word.as_str()) {
            self.now.command = true;
        } else if !self.now.redirect && !is_assignment(&word) {
            self.now.command = false;
        }
        self.now.redirect = false;
        self.all.push(word);
    }

    /// Whether the arguments of the line are data in it.
    fn verdict(&self) -> Result<(), &'static str> {
        if !self.has_arguments {
            return Ok(());
        }
        if self.hidden_command {
            return Err("the command it runs is not spelled out");
        }
        if self.all.iter().any(|word| word.contains("]=") || word.contains("]+=")) {
            return Err("it sets an element of an array");
        }
        for (at, word) in self.all.iter().enumerate() {
            let program = word.rsplit('/').next().unwrap_or(word).replace('\\', "");
            let program =
                if program.starts_with(|letter: char| letter.is_ascii_alphabetic()) { program.trim_end_matches(VERSION) } else { &program };
            let next = self.all.get(at + 1).map_or("", String::as_str);
            if HANDS_ON.contains(&program) {
                return Err("a program in it would read an argument as commands");
            }
            let runs_file = !next.starts_with('-') && next.contains(['.', '/']) || program.starts_with("python") && next == "-m";
            if INTERPRETERS.contains(&program) && !runs_file {
                return Err("a program in it would read an argument as commands");
            }
            if matches!(program, "test" | "[" | "printf") && self.all.iter().any(|word| matches!(word.as_str(), "-v" | "-R")) {
                return Err("it names a variable by an argument");
            }
        }
        Ok(())
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let name = name.strip_suffix('+').unwrap_or(name);
        !name.is_empty() && !name.starts_with(|letter: char| letter.is_ascii_digit()) && is_name(name)
    })
}

fn is_name(text: &str) -> bool {
    text.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
