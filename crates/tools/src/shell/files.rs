//! Files that the words of a command name: outside the project, holding secrets, or protected and written.
//!
//! Knows which words of which program are paths, as far as that matters; the places themselves come from `places`.

use std::path::PathBuf;

use super::{
    git,
    judging::{Judge, Reach, Reason},
    places::{self, Place},
    programs, readers, shapes,
    walk::Scope,
    word::{Piece, Word},
    wrappers::{self, Kind, basename},
};
use crate::protected::{could_be_protected, is_protected};

impl Judge<'_> {
    /// Paths among the words that lead out of the project, and files that hold secrets.
    pub(super) fn path_reasons(&mut self, program: &str, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        let uploads = matches!(program, "curl" | "wget");
        for word in referred(program, arguments) {
            self.path_reason(&word, false, scope, reasons);
        }
        if programs::takes_no_paths(program) && !uploads {
            // What is printed is not read, but a glob lists what is there.
            for word in arguments.iter().filter(|word| word.has_glob()) {
                self.path_reason(word, uploads, scope, reasons);
            }
            return;
        }
        if matches!(program, "test" | "[") {
            for word in tested(arguments) {
                self.path_reason(word, uploads, scope, reasons);
            }
            return;
        }
        for candidate in candidates(program, arguments) {
            self.path_reason(&candidate, uploads, scope, reasons);
        }
    }

    pub(super) fn path_reason(&mut self, word: &Word, uploads: bool, scope: &Scope, reasons: &mut Vec<Reason>) {
        let text = word.text();
        let address = text.contains("://") && !text.starts_with("file:");
        if address {
            return;
        }
        let local = !uploads || text.starts_with(['/', '~', '@']) || text.starts_with("file:");
        let mut unknown = false;
        for place in places::places(word, scope, self.surroundings) {
            match place {
                Place::Outside(path) if local => {
                    self.outside(&path);
                    self.file(path.display().to_string(), false);
                    if !self.is_allowed_outside(&path) {
                        reasons.push(Reason::new(Reach::Wildcard, format!("{} is outside the project", path.display())));
                    }
                }
                Place::Inside(path) => {
                    self.file(path.clone(), false);
                    let path = places::environment_file(&path, word.has_glob());
                    path.into_iter().for_each(|path| self.touch("read", path));
                }
                place => unknown |= place == Place::Unknown,
            }
        }
        // What stands before the name is not known, the name is.
        let path = places::environment_file(&text, word.has_glob()).filter(|_| unknown);
        path.into_iter().for_each(|path| self.touch("read", path));
    }

    /// Words handed to a function, which may read, write or pass them on.
    pub(super) fn passed(&mut self, arguments: &[Word], scope: &Scope, reasons: &mut Vec<Reason>) {
        for word in arguments {
            let text = word.text();
            if 1 < text.len() && text.starts_with('-') {
                reasons.push(Reason::new(Reach::Wildcard, format!("`{text}` is an option for what the function runs")));
            }
            let value = text.find('=').map(|at| after(word, text[..at].chars().count() + 1));
            for candidate in value.iter().chain([word]) {
                self.path_reason(candidate, false, scope, reasons);
                for place in places::places(candidate, scope, self.surroundings) {
                    let path = match place {
                        Place::Inside(path) => path,
                        Place::Outside(path) => path.to_string_lossy().into_owned(),
                        Place::Nowhere | Place::Unknown => continue,
                    };
                    if may_be_protected(candidate, &path) {
                        self.protected(&path);
                    }
                }
            }
        }
    }

    /// Asks for the settings that `git config` writes: the project's name programs that git runs, the others are outside.
    pub(super) fn written_settings(&mut self, arguments: &[Word], scope: &Scope) {
        let Some((which, executes)) = git::written_settings(arguments) else { return };
        let outside = match which {
            git::Settings::Project if executes => return self.protected(".git/config"),
            git::Settings::Project => return,
            git::Settings::Named => return self.named_settings(arguments, scope),
            git::Settings::Home => self.surroundings.home.join(".gitconfig"),
            git::Settings::System => PathBuf::from("/etc/gitconfig"),
        };
        self.outside(&outside);
        self.file(outside.display().to_string(), true);
        if executes {
            self.protected(&outside.to_string_lossy());
        }
    }

    /// The file after `-f` or `--file`, in whichever word it stands.
    fn named_settings(&mut self, arguments: &[Word], scope: &Scope) {
        for word in arguments {
            let text = word.text();
            let joined = text.find('=').map(|at| at + 1).or_else(|| text.starts_with("-f").then_some(2)).unwrap_or(0);
            let word = after(word, text[..joined].chars().count());
            for place in places::places(&word, scope, self.surroundings) {
                let path = match place {
                    Place::Inside(path) => path,
                    Place::Outside(path) => path.to_string_lossy().into_owned(),
                    Place::Nowhere | Place::Unknown => continue,
                };
                if may_be_protected(&word, &path) {
                    self.file(path.clone(), true);
                    self.protected(&path);
                }
            }
        }
    }

    /// Asks for every protected file that the words have written, made, moved or taken away.
    pub(super) fn written_files(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        let mut asked: Vec<String> = Vec::new();
        self.reaches(program, arguments, scope);
        if matches!(program, "tee" | "dd") {
            self.copied_output(program, arguments, scope);
        }
        for word in written(program, arguments) {
            for place in places::places(&word, scope, self.surroundings) {
                let path = match place {
                    Place::Inside(path) => path,
                    Place::Outside(path) => path.to_string_lossy().into_owned(),
                    Place::Nowhere | Place::Unknown => continue,
                };
                self.file(path.clone(), true);
                if may_be_protected(&word, &path)
                    && !asked.iter().any(|folder| path.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/')))
                {
                    self.protected(&path);
                    asked.push(path);
                }
            }
        }
    }
}

