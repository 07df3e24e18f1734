//! Tasks in worktrees through the real binary and real git: where they work, what is left of it, and who is told.
//!
//! When the loop makes and removes a folder is in `engine/tests/worktrees.rs`, what git does in `tools/tests/worktree.rs`.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    background::{Gate, LONG, soon},
    delegation::{prompt, requests_of},
    support::{Answer, Seen, World, answer::Piece, call, git, world::Plan},
};

/// How many worktrees and branches a repository has, and what is not committed in it.
fn state(project: &Path) -> (usize, usize, String) {
    let worktrees = git(project, &["worktree", "list", "--porcelain"]).lines().filter(|line| line.starts_with("worktree ")).count();
    let branches = git(project, &["branch", "--list", "--format=%(refname:short)"]).lines().count();
    (worktrees, branches, git(project, &["status", "--porcelain"]))
}

fn isolated(prompt: &str, more: Value) -> Piece {
    let mut input = json!({"description": format!("task {prompt}"), "prompt": prompt, "subagent_type": "general", "isolation": "worktree"});
    for (key, value) in more.as_object().into_iter().flatten() {
        input[key] = value.clone();
    }
    call("agent", input)
}

fn bash(command: &str) -> Piece {
    call("bash", json!({"command": command}))
}

/// The root makes these calls and says what they came to; the task makes that call, and says what came of it.
fn one(
    given: impl Fn() -> Vec<Piece> + Send + Sync + 'static,
    made: impl Fn() -> Piece + Send + Sync + 'static,
) -> impl Fn(&Seen) -> Answer {
    move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls(given()),
        (_, 0) => Answer::calls([made()]),
        (_, _) => Answer::text(&seen.last_results().join("\n====\n")),
    }
}

fn plan() -> Plan {
    World::with().file("note.txt", "plum\n").file("sub/inner.txt", "inner\n")
}

fn run_json(world: &World, args: &[&str], code: i32) -> Value {
    world.run(&[&["--format", "json"], args].concat()).expect_code(code).json()
}

/// What a result says of a worktree.
fn named(result: &str) -> (PathBuf, String) {
    let line =
        |key: &str| result.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("no {key} in {result}")).to_owned();
    (PathBuf::from(line("worktree: ")), line("branch: "))
}

fn result(shown: &Value) -> &str {
    shown["result"].as_str().unwrap()
}

/// CC-031, CC-218, CC-219, CC-220, CC-223, CC-262, CC-278: a task edits in its own folder, its shell is there, its caller's tree stays as it was,
/// and the caller is told where the work is.
#[test]
fn a_task_works_in_a_worktree_and_its_callers_tree_stays_as_it_was() {
    // Where `POSSE_HOME` holds everything, and where each kind of file has a folder of its own.
    for in_one_folder in [true, false] {
        let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("work", json!({}))]),
            ("go", _) => Answer::text(seen.last_results()[0]),
            (_, 0) => Answer::calls([call("read", json!({"filePath": "note.txt"})), bash("pwd -P")]),
            (_, 1) => Answer::calls([call("edit", json!({"filePath": "note.txt", "oldString": "plum", "newString": "pear"}))]),
            (_, 2) => Answer::calls([bash("cat note.txt")]),
            (_, _) => Answer::text("changed it"),
        });
        let mut command = world.command(&["run", "--format", "json", "go"]);
        if !in_one_folder {
            command = command.without("POSSE_HOME").env("XDG_CONFIG_HOME", world.home.to_str().unwrap());
        }
        let shown = command.run().expect_code(0).json();
        let (path, branch) = named(result(&shown));
        assert!(result(&shown).contains("1 file changed, 0 commits") && result(&shown).contains("task_merge"), "{}", result(&shown));
        let task = shown["tree"][1]["session"].as_str().unwrap().to_lowercase();
        assert!(path.ends_with(&task) && branch.ends_with(&task), "both are named by the task: {path:?} {branch}");
        assert_eq!(world.read("note.txt"), "plum\n");
        assert_eq!(state(&world.project), (2, 2, String::new()));
        assert_eq!(std::fs::read_to_string(path.join("note.txt")).unwrap(), "pear\n");
        assert!(git(&world.project, &["branch", "--list"]).contains(&branch), "{branch}");
        let requests = requests_of(&world, "work");
        assert_eq!(requests[1].last_results()[1].lines().next().unwrap(), path.to_str().unwrap(), "its shell is there");
        assert!(requests[3].last_results()[0].contains("pear"));
        let system = &requests[0].system;
        assert!(system.contains(path.to_str().unwrap()) && !system.contains(world.project.to_str().unwrap()), "{system}");
    }
}

