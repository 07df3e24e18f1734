//! Little languages in arguments: sed scripts and awk programs that execute, write or read other files.
//!
//! Each is read just far enough to tell; what is not understood counts as dangerous.

/// What a sed script does beyond printing; nothing if it is harmless.
pub(super) fn sed(script: &str) -> Option<&'static str> {
    let letters: Vec<char> = script.chars().collect();
    let mut at = 0;
    while at < letters.len() {
        at = skip_address(&letters, at)?;
        let Some(&command) = letters.get(at) else { break };
        at += 1;
        match command {
            '{' | '}' | ';' | '\n' | ' ' | '\t' | '!' | ',' => {}
            'e' => return Some("sed's `e` executes"),
            'w' | 'W' => return Some("sed's `w` writes a file"),
            'r' | 'R' => {
                let end = line_end(&letters, at);
                let file: String = letters[at..end].iter().collect();
                if leads_out(file.trim()) {
                    return Some("sed's `r` reads a file outside");
                }
                at = end;
            }
            's' => match substitution(&letters, at) {
                Some((end, None)) => at = end,
                Some((_, reason)) => return reason,
                None => return Some("a sed script that is not understood"),
            },
            'y' => match delimited(&letters, at, 2) {
                Some(end) => at = end,
                None => return Some("a sed script that is not understood"),
            },
            'a' | 'i' | 'c' | ':' | 'b' | 't' | 'T' | 'q' | 'Q' | 'l' | 'L' | 'v' | '#' => {
                let text = matches!(command, 'a' | 'i' | 'c' | '#');
                while at < letters.len() && letters[at] != '\n' && (text || !matches!(letters[at], ';' | '}')) {
                    at += if text && letters[at] == '\\' { 2 } else { 1 };
                }
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | '=' | 'z' | 'F' => {}
            _ => return Some("a sed script that is not understood"),
        }
    }
    None
}

/// Past addresses and blanks. Never fails for good: an unclosed address ends at the end.
fn skip_address(letters: &[char], mut at: usize) -> Option<usize> {
    while at < letters.len() {
        match letters[at] {
            '0'..='9' | '$' | ',' | '~' | '+' | ' ' | '\t' | ';' | '\n' | '!' | '{' | '}' => at += 1,
            '/' => {
                at = delimited(letters, at, 1).unwrap_or(letters.len());
                at = skip_regex_flags(letters, at);
            }
            '\\' => {
                at = delimited(letters, at + 1, 1).unwrap_or(letters.len());
                at = skip_regex_flags(letters, at);
            }
            _ => break,
        }
    }
    Some(at)
}

fn skip_regex_flags(letters: &[char], mut at: usize) -> usize {
    while matches!(letters.get(at), Some('I' | 'M')) {
        at += 1;
    }
    at
}