impl Judge<'_> {
    /// Files that the words of a program name which is not known to leave them alone.
    pub(super) fn handed_files(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        let filled = self.with_known_values(arguments, scope);
        let own = own_words(program, filled.as_deref().unwrap_or(arguments));
        let texts: Vec<String> = own.iter().map(Word::text).collect();
        if knows_its_outputs(program) || programs::takes_no_paths(program) || readers::only_reads(program, &texts) {
            return;
        }
        for word in candidates(program, &without_left_out(own)) {
            for place in places::places(&word, scope, self.surroundings) {
                let path = match place {
                    Place::Inside(path) => path,
                    Place::Outside(path) => path.to_string_lossy().into_owned(),
                    Place::Nowhere | Place::Unknown => continue,
                };
                // With a blank in it, it is a sentence.
                if !path.contains(char::is_whitespace) && may_be_protected(&word, &path) {
                    self.protected(&path);
                }
                self.handed(path);
            }
        }
    }

    /// Files of `tee` and `dd` are redirections in other words.
    fn copied_output(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        for word in written(program, arguments) {
            if shapes::places(&word, scope, self.surroundings).contains(&Place::Unknown) {
                self.written_somewhere(&word);
            }
        }
        if program == "tee" && scope.more_arguments {
            self.written_somewhere(&Word::unknown("the names that tee is given"));
        }
    }
}

/// Whether this path, which the word may be, is protected or turns out to be when its wildcards and unknowns are known.
pub(super) fn may_be_protected(word: &Word, path: &str) -> bool {
    if is_protected(path) || !(word.is_dynamic() || word.has_glob()) {
        return is_protected(path);
    }
    let pattern = places::without_classes(path);
    could_be_protected(&if word.is_dynamic() { pattern.replace('?', "*") } else { pattern })
}