/// CC-182, CC-222: nothing changed: folder, branch and git's own record of it are gone. Commands that change nothing count as nothing.
#[test]
fn a_clean_worktree_leaves_nothing_behind() {
    let world = plan().script(one(|| vec![isolated("look", json!({}))], || bash("cat note.txt; git status; git log --oneline")));
    let before = git(&world.project, &["for-each-ref"]);
    let shown = run_json(&world, &["go"], 0);
    assert!(result(&shown).contains("worktree: it changed nothing, so its folder is removed."), "{}", result(&shown));
    assert_eq!(state(&world.project), (1, 1, String::new()));
    assert_eq!(git(&world.project, &["for-each-ref"]), before);
    let folder = requests_of(&world, "look")[0].system.lines().find_map(|line| {
        let at = line.find('/')?;
        line.contains("worktrees").then(|| PathBuf::from(line[at..].trim()))
    });
    assert!(!folder.expect("its folder is in its prompt").exists());
}

/// A new file is work, though git does not know it; a commit is too; an ignored file is none.
#[test]
fn untracked_files_and_commits_are_work() {
    for (command, kept, words) in [
        ("echo new > fresh.txt", true, "1 file changed, 0 commits"),
        ("echo new > fresh.txt && git add fresh.txt && git commit -qm more", true, "1 file changed, 1 commit"),
        ("mkdir -p target && echo built > target/out.o", false, "it changed nothing"),
        ("rm note.txt", true, "1 file changed, 0 commits"),
    ] {
        let world = plan().file(".gitignore", "target\n").script(one(|| vec![isolated("work", json!({}))], move || bash(command)));
        git(&world.project, &["config", "user.name", "t"]);
        git(&world.project, &["config", "user.email", "t@t"]);
        let shown = run_json(&world, &["go"], 0);
        assert!(result(&shown).contains(words), "{command}: {}", result(&shown));
        assert_eq!(state(&world.project), (1 + usize::from(kept), 1 + usize::from(kept), String::new()), "{command}");
        assert!(!world.project.join("fresh.txt").exists());
    }
}

/// The caller's uncommitted changes are there when they are asked for, by the call or for all tasks, and are nobody's work.
#[test]
fn uncommitted_changes_come_along_when_they_are_asked_for() {
    for (isolation, config, expected) in
        [("worktree", false, "plum"), ("worktree+changes", false, "changed"), ("worktree", true, "changed")]
    {
        let world = plan()
            .config("worktree", json!({"changes": config}))
            .script(one(move || vec![isolated("look", json!({"isolation": isolation}))], || bash("cat note.txt; ls")));
        world.write("note.txt", "changed\n");
        world.write("fresh.txt", "fresh\n");
        let shown = run_json(&world, &["go"], 0);
        let seen = requests_of(&world, "look")[1].last_results()[0].to_owned();
        assert!(seen.contains(expected) && seen.contains("fresh.txt") == (expected == "changed"), "{isolation} {config}: {seen}");
        assert!(result(&shown).contains("it changed nothing"), "{isolation} {config}: {}", result(&shown));
        let (worktrees, branches, status) = state(&world.project);
        assert_eq!((worktrees, branches, status.as_str()), (1, 1, " M note.txt\n?? fresh.txt\n"), "the caller's own index and files stay");
    }
}

