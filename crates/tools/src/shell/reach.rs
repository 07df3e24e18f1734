//! What a command changes at a place that nobody knows before it runs: `rm -rf "$(cat list)/x"`, `xargs touch < list`.
//!
//! Only noted here. In a linked worktree it is a way out and asks; elsewhere such words are everybody's business, and
//! reading is free everywhere. Programs are the usual ones that write, move and remove what their words name.

use super::{
    files::{archived, outputs, target_folders},
    git,
    judging::{Judge, outside_touch},
    listing::Taken,
    places::Place,
    readers,
    repository::Does,
    shapes,
    walk::Scope,
    word::Word,
    wrappers::{basename, is_shell},
};

impl Judge<'_> {
    /// Notes the words of a program by which it may change something outside.
    pub(super) fn reaches(&mut self, program: &str, arguments: &[Word], scope: &Scope) {
        for word in changed(program, arguments) {
            self.reaches_by(&word, scope);
        }
        if scope.more_arguments && scope.listed.is_none() && changes_further(program, arguments) {
            self.reaches_somewhere(&format!("the names that {program} is given"), scope);
        }
    }

    /// A word that is written to. What is written out was judged as a path, unless nobody knows from where it counts.
    pub(super) fn reaches_by(&mut self, word: &Word, scope: &Scope) {
        if !word.is_dynamic() && !scope.astray {
            return;
        }
        for place in shapes::reached(word, scope, self.surroundings) {
            match place {
                Place::Unknown => self.reaches_somewhere(&word.text(), scope),
                Place::Outside(path) => self.repository(scope.cwds.clone(), Does::Reach(outside_touch(&path).pattern)),
                Place::Inside(_) | Place::Nowhere => {}
            }
        }
    }

    pub(super) fn reaches_somewhere(&mut self, shown: &str, scope: &Scope) {
        let words = self.known_only_when_it_runs(shown);
        self.repository(scope.cwds.clone(), Does::Reach(words));
    }
}

/// Long options whose value is the next word.
const LONG_VALUES: &[&str] = &["date", "reference", "size", "mode", "owner", "group", "suffix", "backup", "target-directory", "time"];

/// The words that a program writes, moves or takes away.
fn changed(program: &str, arguments: &[Word]) -> Vec<Word> {
    let taken = |values: &str| Taken::of(arguments, values, "", LONG_VALUES);
    let mut words = match program {
        "git" => return written_by_git(arguments),
        "find" | "gfind" | "bfs" => return changed_by_find(arguments),
        // Extracting, it goes to a folder that is judged as one.
        "tar" | "gtar" | "bsdtar" if !makes_archive(arguments) => return Vec::new(),
        "tar" | "gtar" | "bsdtar" => archived(arguments),
        _ => outputs(program, &without_formats(arguments)),
    };
    words.extend(match program {
        "rm" | "rmdir" | "unlink" | "sponge" | "ed" | "ex" => taken("").operands,
        "touch" => taken("drt").operands,
        "truncate" => taken("sr").operands,
        "mkdir" | "mkfifo" | "mknod" => taken("m").operands,
        "shred" => taken("ns").operands,
        "chmod" | "chown" | "chgrp" => {
            let taken = taken("");
            let first = usize::from(!taken.has("", &["reference"]));
            taken.operands.into_iter().skip(first).collect()
        }
        "mv" | "ln" => [taken("tS").operands, target_folders(arguments)].concat(),
        "cp" | "install" | "scp" => match (target_folders(arguments), taken("tSmog")) {
            (_, taken) if program == "install" && taken.has("d", &["directory"]) => taken.operands,
            (folders, taken) if folders.is_empty() => taken.operands.last().cloned().into_iter().collect(),
            (folders, _) => folders,
        },
        "rsync" => {
            let taken = taken("efBMT");
            let first = if taken.has("", &["remove-source-files"]) { 0 } else { taken.operands.len().saturating_sub(1) };
            taken.operands.into_iter().skip(first).collect()
        }
        "sed" | "gsed" | "perl" | "ruby" => in_place(program, arguments).unwrap_or_default(),
        "patch" => {
            let value = |at: usize| match arguments[at].text().as_str() {
                "-d" | "-o" | "-r" => arguments.get(at + 1).cloned(),
                _ => None,
            };
            let values: Vec<Word> = (0..arguments.len()).filter_map(value).collect();
            [values, taken("dorpiFBYzDV").operands.into_iter().take(1).collect()].concat()
        }
        "sqlite3" | "zip" => taken("").operands.into_iter().take(1).collect(),
        "uniq" => taken("fsw").operands.into_iter().skip(1).collect(),
        _ => Vec::new(),
    });
    words
}

