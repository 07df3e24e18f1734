//! Ways to write a command so that bash runs the same. Seeded: a failure is found again by its seed.

/// Small and good enough; the tests need no crate for this.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// One word, spelled with other quotes. The word has no characters that need quoting.
fn respell(word: &str, dice: &mut Dice) -> String {
    let mut text = String::new();
    for letter in word.chars() {
        match dice.below(9) {
            0 => text.push_str(&format!("'{letter}'")),
            1 => text.push_str(&format!("\"{letter}\"")),
            2 if letter.is_ascii_alphanumeric() && letter != '\n' => text.push_str(&format!("\\{letter}")),
            3 => text.push_str(&format!("''{letter}")),
            4 => text.push_str(&format!("\\\n{letter}")),
            5 if letter.is_ascii() => text.push_str(&format!("$'\\x{:02x}'", letter as u32)),
            6 if letter.is_ascii() => text.push_str(&format!("$'\\{:03o}'", letter as u32)),
            _ => text.push(letter),
        }
    }
    text
}

/// A simple command of plain words, respelled and with other blanks.
pub(crate) fn respelled(command: &str, dice: &mut Dice) -> String {
    let blanks = [" ", "  ", "\t", " \\\n ", " "];
    let mut text = String::new();
    for (at, word) in command.split(' ').enumerate() {
        if 0 < at {
            text.push_str(dice.pick::<&str>(&blanks));
        }
        text.push_str(&if dice.below(2) == 0 { respell(word, dice) } else { word.to_owned() });
    }
    text
}

/// Wrappers that run what follows, as a command of its own.
const AROUND: &[(&str, &str)] = &[
    ("", ""),
    ("ls; ", ""),
    ("ls && ", ""),
    ("false || ", ""),
    ("ls | ", ""),
    ("ls & ", ""),
    ("ls\n", ""),
    ("", " | cat"),
    ("", " && ls"),
    ("", " &"),
    ("", "; ls"),
    ("( ", " )"),
    ("( (", ") )"),
    ("{ ", "; }"),
    ("! ", ""),
    ("time ", ""),
    ("time -p ", ""),
    ("A=1 ", ""),
    ("A=1 B=\"$x\" ", ""),
    ("> out ", ""),
    ("2>&1 ", ""),
    ("", " 2>/dev/null"),
    ("", " < in"),
    ("if ", "; then ls; fi"),
    ("if ls; then ", "; fi"),
    ("while ls; do ", "; done"),
    ("for i in a b; do ", "; done"),
    ("until ", "; do ls; done"),
    ("case a in a) ", ";; esac"),
    ("f() { ", "; }; f"),
    ("coproc ", ""),
    ("echo $(", ")"),
    ("echo \"$(", ")\""),
    ("echo `", "`"),
    ("echo ${x:-$(", ")}"),
    ("echo \"${x:-$(", ")}\""),
    ("x=$(", ")"),
    ("x=$(", ") ls"),
    ("a=(1 $(", "))"),
    ("a[$(", ")]=1"),
    ("echo $((1+$(", ")))"),
    ("cat <<EOF\n$(", ")\nEOF"),
    ("cat <<-EOF\n\t`", "`\n\tEOF"),
    ("cat <<< $(", ")"),
    ("ls > $(", ")"),
    ("cat <(", ")"),
    ("echo ${x:-<(", ")}"),
    ("echo \"${x#<(", ")}\""),
    ("x=(${x/a/>(", ")})"),
    ("ls > >(", ")"),
    ("[[ -n $(", ") ]]"),
    ("(( $(", ") ))"),
    ("echo ${x/a/$(", ")}"),
    ("command ", ""),
    ("builtin command ", ""),
    ("exec ", ""),
    ("env ", ""),
    ("env -i A=1 ", ""),
    ("env -u A -- ", ""),
    ("timeout 5 ", ""),
    ("timeout -k 1 --signal=KILL 5s ", ""),
    ("nice ", ""),
    ("nice -n 5 ", ""),
    ("nohup ", ""),
    ("setsid ", ""),
    ("stdbuf -oL ", ""),
    ("ionice -c3 ", ""),
    ("xargs ", ""),
    ("xargs -0 -n1 ", ""),
    ("sudo ", ""),
    ("doas ", ""),
    ("chroot . ", ""),
    ("busybox ", ""),
    ("find . -exec ", " \\;"),
    ("find . -execdir ", " {} +"),
    ("taskset 1 ", ""),
    ("strace -f ", ""),
    ("unshare -r ", ""),
    ("eval ", ""),
    ("# ls\n", ""),
    ("ls # ls\n", ""),
];

/// Wrappers that take the command as one word of shell source.
const SCRIPTS: &[(&str, &str)] = &[
    ("bash -c ", ""),
    ("sh -c ", ""),
    ("bash -lc ", ""),
    ("bash -c -- ", ""),
    ("bash -o pipefail -ec ", " name"),
    ("eval ", ""),
    ("trap ", " EXIT"),
    ("bash <<< ", ""),
    ("sh -s <<< ", ""),
    ("su -c ", ""),
    ("ssh host ", ""),
    ("watch ", ""),
    ("zsh -c ", ""),
    ("/bin/bash -c ", ""),
    ("env bash -c ", ""),
    ("timeout 5 sh -c ", ""),
    ("xargs sh -c ", ""),
    ("find . -exec sh -c ", " \\;"),
    (". /dev/stdin <<< ", ""),
];