/// A path into the caller's tree leads out of the worktree: it is asked about, and denied where nobody can answer.
#[test]
fn an_absolute_path_into_the_callers_tree_is_outside() {
    type Made = fn(&Path) -> Piece;
    let ways: [(&str, Made); 4] = [
        ("write", |home| call("write", json!({"filePath": home.join("note.txt"), "content": "taken\n"}))),
        ("redirect", |home| bash(&format!("echo taken > {}", home.join("note.txt").display()))),
        ("git -C", |home| bash(&format!("git -C {} checkout -q -b taken", home.display()))),
        ("cd", |home| bash(&format!("cd {} && echo taken > note.txt", home.display()))),
    ];
    for (name, made) in ways {
        let home: Arc<std::sync::OnceLock<PathBuf>> = Arc::default();
        let known = home.clone();
        let world = plan().script(one(|| vec![isolated("work", json!({}))], move || made(known.get().unwrap())));
        home.set(world.project.clone()).unwrap();
        let shown = run_json(&world, &["go"], 4);
        assert_eq!(shown["denied"].as_array().unwrap().len(), 1, "{name}: {shown:#}");
        assert_eq!((world.read("note.txt").as_str(), state(&world.project)), ("plum\n", (1, 1, String::new())), "{name}");
    }
}

/// CC-220: a substitution, a file that is read or a pipe leads out like a path that is written out; names that git lists
/// stay in the worktree and ask nobody.
#[test]
fn a_place_that_only_the_run_can_tell_is_outside() {
    const OUT: [&str; 5] = [
        "rm -f $(git worktree list | head -1 | cut -d' ' -f1)/note.txt",
        "M=$(git worktree list | head -1 | cut -d' ' -f1); cp sub/inner.txt \"$M/taken\"",
        "git worktree list --porcelain | head -1 | cut -d' ' -f2 > list; read P < list; touch \"$P/taken\"",
        "git worktree list | head -1 | awk '{print $1}' | xargs -I{} rm -rf {}/sub",
        "BASH_ENV=./env.sh bash -c 'git reset --hard'",
    ];
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("work", json!({}))]),
        ("work", step) if step < OUT.len() => Answer::calls([bash(OUT[step])]),
        ("work", step) if step == OUT.len() => Answer::calls([bash("git ls-files '*.txt' | xargs sed -i 's/plum/pear/' && cat note.txt")]),
        (_, _) => Answer::text(&seen.last_results().join("\n====\n")),
    });
    let shown = run_json(&world, &["go"], 4);
    assert_eq!(shown["denied"].as_array().unwrap().len(), OUT.len(), "{shown:#}");
    assert!(result(&shown).contains("pear"), "{shown:#}");
    assert_eq!((world.read("note.txt").as_str(), world.read("sub/inner.txt").as_str()), ("plum\n", "inner\n"));
    assert!(!world.project.join("taken").exists());
}

/// CC-033: a definition may ask for a worktree; a call that says `none` works in its caller's folder.
#[test]
fn a_definition_asks_for_a_worktree_and_the_call_decides() {
    for (more, apart) in [(json!({}), true), (json!({"isolation": "none"}), false)] {
        let agents = json!({"mason": {"mode": "subagent", "description": "Builds", "prompt": "You build.", "isolation": "worktree"}});
        let world = plan().config("agent", agents).script(one(
            move || {
                let mut input = json!({"description": "d", "prompt": "work", "subagent_type": "mason"});
                for (key, value) in more.as_object().unwrap() {
                    input[key] = value.clone();
                }
                vec![call("agent", input)]
            },
            || bash("echo pear > note.txt"),
        ));
        let shown = run_json(&world, &["go"], 0);
        assert_eq!(result(&shown).contains("worktree: "), apart, "{}", result(&shown));
        assert_eq!(world.read("note.txt"), if apart { "plum\n" } else { "pear\n" });
        assert_eq!(state(&world.project).0, 1 + usize::from(apart));
    }
}

