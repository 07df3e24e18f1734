//! Where a file that is written would stand, as far as the line says: for redirections, `tee` and `cd`.
//!
//! Stricter than `places`: what is not known may hold `..` or begin with `/`, so a fixed beginning alone keeps nothing
//! inside. Some expansions are known well enough all the same: `$(date +%F)` is a name, whatever the day. Reads no disk.

use std::path::PathBuf;

use brush_parser::ast;

use super::{
    Surroundings, listing, parse,
    places::{self, Place},
    walk::Scope,
    word::{Effects, Piece, Word},
    wrappers::basename,
};

/// Anything at all.
const ANYTHING: char = '\u{1}';

/// A text that is not empty, does not begin with `/` and holds no `..`.
const NAME: char = '\u{2}';

/// Some text of a path that names what is there already, or nothing: alone it may be `..` or a protected file.
pub(super) const PART: char = '\u{3}';

/// The whole path of a file in the project: not empty, and it does not climb. It may be a protected file.
pub(super) const LISTED: char = '\u{4}';

/// Values tried for one word; with more, it may be anything.
const SHAPES_MAX: usize = 64;

/// Substitutions in names of files are short; a longer one is not read again.
const SCRIPT_BYTES_MAX: usize = 200;

/// A substitution in a substitution: people stop at two.
const DEPTH_MAX: usize = 3;

/// Variables the shell sets to a number or a plain name, unless the line sets them itself.
const PLAIN_VARIABLES: &str = "RANDOM SRANDOM SECONDS EPOCHSECONDS EPOCHREALTIME BASHPID PPID UID EUID LINENO USER LOGNAME HOSTNAME HOSTTYPE \
                               OSTYPE MACHTYPE SHLVL";

/// The places a word may name when it is written to, or gone to. `Unknown` when only the run can tell.
pub(super) fn places(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    places_by(word, Care::Contents, scope, surroundings)
}

/// The same where only the place counts: a name of a file that is there is inside, whichever it is.
pub(super) fn reached(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    places_by(word, Care::Place, scope, surroundings)
}

/// What the places of a word are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Care {
    /// A file gets other contents: which one it is matters too.
    Contents,
    Place,
}