/// The command inside up to three other constructs.
pub(crate) fn wrapped(command: &str, dice: &mut Dice) -> String {
    let mut text = command.to_owned();
    for _ in 0..dice.below(4) {
        text = match dice.below(6) {
            0 if !text.contains('\'') => {
                let (before, after) = dice.pick(SCRIPTS);
                format!("{before}'{text}'{after}")
            }
            1 if !text.contains("EOF") => format!("bash <<'EOF'\n{text}\nEOF"),
            _ => {
                let (before, after) = dice.pick(AROUND);
                // What stands before a keyword or a newline must stay a command of its own.
                let simple =
                    !text.contains(['\n', ';', '&', '|', '(', '{', '<', '>', '`']) && !text.starts_with(['!', '#']) && !is_keyword(&text);
                let needs_simple = before.ends_with(' ') && after.is_empty() && !before.contains([';', '&', '|', '\n'])
                    || before.starts_with("find")
                    || *before == "x=$(" && after.ends_with("ls");
                let nested_backquotes = before.contains('`') && (text.contains('`') || text.contains('\\') || text.contains('$'));
                let nested_documents = before.contains("<<") && text.contains("<<")
                    || before.contains("((") && text.contains("<<")
                    || text.contains("((") && before.contains("<<");
                if (needs_simple && !simple)
                    || nested_backquotes
                    || nested_documents
                    || text.contains("EOF")
                    || before.contains('"') && text.contains('"')
                {
                    text
                } else {
                    // Two parentheses in a row would be arithmetic.
                    let blank = if before.ends_with('(') && text.starts_with('(') { " " } else { "" };
                    format!("{before}{blank}{text}{after}")
                }
            }
        };
    }
    text
}

fn is_keyword(text: &str) -> bool {
    ["if ", "while ", "until ", "for ", "case ", "time ", "coproc ", "[[", "f()", "a[", "a=", "x=", "A=", "2>"]
        .iter()
        .any(|keyword| text.starts_with(keyword))
}

const SIGNS: &str = "$(){}[]'\"`\\;&|<>#!~*?=,.:-+@%^ \n\trmls0x9é";

/// What nests, repeats or runs something; much of it without an end.
const UNITS: &[&str] = &[
    "$(",
    "${a[",
    "((",
    "\"$(",
    "`",
    "{",
    "[",
    "${x:-",
    "$((",
    "<<E\n",
    "a=(",
    "if ",
    "f() {",
    "'",
    "\"",
    "( ",
    "{a,",
    "!",
    "[\"",
    "rm2 ",
    "a=b ",
    "ls;",
    "ls|",
    "ls && ",
    "$x ",
    "${x}",
    "\"$x\"",
    "$(ls)",
    "{a,b}",
    "<(ls) ",
    "> a ",
    "env ",
    "2>&1 ",
    "case x in x) ",
    "x;;",
    "$'a'",
    "~/",
    "../",
    "*",
    "[a]",
    "eval ",
    "-c '",
    "[[ ",
    "a && ",
    "! ",
    "time ",
    "coproc ",
    "a[",
    "]",
    "a[1]=2 ",
    "$((1)) ",
    "\"`a`\"",
    "\\\n",
    "# \n",
    "x\n",
    "git ",
    "git push ",
    "-c a=b ",
    "xargs ",
    "find . -exec ",
    "-x ",
    "'a b' ",
    "::: ",
    "alias a=b ",
    "X=$(a) ",
    "PS1=$(a) ",
    "f(){ a;};",
    "(x=1);",
    "cd a&&",
    "{1..9}",
    "<<E ",
    "\nE\n",
    "cat <<'E'\n",
    "((1));",
    "-f a && ",
    "else ",
    "fi ",
    "done ",
    "}",
];

/// Nonsense of about this many bytes: noise, signs, or the same few pieces over and over between two others.
pub(crate) fn random_line(length: usize, dice: &mut Dice) -> String {
    let signs: Vec<char> = SIGNS.chars().collect();
    let mut pieces = |count: usize| (0..count).map(|_| *dice.pick(UNITS)).collect::<String>();
    let (before, unit, after) = (pieces(2), pieces(3), pieces(2));
    let line: String = match dice.below(8) {
        0 => (0..length).map(|_| char::from(dice.next() as u8)).collect(),
        1 => (0..length).map(|_| *dice.pick(&signs)).collect(),
        2 => (0..1 + dice.below(6)).map(|_| *dice.pick(&signs)).collect::<String>().repeat(length / 4),
        3 => (0..length / 3).map(|_| *dice.pick(UNITS)).collect(),
        4 => dice.pick(UNITS).repeat(length),
        5 => format!("{before}{}", dice.pick(UNITS).repeat(length)),
        6 => format!("{before}{}{after}", unit.repeat(length / unit.len())),
        _ => unit.repeat(length),
    };
    let line: String = line.chars().take(length).collect();
    if dice.below(2) == 0 { line + &after } else { line }
}