/// Two tasks change the same file at the same time, and neither sees the other.
#[test]
fn two_tasks_edit_the_same_file_at_once() {
    let both = Arc::new(Barrier::new(2));
    let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("one", json!({})), isolated("two", json!({}))]),
        ("go", _) => Answer::text(&seen.last_results().join("\n====\n")),
        (words, 0) => {
            both.wait();
            Answer::calls([bash(&format!("echo {words} >> note.txt"))])
        }
        (_, 1) => {
            both.wait();
            Answer::calls([bash("cat note.txt")])
        }
        (_, _) => Answer::text(seen.last_results()[0]),
    });
    let shown = run_json(&world, &["go"], 0);
    let results: Vec<&str> = result(&shown).split("\n====\n").collect();
    for (words, result) in ["one", "two"].iter().zip(&results) {
        assert!(result.starts_with(&format!("plum\n{words}")), "{result}");
        let (path, _) = named(result);
        assert_eq!(std::fs::read_to_string(path.join("note.txt")).unwrap(), format!("plum\n{words}\n"));
    }
    assert_ne!(named(results[0]), named(results[1]));
    assert_eq!((world.read("note.txt").as_str(), state(&world.project)), ("plum\n", (3, 3, String::new())));
}

/// The same calls in the same moment, shell and files alike: each is done in the folder of whoever made it.
#[test]
fn equal_calls_of_two_tasks_stay_apart() {
    let both = Arc::new(Barrier::new(2));
    let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("one", json!({})), isolated("two", json!({}))]),
        ("go", _) => Answer::text(&seen.last_results().join("\n====\n")),
        (_, 0) => {
            both.wait();
            Answer::calls([bash("cd sub; sleep 0.2; echo more >> inner.txt"), call("read", json!({"filePath": "note.txt"}))])
        }
        (_, 1) => {
            both.wait();
            Answer::calls([bash("pwd -P"), call("edit", json!({"filePath": "note.txt", "oldString": "plum", "newString": "pear"}))])
        }
        (_, _) => Answer::text(&seen.last_results().join("\n")),
    });
    let shown = run_json(&world, &["go"], 0);
    for result in result(&shown).split("\n====\n") {
        let (path, _) = named(result);
        let text = |name: &str| std::fs::read_to_string(path.join(name)).unwrap();
        assert_eq!((text("sub/inner.txt"), text("note.txt")), ("inner\nmore\n".into(), "pear\n".into()), "{result}");
        assert!(result.starts_with(path.join("sub").to_str().unwrap()), "its shell is where it went: {result}");
    }
    assert_eq!((world.read("note.txt").as_str(), state(&world.project)), ("plum\n", (3, 3, String::new())));
}

/// A task whose clean folder was removed has it again when it goes on, and works in it.
#[test]
fn a_task_that_goes_on_works_in_its_folder_again() {
    let world = plan().script(|seen: &Seen| match (prompt(seen), seen.steps()) {
        ("go", 0) => Answer::calls([isolated("work", json!({}))]),
        ("go", 1) => {
            let id = seen.last_results()[0].rsplit("task_id: ").next().unwrap().trim().to_owned();
            Answer::calls([isolated("more", json!({"task_id": id}))])
        }
        ("go", _) => Answer::text(seen.last_results()[0]),
        (_, 0) => Answer::calls([call("read", json!({"filePath": "note.txt"}))]),
        (_, 2) => Answer::calls([call("edit", json!({"filePath": "note.txt", "oldString": "plum", "newString": "pear"})), bash("pwd -P")]),
        (_, _) => Answer::text(&seen.last_results().join("\n")),
    });
    let shown = run_json(&world, &["go"], 0);
    let (path, _) = named(result(&shown));
    assert_eq!((shown["tree"].as_array().unwrap().len(), state(&world.project)), (2, (2, 2, String::new())));
    assert_eq!(std::fs::read_to_string(path.join("note.txt")).unwrap(), "pear\n", "{}", result(&shown));
}

/// From a folder below the top, a task works in the same folder of its worktree.
#[test]
fn a_task_works_in_the_same_place_of_its_worktree() {
    let world = plan().script(one(|| vec![isolated("work", json!({}))], || bash("pwd -P; cat inner.txt")));
    let done = world.command(&["run", "--format", "json", "go"]).cwd(world.project.join("sub")).run().expect_code(0);
    let seen = requests_of(&world, "work")[1].last_results()[0].to_owned();
    let folder = seen.lines().next().unwrap();
    assert!(folder.ends_with("/sub") && !folder.starts_with(world.project.to_str().unwrap()) && seen.contains("inner"), "{seen}");
    assert!(done.json()["result"].as_str().unwrap().contains("it changed nothing"));
}

