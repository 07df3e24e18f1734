//! Pipelines that print names of files in the project and nothing else: `git ls-files '*.rs' | grep -v vendor`.
//!
//! What reads them (`xargs`, `while read`, a loop) changes files in the project, whichever they are. Reads no disk: a link
//! among the names is not followed, so whoever follows links while listing is not believed.

use brush_parser::ast;

use super::{Surroundings, places::Place, shapes, walk::Scope, word::Word, wrappers::basename};

/// The words of a program, taken apart.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// Short options.
    pub(super) letters: String,
    /// Long ones without dashes and values.
    pub(super) longs: Vec<String>,
    pub(super) operands: Vec<Word>,
}

impl Taken {
    /// `values` are letters whose value may be the next word, `joined` those that have the rest of their cluster.
    pub(super) fn of(arguments: &[Word], values: &str, joined: &str, long_values: &[&str]) -> Self {
        let mut taken = Self::default();
        let (mut at, mut ended) = (0, false);
        while at < arguments.len() {
            let text = arguments[at].text();
            at += 1;
            if ended || !text.starts_with('-') || text == "-" {
                taken.operands.push(arguments[at - 1].clone());
            } else if text == "--" {
                ended = true;
            } else if let Some(long) = text.strip_prefix("--") {
                let name = long.split('=').next().unwrap_or_default();
                at += usize::from(!long.contains('=') && long_values.contains(&name));
                taken.longs.push(name.to_owned());
            } else {
                for (index, letter) in text[1..].char_indices() {
                    taken.letters.push(letter);
                    let is_last = index + letter.len_utf8() == text.len() - 1;
                    at += usize::from(is_last && values.contains(letter));
                    if values.contains(letter) || joined.contains(letter) {
                        break;
                    }
                }
            }
        }
        taken
    }

    pub(super) fn has(&self, letters: &str, longs: &[&str]) -> bool {
        self.letters.contains(|letter| letters.contains(letter)) || self.longs.iter().any(|long| longs.contains(&long.as_str()))
    }
}

/// Whether these commands of one pipeline print names of files in the project, and nothing else.
pub(super) fn is_listing(commands: &[ast::Command], scope: &Scope, surroundings: &Surroundings) -> bool {
    // From a folder that nobody knows the names lead nobody knows where.
    let Some((first, filters)) = commands.split_first().filter(|_| !scope.astray) else { return false };
    let lists = |words: Vec<Word>| words.split_first().is_some_and(|(name, rest)| prints_names(&name.text(), rest, scope, surroundings));
    let keeps = |words: Vec<Word>| words.split_first().is_some_and(|(name, rest)| keeps_names(&name.text(), rest));
    shapes::plain_words(first).is_some_and(lists) && filters.iter().all(|filter| shapes::plain_words(filter).is_some_and(keeps))
}

/// What the last redirection of the input brings; nothing if there is none.
pub(super) fn redirected<'a>(
    redirections: impl Iterator<Item = &'a ast::IoRedirect>,
    scope: &Scope,
    surroundings: &Surroundings,
) -> Option<bool> {
    use ast::{IoFileRedirectKind as Kind, IoFileRedirectTarget as Target};
    let mut listed = None;
    for redirection in redirections {
        listed = match redirection {
            ast::IoRedirect::File(None | Some(0), Kind::Read, Target::ProcessSubstitution(_, subshell)) => {
                let one = match subshell.list.0.as_slice() {
                    [ast::CompoundListItem(and_or, _)] if and_or.additional.is_empty() => Some(&and_or.first.seq),
                    _ => None,
                };
                Some(one.is_some_and(|commands| is_listing(commands, scope, surroundings)))
            }
            ast::IoRedirect::File(None | Some(0), Kind::Read | Kind::ReadAndWrite | Kind::DuplicateInput, _) => Some(false),
            ast::IoRedirect::HereString(..) | ast::IoRedirect::HereDocument(..) => Some(false),
            _ => listed,
        };
    }
    listed
}