/// Whether it changes what is put behind its words.
fn changes_further(program: &str, arguments: &[Word]) -> bool {
    match program {
        "rm" | "rmdir" | "unlink" | "sponge" | "touch" | "truncate" | "mkdir" | "mkfifo" | "shred" | "chmod" | "chown" | "chgrp" | "mv"
        | "ln" | "rsync" | "patch" => true,
        "cp" | "install" | "scp" => target_folders(arguments).is_empty(),
        "sed" | "gsed" | "perl" | "ruby" => in_place(program, arguments).is_some(),
        "git" => {
            let texts: Vec<String> = arguments.iter().map(Word::text).collect();
            matches!(git::subcommand(&texts), Some("clone" | "init"))
        }
        _ => false,
    }
}

/// The files of a program that changes them where they are; nothing if it does not.
fn in_place(program: &str, arguments: &[Word]) -> Option<Vec<Word>> {
    // Clusters end at `i`: what follows is a part of the backup's name.
    let is_sed = matches!(program, "sed" | "gsed");
    let values = if is_sed { "efl" } else { "eE" };
    let taken = Taken::of(arguments, values, if is_sed { "i" } else { "iMmIF" }, &["expression", "file"]);
    let has_script = taken.has(if is_sed { "ef" } else { "eE" }, &["expression", "file"]);
    taken.has("i", &["in-place"]).then(|| taken.operands.into_iter().skip(usize::from(!has_script)).collect())
}

fn makes_archive(arguments: &[Word]) -> bool {
    let makes = |(at, word): (usize, &Word)| {
        let text = word.text();
        let letters = if at == 0 { Some(text.trim_start_matches('-')) } else { text.strip_prefix('-') };
        text == "--create" || (!text.starts_with("--") && letters.is_some_and(|letters| letters.contains(['c', 'r', 'u'])))
    };
    arguments.iter().enumerate().any(makes)
}

/// `--output-format $X` names no file.
fn without_formats(arguments: &[Word]) -> Vec<Word> {
    let format = |at: usize| {
        let text = arguments[at].text();
        text.starts_with("--out") && (text.contains("format") || text.contains("style"))
    };
    (0..arguments.len()).filter(|at| !format(*at)).map(|at| arguments[at].clone()).collect()
}

/// Git keeps to its working tree, except for what it is told to make elsewhere.
fn written_by_git(arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let first = git::globals_end(&texts);
    let Some(subcommand) = texts.get(first) else { return Vec::new() };
    let rest = &arguments[first + 1..];
    let after = |options: &[&str]| -> Vec<Word> {
        let value = |at: usize| {
            let text = rest[at].text();
            let joined = options.iter().find_map(|option| {
                let joined = text.strip_prefix(option)?;
                let skip = option.chars().count() + usize::from(option.starts_with("--"));
                (!joined.is_empty() && (!option.starts_with("--") || joined.starts_with('='))).then(|| super::files::after(&rest[at], skip))
            });
            joined.or_else(|| options.contains(&text.as_str()).then(|| rest.get(at + 1).cloned()).flatten())
        };
        (0..rest.len()).filter_map(value).collect()
    };
    let long = ["depth", "branch", "origin", "config", "jobs", "reference", "filter", "template", "initial-branch"];
    let operands = || Taken::of(rest, "boucj", "", &long).operands;
    match subcommand.as_str() {
        "clone" => operands().into_iter().skip(1).collect(),
        "init" => operands(),
        "bundle" => operands().into_iter().skip(1).take(1).collect(),
        "checkout-index" => after(&["--prefix"]),
        "archive" | "format-patch" => after(&["-o", "--output", "--output-directory"]),
        "apply" | "am" => after(&["--directory"]),
        _ => after(&["--output"]),
    }
}

/// Where `find` begins, if it deletes what it finds or hands it to a program that may change it.
fn changed_by_find(arguments: &[Word]) -> Vec<Word> {
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let acts = |at: usize| match texts[at].as_str() {
        "-delete" => true,
        "-exec" | "-execdir" | "-ok" | "-okdir" => texts
            .get(at + 1)
            .is_some_and(|program| is_shell(basename(program)) || !readers::only_reads(basename(program), &texts[at + 2..])),
        _ => false,
    };
    let prints = |at: usize| matches!(texts[at].as_str(), "-fprint" | "-fprint0" | "-fprintf" | "-fls");
    let mut words: Vec<Word> = (0..texts.len()).filter(|at| prints(*at)).filter_map(|at| arguments.get(at + 1).cloned()).collect();
    if (0..texts.len()).any(acts) {
        let options = texts.iter().take_while(|text| matches!(text.as_str(), "-H" | "-L" | "-P")).count();
        words.extend(arguments[options..].iter().take_while(|word| !word.text().starts_with(['-', '(', '!'])).cloned());
        // Through links it comes to files that are elsewhere.
        words
            .extend(texts.iter().find(|text| matches!(text.as_str(), "-L" | "-follow")).map(|text| Word::unknown(&format!("find {text}"))));
    }
    words
}