/// CC-221: a fork in a worktree is told that what it has read is elsewhere now.
#[test]
fn a_fork_in_a_worktree_is_told_to_read_again() {
    let world = plan().config("fork", json!("explicit")).script(|seen: &Seen| {
        let is_fork = seen.user_texts().iter().any(|text| text.contains("<fork-boilerplate>"));
        match seen.steps() {
            1 if is_fork => Answer::calls([bash("pwd -P; echo pear > note.txt")]),
            _ if is_fork => Answer::text("forked"),
            0 => Answer::calls([isolated("work", json!({"subagent_type": "fork"}))]),
            _ => Answer::text(seen.last_results()[0]),
        }
    });
    let shown = run_json(&world, &["go"], 0);
    let (path, _) = named(result(&shown));
    let forked =
        world.model.requests().into_iter().find(|seen| seen.user_texts().iter().any(|text| text.contains("<fork-boilerplate>"))).unwrap();
    let notice = *forked.user_texts().last().unwrap();
    let places = [path.to_str().unwrap(), world.project.to_str().unwrap(), "Read a file again"];
    assert!(places.iter().all(|words| notice.contains(words)), "{notice}");
    assert_eq!((world.read("note.txt").as_str(), std::fs::read_to_string(path.join("note.txt")).unwrap().as_str()), ("plum\n", "pear\n"));
}

/// The process dies while a task works in its worktree; whoever goes on finds the folder with what was done in it.
#[test]
fn a_task_in_a_worktree_survives_kill_9() {
    for dirty in [true, false] {
        let gate = Gate::default();
        let held = gate.clone();
        let command = if dirty { "echo pear >> note.txt" } else { "cat note.txt" };
        let world = plan().script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("work", json!({}))]),
            ("go", _) => Answer::text(seen.last_results()[0]),
            (_, 0) => Answer::calls([bash(command)]),
            (_, 1) => {
                held.pass();
                Answer::calls([bash("cat note.txt # again")])
            }
            (_, _) => Answer::text(seen.last_results()[0]),
        });
        let running = world.start(&["run", "go"]);
        assert!(world.model.wait_until(LONG, |books| books.requests.iter().any(|seen| prompt(seen) == "work" && seen.steps() == 1)));
        running.kill();
        assert_eq!(running.wait(LONG).signal, Some(9));
        assert!(world.processes_left_after(Duration::from_secs(5)).is_empty());
        gate.open();
        let sessions = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
        let root = sessions[0]["session"].as_str().unwrap();
        let shown = world.posse(&["sessions", "resume", root, "--format", "json"]).expect_code(0).json();
        let expected = if dirty { "plum\npear" } else { "plum" };
        assert!(result(&shown).starts_with(expected), "{}", result(&shown));
        assert_eq!(state(&world.project), (1 + usize::from(dirty), 1 + usize::from(dirty), String::new()), "{}", result(&shown));
        assert_eq!(world.read("note.txt"), "plum\n");
    }
}

/// Where there is no repository there is no worktree: the model is not offered one, and asking for one is refused in words.
#[test]
fn without_a_repository_a_worktree_is_refused_in_words() {
    for dialect in ["posse", "claude"] {
        let tool = if dialect == "claude" { "Agent" } else { "agent" };
        let world = plan().without_git().config("dialect", json!(dialect)).script(one(
            move || {
                vec![call(tool, json!({"description": "d", "prompt": "work", "subagent_type": "general-purpose", "isolation": "worktree"}))]
            },
            || bash("true"),
        ));
        let shown = run_json(&world, &["go"], 0);
        assert!(result(&shown).contains("needs a git repository"), "{dialect}: {}", result(&shown));
        assert_eq!((requests_of(&world, "work").len(), shown["tree"].as_array().unwrap().len()), (0, 1), "{dialect}");
        let schema = world.model.requests()[0].tool(tool).unwrap()["input_schema"]["properties"].clone();
        assert!(schema.get("isolation").is_none() && schema.get("prompt").is_some(), "{dialect}: {schema}");
    }
}