/// Words, values of options and what is joined to them, as far as they could be paths.
fn candidates(program: &str, arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let mut leading = programs::leading_texts(program, &texts);
    let (mut skip, mut ended) = (false, false);
    let mut candidates: Vec<Word> = Vec::new();
    for (word, text) in arguments.iter().zip(&texts) {
        if std::mem::take(&mut skip) {
            continue;
        }
        if !ended && text == "--" {
            ended = true;
        } else if !ended && text.starts_with("--") {
            match text.split_once('=') {
                Some((long, _)) if !programs::is_text_option(&long[2..]) => candidates.push(after(word, long.chars().count() + 1)),
                Some(_) => {}
                None => skip = programs::takes_long_text(program, &text[2..]),
            }
        } else if !ended && text.starts_with('-') && 1 < text.len() {
            let text_at = programs::text_letter(program, text);
            if programs::is_find(program) {
                skip = programs::is_find_text(text);
            } else if let Some(at) = text_at {
                skip = at + 1 == text.len();
            } else {
                candidates.push(after(word, 2));
                candidates.extend(text.find('=').map(|at| after(word, text[..at].chars().count() + 1)));
            }
        } else if 0 < leading {
            leading -= 1;
        } else {
            candidates.push(word.clone());
            candidates.extend(text.find('=').map(|at| after(word, text[..at].chars().count() + 1)));
            candidates.extend(text.starts_with('@').then(|| after(word, 1)));
        }
    }
    candidates
}

/// Files whose time `date` tells.
fn referred(program: &str, arguments: &[Word]) -> Vec<Word> {
    if program != "date" {
        return Vec::new();
    }
    let value = |at: usize| match arguments[at].text() {
        text if text.starts_with("--ref") => {
            text.find('=').map(|found| after(&arguments[at], found + 1)).or_else(|| arguments.get(at + 1).cloned())
        }
        text if text == "-r" => arguments.get(at + 1).cloned(),
        text if text.starts_with("-r") => Some(after(&arguments[at], 2)),
        _ => None,
    };
    (0..arguments.len()).filter_map(value).collect()
}

/// Without the names that some options say to leave out.
fn without_left_out(arguments: &[Word]) -> Vec<Word> {
    let left_out = |at: usize| at.checked_sub(1).is_some_and(|before| programs::leaves_out(&arguments[before].text()));
    (0..arguments.len()).filter(|at| !left_out(*at)).map(|at| arguments[at].clone()).collect()
}

/// The words without a command that they run: that one is judged by itself.
fn own_words<'a>(program: &str, arguments: &'a [Word]) -> &'a [Word] {
    let end = match program {
        "env" | "find" | "gfind" | "bfs" | "parallel" | "su" | "script" | "flock" => 0,
        _ => match wrappers::wrapper(program).filter(|wrapper| wrapper.kind != Kind::Soft) {
            Some(wrapper) => wrapper.starts(arguments).first,
            None => arguments.len(),
        },
    };
    &arguments[..end]
}

/// Words that `test` takes for files: after a test of one file, on both sides of a comparison of two, and where nobody
/// knows what stands before them. Globs list what is there.
fn tested(arguments: &[Word]) -> Vec<&Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let is_pair = |text: Option<&String>| text.is_some_and(|text| matches!(text.as_str(), "-nt" | "-ot" | "-ef"));
    let is_file_test = |at: usize| {
        let text = texts[at].as_str();
        let starts = at == 0 || matches!(texts[at - 1].as_str(), "!" | "(");
        (text == "-a" && starts) || (text.len() == 2 && text.starts_with('-') && "bcdefghkprsuwxGLNOS".contains(&text[1..]))
    };
    let taken = |at: usize| {
        let before = at.checked_sub(1);
        arguments[at].has_glob()
            || is_pair(texts.get(at + 1))
            || before.is_some_and(|before| is_file_test(before) || is_pair(texts.get(before)) || arguments[before].splits())
    };
    (0..arguments.len()).filter(|at| taken(*at)).map(|at| &arguments[at]).collect()
}

/// Programs of which `written` says all there is to say.
fn knows_its_outputs(program: &str) -> bool {
    let all = "tee touch truncate mkdir sponge chmod chown chgrp rsync rm rmdir unlink shred patch ed ex sqlite3 mv cp ln install scp dd uniq \
               sort shuf xxd find gfind bfs tar gtar bsdtar zip tree curl wget wget2";
    all.split(' ').any(|known| known == program)
}

