//! Templates: what is put where, and that an argument stays data, asked of a real shell.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::{Given, Piece, expand, hints, template::shells, words};

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn shell(line: &str) -> Piece {
    Piece::Shell { line: line.to_owned() }
}

fn file(path: &str) -> Piece {
    Piece::File { path: path.to_owned() }
}

fn expanded(template: &str, arguments: &str) -> Vec<Piece> {
    expand(template, Given { arguments, variables: &[("CLAUDE_SKILL_DIR", "/skills/it's here")] })
}

#[test]
fn arguments_are_words_and_quoted_ones_are_one() {
    let table: [(&str, &[&str]); 10] = [
        ("", &[]),
        ("  a  b\tc\n", &["a", "b", "c"]),
        (r#""a b" c"#, &["a b", "c"]),
        ("'a b' c", &["a b", "c"]),
        (r#"x "" y"#, &["x", "", "y"]),
        ("it doesn't work", &["it", "doesn't", "work"]),
        (r#"unclosed "quote here"#, &["unclosed", "\"quote", "here"]),
        (r#"--name="a b""#, &["--name=\"a", "b\""]),
        ("see [Image 1] and [Image x]", &["see", "[Image 1]", "and", "[Image", "x]"]),
        ("żółw 漢字", &["żółw", "漢字"]),
    ];
    for (arguments, expected) in table {
        assert_eq!(words(arguments), expected, "{arguments}");
    }
}

#[test]
fn placeholders_take_their_argument_and_the_highest_takes_the_rest() {
    let table = [
        ("Find all $1 in the codebase", "TypeScript files", "Find all TypeScript files in the codebase"),
        ("$1 and $2", "a b c d", "a and b c d"),
        ("$2 before $1", "a b c", "b c before a"),
        ("$1, $3", "a b c d", "a, c d"),
        ("[$1][$2][$3]", "a", "[a][][]"),
        ("$1 $1", "a b", "a b a b"),
        ("all: $ARGUMENTS.", " a  \"b c\" ", "all: a  \"b c\"."),
        ("$1 of $ARGUMENTS", "a b", "a b of a b"),
        ("$ARGUMENTS[0] then $ARGUMENTS[1] not $ARGUMENTS[9]", "a b", "a then b not "),
        ("costs $100 or $0 or $x or $", "", "costs $100 or $0 or $x or $"),
        ("$ARGUMENTS_LIST", "", "$ARGUMENTS_LIST"),
        // None: they follow.
        ("Review the code.", "src/a.rs now", "Review the code.\n\nsrc/a.rs now"),
        ("Review the code.", "  ", "Review the code."),
        ("", "only this", "only this"),
        ("${CLAUDE_SKILL_DIR}/x ${OTHER}", "", "/skills/it's here/x ${OTHER}"),
        ("${CLAUDE_SKILL_DIR}", "follows", "/skills/it's here\n\nfollows"),
        ("  trimmed  \n", "", "trimmed"),
    ];
    for (template, arguments, expected) in table {
        assert_eq!(expanded(template, arguments), [text(expected)], "{template} | {arguments}");
    }
    assert_eq!(expanded("", ""), []);
}

#[test]
fn pieces_are_found_before_arguments_are_seen() {
    let table: [(&str, &str, Vec<Piece>); 19] = [
        ("a !`git log` b", "", vec![text("a "), shell("git log"), text(" b")]),
        ("!`git log $1`", "main", vec![shell("git log 'main'")]),
        ("!`git log \"$1\" x`", "a b", vec![shell("git log \"\"'a b'\"\" x")]),
        ("!`git log '$1' x`", "a b", vec![shell("git log '''a b''' x")]),
        ("!`gh view $ARGUMENTS`", "7 'a b'", vec![shell("gh view '7' 'a b'")]),
        ("!`git log $1 -n 2`", "", vec![shell("git log  -n 2")]),
        ("```!\ngit status\ngit log $1\n```\nend", "x", vec![shell("git status\ngit log 'x'"), text("\nend")]),
        ("see @src/main.rs, please", "", vec![text("see "), file("src/main.rs"), text(", please")]),
        ("see @$1.", "a.rs", vec![text("see "), file("a.rs"), text(".")]),
        ("@src/$1.rs", "lib", vec![file("src/lib.rs")]),
        ("@$ARGUMENTS", "a.rs \"b c.rs\"", vec![file("a.rs"), text(" "), file("b c.rs")]),
        ("see @$1!", "", vec![text("see !")]),
        ("mail me@here.org, `@code`", "", vec![text("mail me@here.org, `@code`")]),
        // An argument is never looked into.
        ("$1", "!`id`", vec![text("!`id`")]),
        ("$ARGUMENTS", "@/etc/passwd $1 $ARGUMENTS", vec![text("@/etc/passwd $1 $ARGUMENTS")]),
        ("say", "!`id` @x", vec![text("say\n\n!`id` @x")]),
        ("!$1", "`id`", vec![text("!`id`")]),
        ("$1`id`", "!", vec![text("!`id`")]),
        // What is not closed, empty, or no block of its own is text.
        ("!`` and x```!\nid\n``` and !`open", "", vec![text("!`` and x```!\nid\n``` and !`open")]),
    ];
    for (template, arguments, expected) in table {
        assert_eq!(expanded(template, arguments), expected, "{template} | {arguments}");
    }
}

#[test]
fn a_program_between_single_quotes_is_its_authors() {
    // `$1` of awk is a field; only a word stands for the argument.
    assert_eq!(expanded("!`git status -s | awk '{print $2}'`", ""), [shell("git status -s | awk '{print $2}'")]);
    assert_eq!(expanded("!`awk '{print $2}' f` with $1", "a b"), [shell("awk '{print $2}' f"), text(" with a b")]);
    assert_eq!(expanded("!`git log --since='$1'`", "1 day"), [shell("git log --since='''1 day'''")]);
}

#[test]
fn lines_in_which_an_argument_could_become_a_command_are_not_run() {
    let refused = [
        "$1",
        "$1 x",
        "\"$1\"",
        "x=1 $1",
        "x=$(date) $1",
        "x=1 2>f $1",
        "x=1 {fd}>f $1",
        "PS4=$1; set -x; ls",
        "GIT_SSH_COMMAND=\"$1\" git fetch",
        "x=1 \\\n$1",
        "x=1 \\\n $1",
        "ls; $1",
        "ls && $1",
        "ls | $1",
        "(cd x; $1)",
        "f() { $1; }; f",
        "for x do $1; done",
        "if $1; then ls; fi",
        "! $1",
        "> out $1",
        "eval $1",
        "eval \"echo $1\"",
        "e'va'l $1",
        "e\\val $1",
        "bash -c $1",
        "bash -c \"echo $1\"",
        "bash -c 'echo' $1",
        "echo $1 | sh",
        "echo $1 | /bin/sh",
        "python3.12 -c \"print($1)\"",
        "node -e $1",
        "ssh host ls $1",
        "sudo $1",
        "sudo ls $1",
        "env $1",
        "xargs $1",
        "time -p $1",
        "timeout 5 $1",
        "command $1",
        "exec $1",
        "sed \"s/a/$1/\" f",
        "awk \"{print $1}\" f",
        "trap \"$1\" EXIT",
        ". $1",
        "source $1",
        "echo $(( $1 ))",
        "(( x = $1 ))",
        "echo $[ $1 ]",
        "[[ $1 -eq 1 ]]",
        "x=$1; echo $((x))",
        "a[$1]=2",
        "x=$1; a[x]=2",
        "test -v $1",
        "printf -v $1 x",
        "let $1",
        "declare -i x=$1",
        "read $1",
        "echo ${x:-$1}",
        "echo ${#1} $1",
        "cat <<END\n$1\nEND",
        "cat <<< $1",
        "echo `ls $1`",
        "echo $'$1'",
        "echo $\"$1\"",
        "echo $$$1",
        "ls # $1",
        "case $1 in a) ls;; esac",
        "\"$(case x in a) echo $1;; esac)\"",
        "x=$1; $x",
        "$SHELL -c $1",
        "\"$SHELL\" $1",
        "echo \"$1",
        "echo '$1",
        "echo $1)",
        "(echo $1",
    ];
    for line in refused {
        let open = line.matches('`').count();
        let template = if open == 0 { format!("!`{line}`") } else { format!("```!\n{line}\n```") };
        let pieces = expanded(&template, "touch canary");
        let [Piece::Text(words)] = &pieces[..] else { panic!("{line}: {pieces:?}") };
        assert!(words.starts_with(&format!("`{line}` (not run: ")), "{words}");
    }
}

/// Arguments that want to be more, as typed and as the one word they are.
const NASTY: [&str; 26] = [
    "; touch canary",
    "$(touch canary)",
    "`touch canary`",
    "' ; touch canary ; '",
    "\" ; touch canary ; \"",
    "'\"; touch canary; \"'",
    "\\'; touch canary; \\'",
    "\\\"; touch canary; \\\"",
    "a\ntouch canary\n",
    "a\r\ntouch canary",
    "| touch canary",
    "&& touch canary #",
    "> canary",
    "${x:=$(touch canary)}",
    "$((a[$(touch canary)]))",
    "a[$(touch canary)]",
    "!`touch canary`",
    "$1 $ARGUMENTS ${1} $@",
    "*",
    "~ {a,b} ?",
    "-rf --help",
    "\\",
    "''",
    "'",
    "\"",
    "end of \\",
];

/// What bash says to the line; and it must not have done more.
fn run(line: &str, dir: &Path) -> String {
    let output = Command::new("bash").args(["--norc", "-c", line]).current_dir(dir).stdin(Stdio::null()).output().unwrap();
    assert!(!dir.join("canary").exists(), "ran more than was written: {line}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_real_shell_sees_one_word_wherever_the_author_put_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    // Shell line, and the words it must see with the argument in the place of `{}`.
    let lines: [(&str, &[&str]); 14] = [
        ("printf '<%s>' $1", &["{}"]),
        ("printf '<%s>' \"$1\"", &["{}"]),
        ("printf '<%s>' '$1'", &["{}"]),
        ("printf '<%s>' a$1b", &["a{}b"]),
        ("printf '<%s>' \"a $1 b\" c", &["a {} b", "c"]),
        ("printf '<%s>' \"$(printf '%s.' \"$1\")\"", &["{}."]),
        ("printf '<%s>' \"$(printf '%s.' $1)\"", &["{}."]),
        ("printf '<%s>' \"a'$1'b\"", &["a'{}'b"]),
        ("printf '<%s>' --since='$1'", &["--since={}"]),
        ("printf '<%s>' \\\n  $1", &["{}"]),
        ("true && { printf '<%s>' x $1; }", &["x", "{}"]),
        ("v=$1; printf '<%s>' \"$v\"", &["{}"]),
        ("printf '<%s>' \"\\\"$1\\\"\"", &["\"{}\""]),
        ("(printf '<%s>' $1) | cat 2>/dev/null", &["{}"]),
    ];
    for argument in NASTY {
        // Between quotes that it does not have, so that it is one word.
        let typed = if argument.contains('"') { format!("'{argument}'") } else { format!("\"{argument}\"") };
        let Some(word) = words(&typed).into_iter().next().filter(|_| words(&typed).len() == 1) else { continue };
        for (line, expected) in lines {
            let pieces = expanded(&format!("!`{line}`"), &typed);
            let [Piece::Shell { line: ready }] = &pieces[..] else { panic!("{line} | {argument}: {pieces:?}") };
            let seen: String = expected.iter().map(|one| format!("<{}>", one.replace("{}", &word))).collect();
            // `$(...)` drops what ends the text of its command; here a dot does.
            assert_eq!(run(ready, dir.path()), seen, "{line} | {argument} | {ready}");
        }
    }
}

#[test]
fn whatever_the_line_and_the_argument_nothing_of_the_argument_runs() {
    let dir = tempfile::tempdir().unwrap();
    // Scraps that lines are made of, good and broken; a fixed seed, so that a failure can be repeated.
    let scraps = [
        "echo ",
        "$1",
        "\"$1\"",
        "'$1'",
        "$ARGUMENTS",
        "\"",
        "'",
        "(",
        ")",
        "$(",
        ";",
        "|",
        "&",
        "\n",
        " ",
        "x=",
        "\\",
        "#",
        "{",
        "}",
        "$",
        "$$",
        "${HOME}",
        "${",
        "<",
        ">/dev/null",
        "true ",
        "if ",
        "then ",
        "fi",
        "do ",
        "done",
        "for x in ",
        "!",
        "[",
        "]",
        "a",
        "2",
        "=",
        ",",
        "case x in ",
        "esac",
        "printf %s ",
        "\t",
        "<<E",
        "[[ ",
        "((",
        "-v ",
        "test ",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let mut ran = 0;
    for _ in 0..20_000 {
        let line: String = (0..2 + next(9)).map(|_| scraps[next(scraps.len())]).collect();
        let argument = NASTY[next(NASTY.len())];
        let typed = if argument.contains('"') { format!("'{argument}'") } else { format!("\"{argument}\"") };
        for piece in expanded(&format!("```!\n{line}\n```"), &typed) {
            if let Piece::Shell { line: ready } = piece
                && ready != line.trim()
                && ran < 600
            {
                ran += 1;
                run(&ready, dir.path());
            }
        }
    }
    assert!(100 < ran, "only {ran} lines could be run, so nothing was tested");
}

#[test]
fn hints_name_each_placeholder_once_in_order() {
    assert_eq!(hints("$ARGUMENTS $2 $1 $2 !`x $3` @$4 awk '{print $5}' ${HOME}"), ["$1", "$2", "$3", "$4", "$5", "$ARGUMENTS"]);
    assert_eq!(hints("none"), [""; 0]);
}

#[test]
fn a_huge_template_is_read_in_bounded_time() {
    for scrap in ["!`", "!`x`", "```!\n", "@", "@-", "$", "${", "$ARGUMENTS[", "@\"", "'", "!`echo $1'"] {
        let template = scrap.repeat(64 * 1024 / scrap.len());
        let started = std::time::Instant::now();
        assert!(shells(&template).len() <= template.len());
        if !template.contains("$1") {
            expand(&template, Given { arguments: "a b", variables: &[("CLAUDE_SKILL_DIR", "/x")] });
        }
        assert!(started.elapsed().as_secs() < 60, "{scrap}");
    }
}