/// CC-035, CC-041: `cwd` is understood and never shown; CC-036, CC-037, CC-284: with `isolation` it is refused. CC-034: alone it is where the task works.
#[test]
fn a_folder_of_the_project_may_be_named_instead() {
    let world = plan().script(one(
        || {
            let cwd = |more: Value| {
                let mut input = json!({"description": "d", "prompt": "work", "subagent_type": "general"});
                for (key, value) in more.as_object().unwrap() {
                    input[key] = value.clone();
                }
                call("agent", input)
            };
            vec![
                cwd(json!({"cwd": "sub"})),
                cwd(json!({"cwd": "sub", "isolation": "worktree"})),
                cwd(json!({"cwd": "/"})),
                cwd(json!({"cwd": "missing"})),
            ]
        },
        || bash("pwd -P"),
    ));
    let shown = run_json(&world, &["go"], 0);
    let results: Vec<&str> = result(&shown).split("\n====\n").collect();
    assert!(results[0].starts_with(world.project.join("sub").to_str().unwrap()), "{results:?}");
    assert!(results[1].contains("exclude each other") && results[2].contains("must be a folder of this project"), "{results:?}");
    assert!(results[3].contains("there is no folder missing"), "{results:?}");
    assert_eq!(requests_of(&world, "work").len(), 2, "one task with one call");
    let schema = world.model.requests()[0].tool("agent").unwrap()["input_schema"]["properties"].clone();
    assert!(schema.get("cwd").is_none() && schema.get("isolation").is_some(), "{schema}");
}

/// CC-224, CC-271: a folder that a command of the user's made is used and kept, for nobody can tell what was changed in it.
#[test]
fn a_folder_that_the_users_command_makes_is_kept() {
    let making = "mkdir -p ../made-$POSSE_TASK && cp -r note.txt ../made-$POSSE_TASK && echo made it && echo ../made-$POSSE_TASK";
    for (create, bare, words) in [
        (making, false, "nobody can tell what was changed in it"),
        (making, true, "nobody can tell what was changed in it"),
        ("echo no room >&2; exit 3", false, "no room"),
        ("echo nowhere", false, "its last line must be a folder"),
    ] {
        let mut plan = plan().config("worktree", json!({"create": create}));
        if bare {
            plan = plan.without_git();
        }
        let world = plan.script(one(|| vec![isolated("work", json!({}))], || bash("pwd -P; cat note.txt")));
        let shown = run_json(&world, &["go"], 0);
        assert!(result(&shown).contains(words), "{create}: {}", result(&shown));
        let made = world.folder().canonicalize().unwrap().join(format!("made-{}", shown["tree"][1]["session"].as_str().unwrap_or("")));
        assert_eq!(made.is_dir(), create == making, "{create}");
        if create == making {
            assert!(result(&shown).starts_with(&format!("{}\nplum", made.display())), "{}", result(&shown));
        } else {
            assert_eq!(requests_of(&world, "work").len(), 0, "nobody works where nobody wanted it to");
        }
    }
}

/// Whoever works below a task works in that task's folder, whoever made it: nothing lands in the tree of the one above.
#[test]
fn a_task_of_a_task_works_in_the_same_worktree() {
    let making = "mkdir -p ../made-$POSSE_TASK && cp -r note.txt ../made-$POSSE_TASK && echo ../made-$POSSE_TASK";
    for create in [None, Some(making)] {
        // An agent of the user's that may give work itself.
        let foreman = json!({"mode": "subagent", "description": "Leads", "prompt": "You lead.", "permission": {"task": "allow"}});
        let mut plan = plan().config("agent", json!({ "foreman": foreman }));
        if let Some(create) = create {
            plan = plan.config("worktree", json!({"create": create}));
        }
        let world = plan.script(|seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([isolated("work", json!({"subagent_type": "foreman"}))]),
            ("work", 0) => Answer::calls([isolated("help", json!({"isolation": "none"}))]),
            ("help", 0) => Answer::calls([call("write", json!({"filePath": "helped.txt", "content": "x"})), bash("pwd -P")]),
            ("help", _) => Answer::text(seen.last_results()[1]),
            (_, _) => Answer::text(seen.last_results()[0]),
        });
        let shown = run_json(&world, &["go"], 0);
        let path = result(&shown).lines().find_map(|line| line.strip_prefix("worktree: ")).map(PathBuf::from).unwrap();
        assert!(!world.project.join("helped.txt").exists(), "{create:?}: it landed in the caller's tree: {}", result(&shown));
        assert!(path.join("helped.txt").is_file(), "{create:?}: {}", result(&shown));
        assert_eq!(state(&world.project).2, "");
    }
}