/// Words a program writes, as far as they could be protected files.
fn written(program: &str, arguments: &[Word]) -> Vec<Word> {
    let mut paths = outputs(program, arguments);
    let operands = || arguments.iter().filter(|word| !word.text().starts_with('-')).cloned();
    match program {
        "tee" | "touch" | "truncate" | "mkdir" | "sponge" | "chmod" | "chown" | "chgrp" | "rm" | "rmdir" | "unlink" | "shred" | "patch"
        | "ed" | "ex" | "sqlite3" => paths.extend(operands()),
        // A link to a protected file is another name for it.
        "ln" => {
            paths.extend(moved(program, arguments));
            paths.extend(operands());
        }
        "rsync" => paths.extend(candidates(program, &without_left_out(arguments))),
        "sed" | "gsed" | "perl" | "ruby" => {
            let in_place = |word: &Word| {
                let text = word.text();
                text.starts_with("--in-place") || (text.starts_with('-') && !text.starts_with("--") && text.contains('i'))
            };
            if arguments.iter().any(in_place) {
                paths.extend(operands());
            }
        }
        "mv" | "cp" | "install" | "scp" => paths.extend(moved(program, arguments)),
        "git" => {
            let changes = |word: &Word| matches!(word.text().as_str(), "rm" | "mv" | "checkout" | "restore");
            if operands().next().as_ref().is_some_and(changes) {
                paths.extend(operands().skip(1));
            }
        }
        "dd" => paths.extend(arguments.iter().filter(|word| word.text().starts_with("of=")).map(|word| after(word, 3))),
        "uniq" | "xxd" => paths.extend(operands().skip(1)),
        "zip" => paths.extend(operands().take(1)),
        "find" | "gfind" | "bfs" => paths.extend(found(arguments)),
        "tar" | "gtar" | "bsdtar" => paths.extend(archived(arguments)),
        "curl" | "wget" | "wget2" => paths.extend(downloaded(program, arguments)),
        _ => {}
    }
    paths
}

/// Where `cp` and its like put things; `mv` also takes them away.
fn moved(program: &str, arguments: &[Word]) -> Vec<Word> {
    let all: Vec<Word> = arguments.iter().filter(|word| !word.text().starts_with('-')).cloned().collect();
    let mut paths: Vec<Word> = target_folders(arguments).into_iter().chain(all.last().cloned()).collect();
    // Into a folder it keeps its name.
    for target in paths.iter().map(Word::text).collect::<Vec<_>>() {
        paths.extend(all.iter().map(|source| Word::plain(&format!("{target}/{}", basename(&source.text())))));
    }
    if program == "mv" {
        paths.extend(all);
    }
    paths
}

/// What `find` lists into a file, and what it deletes.
fn found(arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let prints = |at: &usize| matches!(texts[*at].as_str(), "-fprint" | "-fprint0" | "-fprintf" | "-fls");
    let mut paths: Vec<Word> = (0..texts.len()).filter(prints).filter_map(|at| arguments.get(at + 1).cloned()).collect();
    if texts.iter().any(|text| text == "-delete") {
        paths.extend(arguments.iter().take_while(|word| !word.text().starts_with(['-', '(', '!'])).cloned());
    }
    paths
}