fn places_by(word: &Word, care: Care, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    let Some(shapes) = shapes_of(word, scope, surroundings, 0) else { return vec![Place::Outside(PathBuf::from("/"))] };
    let mut found = Vec::new();
    for shape in shapes {
        for place in of_shape(&shape, care, scope, surroundings) {
            if !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

/// All values a variable may get from this word; nothing if one of them may be anything.
pub(super) fn assigned(word: &Word, scope: &Scope, surroundings: &Surroundings) -> Option<Vec<String>> {
    // With a default it is one of two things, and the other one comes from outside of the line.
    let given =
        |piece: &Piece| !matches!(piece, Piece::Variable { name, default: Some(_), .. } if scope.shapes(name, surroundings).is_none());
    let shapes = shapes_of(word, scope, surroundings, 0).filter(|_| word.pieces.iter().all(given))?;
    (!shapes.iter().any(|shape| shape.contains(ANYTHING))).then_some(shapes)
}

fn of_shape(shape: &str, care: Care, scope: &Scope, surroundings: &Surroundings) -> Vec<Place> {
    if let Some((before, _)) = shape.split_once(ANYTHING) {
        // `/etc/$X` leads out whatever follows; from inside the unknown part may climb.
        let fixed = before.rsplit_once('/').map_or("", |(folder, _)| folder);
        let outside = before.starts_with(['/', '~']).then(|| places::of_text(&format!("{fixed}/"), scope, surroundings));
        let leaves = outside.filter(|places| matches!(places.as_slice(), [Place::Outside(_)]));
        let shown = || places::of_text(&shape.replace(ANYTHING, "?"), scope, surroundings);
        return leaves.map_or_else(|| vec![Place::Unknown], |_| shown());
    }
    let shown = |text: &str| text.replace([NAME, PART, LISTED], "?");
    if !known_parts(shape, care) {
        return vec![Place::Unknown];
    }
    let relative = !shape.starts_with(['/', '~']);
    if relative && scope.astray {
        return vec![Place::Unknown];
    }
    if relative && scope.cwds.is_empty() && !shape.split('/').any(|part| part == "..") {
        // Every folder gone to was judged where the line goes there.
        return vec![Place::Inside(shown(shape))];
    }
    places::of_text(&shown(shape), scope, surroundings)
}

/// Whether no part of it may turn out to be `..`, empty before a `/`, or a file of its own that matters.
fn known_parts(shape: &str, care: Care) -> bool {
    let last = shape.split('/').count() - 1;
    shape.split('/').enumerate().all(|(at, part)| {
        let bare = part.contains([PART, LISTED]) && part.chars().all(|letter| matches!(letter, PART | LISTED | '.'));
        match care {
            Care::Contents => !bare,
            // `.` and `./x` are together `../x`.
            Care::Place if part.contains(LISTED) && part.contains(".\u{4}") => false,
            Care::Place => !bare || (part.chars().count() == 1 && (part.contains(LISTED) || at == last)),
        }
    })
}

/// The shapes of a word; nothing where it is another user's home, or a folder's path that was changed.
fn shapes_of(word: &Word, scope: &Scope, surroundings: &Surroundings, depth: usize) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    for piece in &word.pieces {
        let values = match piece {
            Piece::Text { text, .. } => vec![text.clone()],
            Piece::Variable { name, default, .. } => {
                let known = scope.shapes(name, surroundings);
                let plain = known.is_none() && default.is_none() && PLAIN_VARIABLES.split(' ').any(|known| known == name);
                // What the line itself gets from somewhere is not the default.
                let default = default.clone().filter(|_| known != Some(None));
                let mut values = known.flatten().unwrap_or_default();
                values.extend(default);
                values.extend(plain.then(|| NAME.to_string()));
                values
            }
            Piece::Elsewhere { .. } => return None,
            Piece::Unknown { source, .. } if places::is_changed_folder(source) => return None,
            Piece::Unknown { source, .. } => expansion(source, scope, surroundings, depth).unwrap_or_default(),
        };
        let values = if values.is_empty() { vec![ANYTHING.to_string()] } else { values };
        texts = texts.iter().flat_map(|text| values.iter().map(move |value| format!("{text}{value}"))).take(SHAPES_MAX + 1).collect();
    }
    if SHAPES_MAX < texts.len() {
        return Some(vec![ANYTHING.to_string()]);
    }
    Some(texts)
}

/// What an expansion that is no plain variable may be; nothing when it may be anything.
fn expansion(source: &str, scope: &Scope, surroundings: &Surroundings, depth: usize) -> Option<Vec<String>> {
    let name = || Some(vec![NAME.to_string()]);
    if matches!(source, "$$" | "$?" | "$#" | "$!") || source.starts_with("$((") || source.starts_with("${#") {
        return name();
    }
    if scope.listed.as_deref().is_some_and(|sign| sign == source) {
        return Some(vec![LISTED.to_string()]);
    }
    let bare = source.strip_prefix('$').map(|bare| bare.trim_start_matches('{').trim_end_matches('}'));
    if let Some(bare) = bare.filter(|bare| matches!(*bare, "1" | "2" | "3" | "@" | "*")) {
        return scope.shapes(if bare == "*" { "@" } else { bare }, surroundings).flatten();
    }
    if let Some(array) = places::element_of(source) {
        return scope.shapes(array, surroundings).flatten();
    }
    if let Some(inner) = source.strip_prefix("${").and_then(|inner| inner.strip_suffix('}')) {
        return cut(inner, scope, surroundings);
    }
    let script = source.strip_prefix("$(").and_then(|script| script.strip_suffix(')'));
    let script = script.or_else(|| source.strip_prefix('`').and_then(|script| script.strip_suffix('`')))?;
    if SCRIPT_BYTES_MAX < script.len() || depth == DEPTH_MAX {
        return None;
    }
    printed(script, scope, surroundings, depth)
}

/// `${f%.c}`, `${f##*/}`, `${f#src/}`, `${f^^}`: a variable whose value was cut.
fn cut(inner: &str, scope: &Scope, surroundings: &Surroundings) -> Option<Vec<String>> {
    let end = inner.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')?;
    let (name, operator) = inner.split_at(end);
    let shapes = scope.shapes(name, surroundings).flatten()?;
    let plain = |pattern: &str| !pattern.is_empty() && !pattern.contains(['*', '?', '[', '$', '`', '\\', '"', '\'', '/']);
    let folder_of = |shape: &str| shape.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let one = |shape: String| -> Option<String> {
        match operator {
            "^" | "^^" | "," | ",," => Some(folder_of(&shape) + &PART.to_string()).filter(|_| !shape.starts_with(['/', '~'])),
            "##*/" => Some(name_of(&shape)),
            "%/*" => Some(shape.rsplit_once('/').map_or(shape.as_str(), |(folder, _)| folder).to_owned()).filter(|rest| !rest.is_empty()),
            _ => {
                if let Some(end) = operator.strip_prefix('%').map(|end| end.trim_start_matches('%')) {
                    // Only the name itself is cut, so its folder stays.
                    let known = shape.strip_suffix(end).filter(|rest| plain(end) && !rest.ends_with('/') && !rest.is_empty());
                    let of_name = end.starts_with('.') && !end.contains(['/', '$', '`']);
                    return known.map(str::to_owned).or_else(|| of_name.then(|| folder_of(&shape) + &PART.to_string()));
                }
                let start = operator.strip_prefix('#').filter(|start| plain(start.trim_end_matches('/')))?;
                shape.strip_prefix(start).filter(|rest| !rest.starts_with('/') && !rest.is_empty()).map(str::to_owned)
            }
        }
    };
    shapes.into_iter().map(one).collect()
}

/// What a substitution of a few well-known programs prints.
fn printed(script: &str, scope: &Scope, surroundings: &Surroundings, depth: usize) -> Option<Vec<String>> {
    let program = parse::program(script).ok()?;
    let [list] = program.complete_commands.as_slice() else { return None };
    let [ast::CompoundListItem(and_or, _)] = list.0.as_slice() else { return None };
    let (first, filters) = and_or.first.seq.split_first().filter(|_| and_or.additional.is_empty() && !and_or.first.bang)?;
    if listing::is_listing(&and_or.first.seq, scope, surroundings) {
        return Some(vec![PART.to_string()]);
    }
    let words = plain_words(first)?;
    let texts: Vec<String> = words.iter().map(Word::text).collect();
    for filter in filters {
        let words = plain_words(filter)?;
        let texts: Vec<String> = words.iter().map(Word::text).collect();
        let replaces = || texts.last().is_some_and(|set| set.contains(['.', '/', '\\'])) && !texts.iter().any(|text| text == "-d");
        match texts.first().map(String::as_str)? {
            "cut" if !listing::starts_at_one(&texts[1..]) => return None,
            "cut" | "head" | "tail" | "sort" | "uniq" | "wc" => {}
            "tr" if !replaces() => {}
            _ => return None,
        }
    }
    let shape =
        |word: &Word| shapes_of(word, scope, surroundings, depth + 1).filter(|shapes| !shapes.iter().any(|shape| shape.contains(ANYTHING)));
    let (name, listed) = (|| Some(vec![NAME.to_string()]), || Some(vec![PART.to_string()]));
    let (program, arguments) = texts.split_first()?;
    let stays = |text: &String| !text.starts_with(['/', '~', '$']) && !text.contains("..");
    match basename(program) {
        "date" => arguments.iter().filter(|text| text.starts_with('+')).all(|format| is_name_format(&format[1..])).then(name)?,
        "git" => git(arguments, surroundings),
        "basename" => {
            let (argument, end) = match &words[1..] {
                [argument] => (argument, String::new()),
                [argument, end] => (argument, end.text()),
                _ => return None,
            };
            let known = |shape: String| {
                let name = name_of(&shape);
                name.strip_suffix(&end).filter(|rest| !rest.is_empty()).map(str::to_owned).unwrap_or(name)
            };
            let shapes = shape(argument).map(|shapes| shapes.into_iter().map(known).collect());
            shapes.or_else(|| Some(vec![PART.to_string()])).filter(|_| filters.is_empty())
        }
        "dirname" => {
            let [argument] = &words[1..] else { return None };
            let parent = |shape: String| match shape.rsplit_once('/') {
                Some((folder, _)) => folder.to_owned(),
                None if shape.contains(PART) => PART.to_string(),
                None if shape.contains(LISTED) => LISTED.to_string(),
                None => ".".to_owned(),
            };
            shape(argument).map(|shapes| shapes.into_iter().map(parent).collect()).filter(|_| filters.is_empty())
        }
        "echo" => {
            let [argument] = &words[1..] else { return None };
            shape(argument).filter(|shapes| filters.is_empty() || shapes.iter().all(stays))
        }
        "pwd" => Some(scope.cwds.iter().map(|cwd| cwd.display().to_string()).collect()).filter(|_| filters.is_empty() && !scope.astray),
        "mktemp" if filters.is_empty() => temporary(&words[1..]),
        "seq" | "whoami" | "hostname" | "uname" | "nproc" | "arch" | "uuidgen" | "id" | "logname" => {
            arguments.iter().all(stays).then(name)?
        }
        "ls" if arguments.iter().any(|text| text.starts_with('-') && text.contains('a')) => None,
        "ls" | "md5sum" | "sha1sum" | "sha256sum" | "cksum" => arguments.iter().all(stays).then(listed)?,
        "find" => {
            let acts = |text: &String| {
                text.starts_with("-exec") || text.starts_with("-ok") || text.starts_with("-printf") || text == "-files0-from"
            };
            (arguments.iter().all(stays) && !arguments.iter().any(acts)).then(listed)?
        }
        _ => None,
    }
}

/// Words of a simple command with nothing around it but errors thrown away.
pub(super) fn plain_words(command: &ast::Command) -> Option<Vec<Word>> {
    let ast::Command::Simple(simple) = command else { return None };
    let mut words = vec![simple.word_or_name.as_ref()?];
    for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
        match item {
            ast::CommandPrefixOrSuffixItem::Word(word) => words.push(word),
            ast::CommandPrefixOrSuffixItem::IoRedirect(ast::IoRedirect::File(Some(2), _, _)) => {}
            _ => return None,
        }
    }
    let expand = |word: &ast::Word| Effects::default().word(&word.value);
    simple.prefix.is_none().then(|| words.into_iter().map(expand).collect())
}

/// A format of `date` that prints something, and no path that leads away.
fn is_name_format(format: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "%_:-+@=,".contains(letter);
    let dots = |letter: char| matches!(letter, '.' | '/' | ' ');
    let blank = format.contains("%n") || format.contains("%t");
    !format.is_empty()
        && format.starts_with(plain)
        && !blank
        && !format.contains("..")
        && format.chars().all(|letter| plain(letter) || dots(letter))
}

/// What git prints about revisions and files, none of which climbs.
fn git(arguments: &[String], surroundings: &Surroundings) -> Option<Vec<String>> {
    let (subcommand, rest) = arguments.split_first()?;
    if subcommand == "rev-parse" && rest == ["--show-toplevel"] {
        return Some(vec![surroundings.root.display().to_string()]);
    }
    let stays = |text: &String| !text.starts_with(['/', '$']) && !text.contains("../") && text != "..";
    let format = |text: &String| {
        let form = text.strip_prefix("--format=").or_else(|| text.strip_prefix("--pretty="));
        form.is_some_and(|form| {
            let plain = |part: &str| {
                part.starts_with(['h', 'H', 't', 'T']) || ["cd", "cs", "ci", "cI", "ct"].iter().any(|date| part.starts_with(date))
            };
            form.trim_start_matches("format:").split('%').skip(1).all(plain)
        })
    };
    let known = match subcommand.as_str() {
        "rev-parse" => {
            let option = |text: &String| {
                !text.starts_with('-')
                    || text.starts_with("--short")
                    || text.starts_with("--abbrev-ref")
                    || matches!(text.as_str(), "--verify" | "-q" | "--quiet")
            };
            rest.iter().all(option) && !rest.iter().any(|text| text.contains(".."))
        }
        "branch" => rest == ["--show-current"],
        "symbolic-ref" => rest.iter().all(|text| matches!(text.as_str(), "--short" | "-q" | "HEAD")),
        "describe" => true,
        "rev-list" => rest.iter().any(|text| text == "--count"),
        "log" | "show" => rest.iter().any(format),
        "ls-files" => true,
        "diff" => rest.iter().any(|text| text == "--name-only"),
        _ => false,
    };
    (known && rest.iter().all(stays)).then(|| vec![PART.to_string()])
}

/// The last part of a path. What is made of unknown names may be any of theirs.
fn name_of(shape: &str) -> String {
    match basename(shape) {
        name if name.contains(PART) => PART.to_string(),
        name => name.to_owned(),
    }
}

/// The file that `mktemp` makes: below `/tmp`, or as its template says.
fn temporary(arguments: &[Word]) -> Option<Vec<String>> {
    let texts: Option<Vec<String>> = arguments.iter().map(Word::literal).collect();
    let texts = texts?;
    let (options, templates): (Vec<&String>, Vec<&String>) = texts.iter().partition(|text| text.starts_with('-'));
    let plain = options.iter().all(|option| matches!(option.as_str(), "-d" | "-q" | "-u" | "-t" | "-dt" | "-td"));
    let below = options.iter().any(|option| option.contains('t'));
    match templates.as_slice() {
        _ if !plain => None,
        [] => Some(vec![format!("/tmp/{NAME}")]),
        [template] if below => Some(vec![format!("/tmp/{template}")]),
        [template] => Some(vec![(*template).clone()]),
        _ => None,
    }
}