/// In the background the notice says it, in both dialects.
#[test]
fn a_notice_names_the_worktree() {
    for (dialect, tool) in [("posse", "agent"), ("claude", "Agent")] {
        let world = plan().config("dialect", json!(dialect)).script(move |seen: &Seen| match (prompt(seen), seen.steps()) {
            ("go", 0) => Answer::calls([call(
                tool,
                json!({"description": "d", "prompt": "work", "subagent_type": "general-purpose", "isolation": "worktree", "run_in_background": true}),
            )]),
            ("go", 1) => Answer::text("meanwhile"),
            ("go", _) => Answer::text(seen.user_texts().last().unwrap()),
            (_, 0) => Answer::calls([bash("echo pear > note.txt")]),
            (_, _) => Answer::text("changed it"),
        });
        let shown = run_json(&world, &["go"], 0);
        let (path, _) = named(&result(&shown).replace("<result>", "\n"));
        assert_eq!(std::fs::read_to_string(path.join("note.txt")).unwrap(), "pear\n", "{dialect}");
    }
}

/// What a user's command that makes folders does: it notes each run, and names the folder as it was told to.
const MAKING: &str = "echo run >> ../runs; mkdir -p ../made-$POSSE_SLUG && cp note.txt ../made-$POSSE_SLUG && echo ../made-$POSSE_SLUG";

/// More appends than a run with one task has.
const APPENDS_MAX: u64 = 40;

fn only_session(world: &World) -> Option<String> {
    let listed = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    listed.as_array().unwrap().first().map(|session| session["session"].as_str().unwrap().to_owned())
}

/// CC-224, CC-271: killed before any append, also between the command and the first fact of its task: the command has run once, and in the
/// end nothing is noted of it.
#[test]
fn the_users_command_runs_once_wherever_posse_is_killed() {
    let mut listed = 0;
    for append in 1..=APPENDS_MAX {
        let plan = plan().config("worktree", json!({"create": MAKING}));
        let world = plan.script(one(|| vec![isolated("work", json!({}))], || bash("cat note.txt")));
        let killed = world.command(&["run", "go"]).env("POSSE_CRASH_AT", &format!("before_append:{append}")).run();
        let runs = || std::fs::read_to_string(world.folder().join("runs")).unwrap_or_default().lines().count();
        assert!(runs() <= 1, "{append}");
        listed += usize::from(world.posse(&["doctor"]).out.contains("which has not begun"));
        match (killed.signal, only_session(&world)) {
            (Some(_), Some(session)) => drop(world.posse(&["sessions", "resume", &session]).expect_code(0)),
            (Some(_), None) => drop(world.run(&["go"]).expect_code(0)),
            (None, _) => {
                assert!(4 < append && listed == 1, "{append} {listed}");
                return;
            }
        }
        assert_eq!(runs(), 1, "{append}: it does not run twice for one task");
        let left = world.posse(&["doctor", "--clean"]).out;
        assert!(!left.contains("worktree.create") && !left.contains("orders"), "{append}: {left}");
    }
    panic!("it never ended");
}