/// The archive that `tar` makes, or everything its words name when it unpacks one.
pub(super) fn archived(arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let first = texts.first().map(|text| text.trim_start_matches('-').to_owned()).unwrap_or_default();
    let is = |letter: char, long: &[&str]| {
        let short = |text: &String| text.starts_with('-') && !text.starts_with("--") && text.contains(letter);
        first.contains(letter) && !texts[0].starts_with("--") || texts.iter().any(|text| short(text) || long.contains(&text.as_str()))
    };
    if is('t', &["--list"]) || is('d', &["--diff", "--compare"]) {
        return Vec::new();
    }
    let makes = is('c', &["--create"]) || is('r', &["--append"]) || is('u', &["--update"]);
    if !makes {
        return candidates("tar", arguments);
    }
    let mut archives = Vec::new();
    for (at, text) in texts.iter().enumerate() {
        let next = || arguments.get(at + 1).cloned();
        if let Some(joined) = text.strip_prefix("--file") {
            archives.extend(if joined.starts_with('=') { Some(after(&arguments[at], 7)) } else { next() });
        } else if (at == 0 || text.starts_with('-')) && !text.starts_with("--") && text.contains('f') {
            let value = after(&arguments[at], text[..text.find('f').unwrap_or(0)].chars().count() + 1);
            // In a bundle of letters the value is the next word, in a cluster it may be joined.
            archives.extend(if text.starts_with('-') && !value.text().is_empty() { Some(value) } else { next() });
        }
    }
    archives
}

/// Files that keep the name they have in an address.
fn downloaded(program: &str, arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let keeps =
        |text: &String| text.starts_with("--remote-name") || (text.starts_with('-') && !text.starts_with("--") && text.contains('O'));
    if program == "curl" && !texts.iter().any(keeps) {
        return Vec::new();
    }
    let name = |text: &String| {
        let path = text.split(['?', '#']).next().unwrap_or_default();
        (!text.starts_with('-') && path.contains('/')).then(|| Word::plain(basename(path)))
    };
    texts.iter().filter_map(name).collect()
}

/// Values of options that name an output, joined or as the next word, and the folders archives are unpacked to.
pub(super) fn outputs(program: &str, arguments: &[Word]) -> Vec<Word> {
    let letters = match program {
        "tar" | "gtar" | "bsdtar" => "C",
        "unzip" | "7z" => "d",
        "wget" => "OP",
        "curl" | "sort" | "shuf" | "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "ld" | "as" | "rustc" | "go" | "pandoc"
        | "tree" | "dot" | "gpg" | "age" | "bison" | "flex" => "o",
        _ => "",
    };
    let mut paths = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let text = word.text();
        let next = || arguments.get(at + 1).cloned();
        if let Some(long) = text.strip_prefix("--") {
            let name = long.split('=').next().unwrap_or_default();
            if name.starts_with("out") || matches!(name, "directory" | "directory-prefix" | "target-directory") {
                paths.extend(if long.contains('=') { Some(after(word, name.chars().count() + 3)) } else { next() });
            }
        } else if let Some(cluster) = text.strip_prefix('-')
            && let Some(found) = cluster.find(|letter| letters.contains(letter))
        {
            let value = after(word, cluster[..found].chars().count() + 2);
            paths.extend(if value.text().is_empty() { next() } else { Some(value) });
        }
    }
    paths
}

/// `-t FOLDER` of cp and its like.
pub(super) fn target_folders(arguments: &[Word]) -> Vec<Word> {
    let mut folders = Vec::new();
    for (at, word) in arguments.iter().enumerate() {
        let text = word.text();
        if text.starts_with('-') && !text.starts_with("--") && text.contains('t') {
            let value = after(word, text[..text.find('t').unwrap_or(0)].chars().count() + 1);
            folders.extend(if value.text().is_empty() { arguments.get(at + 1).cloned() } else { Some(value) });
        } else if text.starts_with("--target") {
            let value = text.find('=').map(|at| after(word, text[..at].chars().count() + 1));
            folders.extend(value.or_else(|| arguments.get(at + 1).cloned()));
        }
    }
    folders
}

/// The word without its first letters.
pub(super) fn after(word: &Word, letters: usize) -> Word {
    let mut left = letters;
    let mut pieces = Vec::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text { text, quoted } if 0 < left => {
                let count = text.chars().count();
                if left < count {
                    pieces.push(Piece::Text { text: text.chars().skip(left).collect(), quoted: *quoted });
                }
                left = left.saturating_sub(count);
            }
            other => {
                left = 0;
                pieces.push(other.clone());
            }
        }
    }
    Word { pieces }
}