fn prints_names(program: &str, arguments: &[Word], scope: &Scope, surroundings: &Surroundings) -> bool {
    let inside = |word: &Word| {
        let places = shapes::reached(word, scope, surroundings);
        !places.is_empty() && places.iter().all(|place| matches!(place, Place::Inside(_)))
    };
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    match basename(program) {
        "git" => {
            let Some((subcommand, rest)) = texts.split_first() else { return false };
            let has = |option: &str| rest.iter().any(|text| text == option);
            // Git names no file outside of its working tree, unless it is told to forget it.
            !has("--no-index")
                && match subcommand.as_str() {
                    "ls-files" => {
                        !rest.iter().any(|text| matches!(text.as_str(), "-s" | "--stage" | "-u" | "--debug" | "--eol" | "--error-unmatch"))
                            && !rest.iter().any(|text| text.starts_with("--format"))
                    }
                    "diff" | "diff-index" | "diff-files" => has("--name-only"),
                    "grep" => has("-l") || has("--files-with-matches") || has("--name-only"),
                    _ => false,
                }
        }
        "find" | "gfind" | "bfs" => {
            let roots = arguments.iter().take_while(|word| !word.text().starts_with(['-', '(', '!']));
            let other = |text: &String| {
                ["-exec", "-ok", "-printf", "-fprint", "-ls", "-fls", "-files0"].iter().any(|action| text.starts_with(action))
                    || matches!(text.as_str(), "-L" | "-follow")
            };
            roots.into_iter().all(inside) && !texts.iter().any(other)
        }
        "rg" | "grep" | "egrep" | "fgrep" => {
            let taken =
                Taken::of(arguments, "egtTABCmjMf", "", &["glob", "type", "type-not", "regexp", "include", "exclude", "exclude-dir"]);
            let names = taken.has("l", &["files", "files-with-matches", "files-without-match"]);
            let follows = taken.has("R", &["follow", "dereference-recursive"]) || (program == "rg" && taken.has("L", &[]));
            let first = usize::from(!taken.has("ef", &["regexp", "files"]));
            names && !follows && taken.operands.iter().skip(first).all(inside)
        }
        "fd" | "fdfind" => {
            let taken = Taken::of(arguments, "etdEjcSog", "", &["extension", "type", "max-depth", "exclude", "glob"]);
            !taken.has("xXL", &["exec", "exec-batch", "follow", "search-path", "base-directory", "format"])
                && taken.operands.iter().skip(1).all(inside)
        }
        "ls" => {
            let taken = Taken::of(arguments, "", "", &[]);
            taken.letters.chars().all(|letter| "1trdAS".contains(letter)) && taken.longs.is_empty() && taken.operands.iter().all(inside)
        }
        "seq" => texts.iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))),
        "echo" => arguments.iter().all(|word| is_written_name(word) && !word.text().starts_with('-') && !word.text().contains('\\')),
        "printf" => {
            texts.split_first().is_some_and(|(format, _)| matches!(format.as_str(), "%s\\n" | "%s\\0"))
                && arguments[1..].iter().all(is_written_name)
        }
        _ => false,
    }
}

/// Names that stand in the line, each of them relative and without a step upwards.
fn is_written_name(word: &Word) -> bool {
    let text = word.text();
    !word.is_dynamic() && text.split_whitespace().all(|name| !name.starts_with(['/', '~']) && !name.split('/').any(|part| part == ".."))
}

/// Filters that leave names as they are, or take their end away.
fn keeps_names(program: &str, arguments: &[Word]) -> bool {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    match basename(program) {
        "grep" | "egrep" | "fgrep" | "rg" => {
            let taken = Taken::of(arguments, "emABCf", "", &["regexp"]);
            let patterns = usize::from(!taken.has("e", &["regexp"]));
            taken.operands.len() <= patterns
                && !taken.has("orRfcnbHl", &["only-matching", "file", "files", "replace", "count", "line-number"])
        }
        "head" | "tail" => Taken::of(arguments, "nc", "", &["lines", "bytes"]).operands.is_empty(),
        "sort" => {
            let taken = Taken::of(arguments, "ktSTo", "", &["key", "field-separator"]);
            taken.operands.is_empty() && !taken.has("", &["files0-from"])
        }
        "uniq" => Taken::of(arguments, "fsw", "", &[]).operands.is_empty() && texts.iter().all(|text| !text.contains('c')),
        "shuf" => arguments.is_empty(),
        "tac" | "cat" => arguments.is_empty(),
        "cut" => starts_at_one(&texts),
        "tr" => texts == ["\\n", "\\0"],
        "sed" => matches!(texts.as_slice(), [script] if matches!(script.as_str(), "s|^\\./||" | "s#^\\./##" | "s,^\\./,," | "s/^\\.\\///")),
        _ => false,
    }
}

/// `cut -d: -f1`, `cut -c1-8`: what is left is the beginning. The rest of `a/etc` may be `/etc`.
pub(super) fn starts_at_one(texts: &[String]) -> bool {
    let list = texts.iter().enumerate().find_map(|(at, text)| {
        let value = ["-f", "-c", "-b"].iter().find_map(|letter| text.strip_prefix(letter))?;
        if value.is_empty() { texts.get(at + 1).cloned() } else { Some(value.to_owned()) }
    });
    list.is_some_and(|list| list == "1" || ["1-", "1,", "-"].iter().any(|start| list.starts_with(start)))
}