/// Killed in the middle of the command: nothing of it lives on, and `doctor` lists and cleans what is noted, with git and without.
#[test]
fn the_users_command_does_not_outlive_posse() {
    for bare in [false, true] {
        let mut plan = plan().config("worktree", json!({"create": "touch ../begun; sleep 600"}));
        if bare {
            plan = plan.without_git();
        }
        let world = plan.script(one(|| vec![isolated("work", json!({}))], || bash("pwd")));
        let run = world.start(&["run", "go"]);
        soon("the command runs", || world.folder().join("begun").exists().then_some(()));
        run.kill();
        assert_eq!(run.wait(LONG).signal, Some(9));
        let left = world.processes_left_after(Duration::from_secs(10));
        assert!(left.is_empty(), "{left:?}");
        let told = world.posse(&["doctor"]).out;
        assert!(told.contains("your `worktree.create` command was interrupted in"), "bare {bare}: {told}");
        let cleaned = world.posse(&["doctor", "--clean"]).out;
        assert!(cleaned.contains("cleaned: ") && !world.posse(&["doctor"]).out.contains("worktree.create"), "bare {bare}: {cleaned}");
    }
}

/// CC-221: a fork keeps its caller's head, so what its worktree lacks is said where it is told that it has moved.
#[test]
fn a_fork_is_told_of_submodules_that_could_not_be_filled() {
    for agent in ["fork", "general"] {
        let world = plan().config("fork", json!("explicit")).script(move |seen: &Seen| {
            let is_fork = seen.user_texts().iter().any(|text| text.contains("<fork-boilerplate>"));
            match (prompt(seen), seen.steps()) {
                _ if is_fork => Answer::text("worked"),
                ("go", 0) => Answer::calls([isolated("work", json!({"subagent_type": agent}))]),
                _ => Answer::text("done"),
            }
        });
        // A submodule whose repository is nowhere.
        let commit = git(&world.project, &["rev-parse", "HEAD"]);
        world.write(".gitmodules", "[submodule \"lib\"]\n\tpath = lib\n\turl = ./nowhere\n");
        git(&world.project, &["add", ".gitmodules"]);
        git(&world.project, &["update-index", "--add", "--cacheinfo", &format!("160000,{},lib", commit.trim())]);
        git(&world.project, &["commit", "-qm", "a submodule"]);
        world.write("lib/.git", "gitdir: ../nowhere\n");
        run_json(&world, &["go"], 0);
        let words = "Of this worktree you should know: the submodule lib is empty in the worktree: its repository was not found.";
        let is_task = |seen: &Seen| seen.user_texts().iter().any(|text| text.contains("<fork-boilerplate>") || *text == "work");
        let task = world.model.requests().into_iter().find(|seen| is_task(seen)).unwrap();
        let told = (task.system.contains(words), task.user_texts().iter().any(|text| text.contains(words)));
        assert_eq!(told, (agent != "fork", agent == "fork"), "{agent}: {:#?}", task.user_texts());
    }
}

/// The repository of a worktree is gone when somebody goes on: the task has failed in its own log as in its caller's, and says why.
#[test]
fn a_task_whose_worktree_cannot_be_made_again_has_failed_everywhere() {
    let world = plan().script(one(|| vec![isolated("work", json!({}))], || bash("touch begun; sleep 600")));
    let run = world.start(&["run", "go"]);
    soon("its call runs", || {
        let listed = git(&world.project, &["worktree", "list"]);
        let path = listed.lines().nth(1)?.split(' ').next()?;
        Path::new(path).join("begun").exists().then_some(())
    });
    run.kill();
    assert_eq!(run.wait(LONG).signal, Some(9));
    let session = only_session(&world).unwrap();
    std::fs::rename(world.project.join(".git"), world.folder().join("moved-away")).unwrap();
    let resumed = world.posse(&["sessions", "resume", &session]).expect_code(0);
    let nodes = world.posse(&["sessions", "tree", &session, "--format", "json"]).expect_code(0).json();
    let states: Vec<(&str, &str)> =
        nodes.as_array().unwrap().iter().map(|node| (node["agent"].as_str().unwrap(), node["status"].as_str().unwrap())).collect();
    assert_eq!(states, [("build", "completed"), ("general", "failed")], "{nodes}");
    assert!(resumed.out.contains("cannot be used: its repository"), "{resumed:?}");
    assert_eq!(requests_of(&world, "work").len(), 1, "nobody was asked to go on without its folder");
}