/// From the opening delimiter past `parts` closing ones.
fn delimited(letters: &[char], start: usize, parts: usize) -> Option<usize> {
    let delimiter = *letters.get(start)?;
    if delimiter == '\\' || delimiter == '\n' {
        return None;
    }
    let (mut at, mut left, mut class) = (start + 1, parts, false);
    while at < letters.len() {
        match letters[at] {
            '\\' => at += 1,
            '[' if !class => class = letters[at + 1..].contains(&']'),
            ']' if class => class = false,
            // Sed versions differ on delimiters in brackets; the first one ends it, so that nothing is hidden.
            letter if letter == delimiter => {
                left -= 1;
                class = false;
                if left == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The end of `s/a/b/flags`, and what its flags do.
fn substitution(letters: &[char], start: usize) -> Option<(usize, Option<&'static str>)> {
    let mut at = delimited(letters, start, 2)?;
    while let Some(flag) = letters.get(at) {
        match flag {
            'e' => return Some((at, Some("sed's `s///e` executes"))),
            'w' => return Some((at, Some("sed's `s///w` writes a file"))),
            'g' | 'p' | 'i' | 'I' | 'm' | 'M' | '0'..='9' => at += 1,
            _ => break,
        }
    }
    Some((at, None))
}

fn line_end(letters: &[char], at: usize) -> usize {
    letters[at..].iter().position(|letter| *letter == '\n').map_or(letters.len(), |found| at + found)
}

fn leads_out(file: &str) -> bool {
    file.starts_with('/') || file.starts_with('~') || file.split('/').any(|part| part == "..")
}

/// What an awk program does beyond computing and printing; nothing if it is harmless.
pub(super) fn awk(program: &str) -> Option<&'static str> {
    let letters: Vec<char> = program.chars().collect();
    let mut at = 0;
    let (mut printing, mut depth) = (false, 0i32);
    // Whether a slash divides: it does after a value.
    let mut after_value = false;
    while at < letters.len() {
        let letter = letters[at];
        match letter {
            '"' => {
                at = past_quoted(&letters, at, '"');
                after_value = true;
                continue;
            }
            '/' if !after_value => {
                at = past_quoted(&letters, at, '/');
                after_value = true;
                continue;
            }
            '#' => {
                at = line_end(&letters, at);
                continue;
            }
            '@' => return Some("awk's `@` loads or calls by name"),
            '|' if letters.get(at + 1) == Some(&'|') => {
                at += 2;
                after_value = false;
                continue;
            }
            '|' => return Some("awk's `|` executes"),
            '>' if printing && depth <= 0 => return Some("awk's `>` writes a file"),
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            ';' | '\n' | '{' | '}' => {
                printing = false;
                depth = 0;
            }
            _ if letter.is_alphabetic() || letter == '_' => {
                let end =
                    letters[at..].iter().position(|next| !next.is_alphanumeric() && *next != '_').map_or(letters.len(), |found| at + found);
                let name: String = letters[at..end].iter().collect();
                match name.as_str() {
                    "system" => return Some("awk's `system` executes"),
                    "getline" => return Some("awk's `getline` reads other files"),
                    "ARGV" => return Some("awk's `ARGV` names other files"),
                    "print" | "printf" => {
                        printing = true;
                        depth = 0;
                    }
                    _ => {}
                }
                after_value = !matches!(name.as_str(), "print" | "printf" | "return" | "in" | "case" | "else" | "do");
                at = end;
                continue;
            }
            _ => {}
        }
        if !letter.is_whitespace() {
            after_value = letter.is_alphanumeric() || matches!(letter, ')' | ']' | '$' | '"');
        }
        at += 1;
    }
    None
}

fn past_quoted(letters: &[char], start: usize, quote: char) -> usize {
    let mut at = start + 1;
    while at < letters.len() && letters[at] != quote {
        at += if letters[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

/// Functions of other languages that hand a text to a shell.
const CALLS: &[&str] = &[
    "system(",
    "system ",
    "popen(",
    "execSync(",
    "exec(",
    "shell_exec(",
    "passthru(",
    "execute(",
    "spawn(",
    "run(",
    "call(",
    "check_output(",
];

/// Commands that stand as plain text in a call: `system("rm x")`, awk's `"rm x" | getline`. For what is denied, and where it leads.
pub(super) fn called(code: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for call in CALLS {
        for (at, _) in code.match_indices(call) {
            commands.extend(quoted(code[at + call.len()..].trim_start()));
        }
    }
    for (at, _) in code.match_indices('|') {
        commands.extend(quoted(code[at + 1..].trim_start()));
        let before = code[..at].trim_end();
        let text = before.strip_suffix('"').and_then(|before| before.rsplit_once('"'));
        commands.extend(text.map(|(_, text)| text.to_owned()).filter(|_| code[at + 1..].trim_start().starts_with("getline")));
    }
    commands
}

/// The text that begins with this quote.
fn quoted(code: &str) -> Option<String> {
    let quote = code.chars().next().filter(|quote| matches!(quote, '"' | '\'' | '`'))?;
    let (inside, _) = code[1..].split_once(quote)?;
    Some(inside.to_owned())
}
