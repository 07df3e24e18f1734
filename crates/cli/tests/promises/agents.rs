//! Agents as a user meets them: who there is, what each may do, what was tolerated in files, and a new one by a model.

use serde_json::{Value, json};

use crate::support::{Answer, Done, Seen, World};

fn plain() -> World {
    World::new(|_: &Seen| "ok")
}

fn reviewer(description: &str) -> String {
    format!("---\ndescription: {description}\nmode: subagent\nmodel: mock/m2\nsteps: 7\n---\n\nYou review.\n")
}

fn row<'a>(list: &'a str, name: &str) -> Option<&'a str> {
    list.lines().find(|line| line.split_whitespace().next() == Some(name))
}

#[test]
fn the_list_has_who_can_be_named_and_json_has_everybody() {
    let world = World::with()
        .config("agent", json!({"mine": {"description": "Mine", "mode": "primary"}, "plan": {"disable": true}}))
        .file(".posse/agents/reviewer.md", &reviewer("Reviews\u{1b}[31m changes"))
        .script(|_: &Seen| "never");
    let done = world.posse(&["agents", "list"]).expect_code(0);
    assert!(row(&done.out, "build").is_some_and(|row| row.contains("primary, default") && row.ends_with("built-in")), "{}", done.out);
    assert!(row(&done.out, "mine").is_some_and(|row| row.contains("primary") && row.contains("posse.json:")), "{}", done.out);
    let file = row(&done.out, "reviewer").unwrap();
    assert!(file.contains("subagent") && file.contains("Reviews") && file.contains(".posse/agents/reviewer.md:1 (not trusted)"), "{file}");
    assert!(!done.out.contains('\u{1b}'), "text of others moves no cursor");
    for hidden in ["general", "compaction", "title", "summary", "plan"] {
        assert_eq!(row(&done.out, hidden), None, "{}", done.out);
    }
    let all = world.posse(&["agents", "list", "--format", "json"]).expect_code(0).json();
    let find = |name: &str| all.as_array().unwrap().iter().find(|agent| agent["name"] == name).cloned();
    let general = find("general").unwrap();
    assert_eq!((&general["hidden"], &general["aliases"]), (&json!(true), &json!(["general-purpose"])));
    assert_eq!(find("plan"), None, "disabled");
    let reviewer = find("reviewer").unwrap();
    assert_eq!((&reviewer["prompt"], &reviewer["trusted"], &reviewer["hidden"]), (&json!("You review."), &json!(false), &json!(false)));
    assert!(done.err.contains("not trusted: .posse/agents/reviewer.md: model"), "and it is said: {}", done.err);
    assert_eq!(reviewer["model"], Value::Null, "a folder that is not trusted chooses no model");
    assert!(world.model.requests().is_empty());
}

#[test]
fn the_list_says_that_something_was_tolerated() {
    let world = World::with().file(".claude/agents/a.md", "---\ndescription: one: two\n---\nYou do.\n").script(|_: &Seen| "never");
    let list = world.posse(&["agents", "list"]).expect_code(0);
    assert!(list.err.contains("2 things tolerated in agent files") && list.err.contains("`posse agents check`"), "{}", list.err);
    assert_eq!(plain().posse(&["agents", "list"]).expect_code(0).err, "");
}

#[test]
fn an_agent_is_shown_with_the_limits_that_count_and_who_answers_for_its_model() {
    let definition = json!({"slow": {"background": true, "timeout": "5h", "limits": {"idle": "1m", "depth": 0}, "budget": {"cost": 0.5, "tokens": 900}},
        "plain": {"fallback": []}});
    let world = World::with().config("agent", definition).config("fallback", json!(["small", "mock/m2"])).script(|_: &Seen| "never");
    let shown = world.posse(&["agents", "show", "slow"]).expect_code(0).out;
    let lines: Vec<String> = shown.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for line in [
        "background always",
        "limit wall 2h (it asks for 5h; the configured limit counts)",
        "limit idle 1m",
        "limit cost $0.5",
        "limit tokens 900",
        "limit depth 0",
        "fallback small, then mock/m2 when its model is overloaded",
    ] {
        assert!(lines.iter().any(|shown| shown == line), "{line} is not in {shown}");
    }
    assert!(!shown.contains("not yet"), "all of it counts: {shown}");
    let all = world.posse(&["agents", "show", "slow", "--format", "json"]).expect_code(0).json();
    assert_eq!(all["limits"], json!({"wall": "2h", "idle": "1m", "cost": "$0.5", "tokens": "900", "depth": "0"}), "{all}");
    assert_eq!((&all["fallback"], &all["later"]), (&json!(["small", "mock/m2"]), &json!({})), "{all}");
    let plain = world.posse(&["agents", "show", "plain"]).expect_code(0).out;
    assert!(!plain.contains("limit ") && !plain.contains("fallback"), "{plain}");
}

#[test]
fn an_agent_is_shown_with_the_tools_it_is_offered_and_its_rules() {
    let definition = json!({"auditor": {"description": "Audits", "tools": {"write": false}, "permission": {"bash": {"*": "deny", "git log*": "allow"}},
        "maxSteps": 4, "temperature": 0.2, "memory": "project", "skills": ["nothing-such"], "hooks": {"Stop": []}, "isolation": "worktree",
        "prompt": "You audit.\nAlways."}});
    let world = World::with().config("agent", definition).config("permission", json!({"webfetch": "deny"})).script(|_: &Seen| "ok");
    let shown = world.posse(&["agents", "show", "Auditor"]).expect_code(0).out;
    let line = |key: &str| shown.lines().find(|line| line.trim_start().starts_with(key)).unwrap_or_else(|| panic!("no {key} in {shown}"));
    assert_eq!(shown.lines().next(), Some("auditor  all"));
    assert!(line("steps").contains("at most 4 model calls") && line("temperature").ends_with("0.2"), "{shown}");
    assert!(line("tools ").contains("read") && line("tools ").contains("bash") && line("tools ").contains("todowrite"), "{shown}");
    assert!(!line("tools ").contains("write,") && !line("tools ").contains("webfetch"), "{shown}");
    assert!(!line("as a task").contains("todowrite") && !line("as a task").contains("agent"), "{shown}");
    assert!(line("skill").contains("nothing-such: there is no such skill"), "{shown}");
    assert!(line("memory").ends_with(".posse/agent-memory/auditor"), "{shown}");
    let later: Vec<&str> = shown.lines().filter(|line| line.contains("not yet")).collect();
    assert!(later.len() == 1 && later[0].contains("hooks"), "{shown}");
    assert!(line("isolation").ends_with("worktree"), "{shown}");
    let (deny, allow) = (shown.find("deny   bash(*)").unwrap(), shown.find("allow  bash(git log*)").unwrap());
    assert!(deny < allow && shown[allow..].lines().next().unwrap().contains("posse.json:"), "{shown}");
    assert!(shown.ends_with("prompt\n  You audit.\n  Always.\n"), "{shown}");

    // What is shown is what a run offers.
    let all = world.posse(&["agents", "show", "auditor", "--format", "json"]).expect_code(0).json();
    assert_eq!(all["agent"]["steps"], 4);
    assert_eq!((&all["later"], &all["agent"]["isolation"]), (&json!({"hooks": {"Stop": []}}), &json!("worktree")));
    world.run(&["-a", "auditor", "--on-ask", "wait", "hi"]).expect_code(0);
    assert_eq!(all["tools"]["root"], json!(world.model.last().tools));
    let verdicts: Vec<&Value> = all["rules"].as_array().unwrap().iter().filter(|rule| rule["key"] == "bash").collect();
    assert!(verdicts.iter().any(|rule| rule["pattern"] == "git log*" && rule["action"] == "allow"), "{all}");
}

#[test]
fn natives_are_shown_as_they_are() {
    let world = plain();
    let explore = world.posse(&["agents", "show", "explore", "--format", "json"]).expect_code(0).json();
    assert_eq!(explore["tools"]["root"], Value::Null, "nobody starts with it");
    let tools = explore["tools"]["task"].as_array().unwrap();
    for (tool, offered) in
        [("read", true), ("grep", true), ("glob", true), ("bash", true), ("edit", false), ("write", false), ("todowrite", false)]
    {
        assert_eq!(tools.contains(&json!(tool)), offered, "{tool}: {explore}");
    }
    let title = world.posse(&["agents", "show", "title"]).expect_code(0).out;
    assert!(title.contains("primary, hidden") && title.lines().any(|line| line.trim_end() == "  tools       none"), "{title}");
    assert!(world.posse(&["agents", "show", "general-purpose"]).expect_code(0).out.starts_with("general  subagent, hidden"));
    let build = |config: Value| {
        world.configure(&config);
        world.posse(&["agents", "show", "build", "--format", "json"]).expect_code(0).json()["tools"]["root"].clone()
    };
    let has = |tools: &Value, name: &str| tools.as_array().unwrap().contains(&json!(name));
    let (ours, theirs) = (build(json!({})), build(json!({"dialect": "opencode"})));
    assert!(has(&ours, "agent") && !has(&ours, "task") && has(&theirs, "task") && !has(&theirs, "agent"), "{ours} {theirs}");
    let wrong = world.posse(&["agents", "show", "exlore"]).expect_code(2);
    assert!(wrong.err.contains("there is no agent `exlore`; did you mean explore?"), "{}", wrong.err);
    let far = world.posse(&["agents", "show", "zzzzzz"]).expect_code(2);
    assert!(far.err.contains("`posse agents list`"), "{}", far.err);
}

#[test]
fn the_check_names_what_was_tolerated_and_where() {
    let world = World::with()
        .file(".posse/agents/good.md", &reviewer("Good"))
        .file(".claude/agents/odd.md", "---\ndescription: one: two\ncolor: red\n---\nYou do.\n")
        .file(".claude/commands/json.md", "{\"template\": \"Do $1\", \"description\": \"d\"}\n")
        .file(".claude/skills/s/SKILL.md", "---\nname: s\ndescription: fine\n---\nText\n")
        .script(|_: &Seen| "never");
    let done = world.posse(&["agents", "check"]).expect_code(0);
    assert!(done.out.lines().any(|line| line.starts_with(".claude/agents/odd.md:2:")), "{}", done.out);
    assert!(done.out.lines().any(|line| line.starts_with(".claude/commands/json.md:1:")), "{}", done.out);
    assert!(done.err.contains("3 things tolerated; 2 of 4 files had nothing to guess"), "{}", done.err);
    let rows = world.posse(&["agents", "check", "--format", "json"]).expect_code(0).json();
    assert_eq!((&rows["files"], &rows["fine"], &rows["errors"]), (&json!(4), &json!(2), &json!([])));
    assert_eq!((&rows["tolerated"][0]["file"], &rows["tolerated"][0]["line"]), (&json!(".claude/agents/odd.md"), &json!(2)));

    let elsewhere = world.home.join("collection");
    std::fs::create_dir_all(elsewhere.join("deep")).unwrap();
    std::fs::write(elsewhere.join("deep/a.md"), "Some words\n---\ndescription: d\n---\nText\n").unwrap();
    std::fs::write(elsewhere.join("b.md"), reviewer("Fine")).unwrap();
    for (path, expected) in [(elsewhere.clone(), "of 2 files"), (elsewhere.join("deep/a.md"), "0 of 1 file had")] {
        let done = world.posse(&["agents", "check", path.to_str().unwrap()]).expect_code(0);
        assert!(done.out.contains("deep/a.md:") && done.err.contains(expected), "{}{}", done.out, done.err);
    }
    let fine = world.posse(&["agents", "check", elsewhere.join("b.md").to_str().unwrap()]).expect_code(0);
    assert!(fine.out.is_empty() && fine.err.contains("1 file, and nothing had to be guessed"), "{fine:?}");
    assert!(world.posse(&["agents", "check", "no/such"]).expect_code(2).err.contains("no/such: there is no such file"));
}

#[test]
fn a_configuration_that_cannot_be_used_is_the_only_error_of_a_check() {
    let world = World::with().config("agent", json!({"a": {"steps": "many"}})).script(|_: &Seen| "never");
    let done = world.posse(&["agents", "check"]).expect_code(2);
    let said = format!("{}{}", done.out, done.err);
    assert!(said.contains("posse.json:") && said.contains("agent.a.steps"), "{said}");
}

fn proposal(identifier: &str) -> String {
    json!({"identifier": identifier, "whenToUse": "Use this agent when: \"x\" # y", "systemPrompt": "You are careful.\n\n---\nReport."})
        .to_string()
}

fn create(world: &World, more: &[&str]) -> Done {
    world.posse(&[&["agents", "create", "--description", "Reviews\nmigrations @src/lib.rs /init"], more].concat())
}

#[test]
fn a_model_writes_an_agent_that_loads_back_as_written() {
    let world = World::new(|_: &Seen| format!("Here it is:\n```json\n{}\n```", proposal("migration-reviewer")));
    let done = create(&world, &[]).expect_code(0);
    assert_eq!(done.out, ".posse/agents/migration-reviewer.md\n");
    assert!(done.err.contains("posse agents show migration-reviewer") && !done.err.contains("another definition"), "{}", done.err);
    let seen = world.model.last();
    assert_eq!((seen.json["temperature"].as_f64(), seen.tools.len()), (Some(0.3), 0));
    let asked = seen.user_texts()[0];
    assert!(asked.contains("Reviews\nmigrations @src/lib.rs /init"), "the words as they are: {asked}");
    for name in ["build", "plan", "general", "general-purpose", "explore", "compaction", "title", "summary"] {
        assert!(asked.contains(name), "{name} is not forbidden in {asked}");
    }
    assert!(seen.system.contains("whenToUse"), "{}", seen.system);
    let agent = world.posse(&["agents", "show", "migration-reviewer", "--format", "json"]).expect_code(0).json()["agent"].clone();
    assert_eq!(
        (&agent["description"], &agent["prompt"], &agent["mode"]),
        (&json!("Use this agent when: \"x\" # y"), &json!("You are careful.\n\n---\nReport."), &json!("subagent"))
    );
    assert_eq!(world.posse(&["agents", "check"]).expect_code(0).out, "", "nothing had to be tolerated");

    // It went through the kernel: in the log, with its cost, and not among what the user did.
    assert_eq!(world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json(), json!([]));
    let id = done.err.split("sessions show ").nth(1).unwrap().trim().to_owned();
    let session = world.posse(&["sessions", "show", &id, "--format", "json"]).expect_code(0).json()["session"].clone();
    assert_eq!((&session["kind"], &session["steps"]), (&json!("internal"), &json!(1)));
    assert!(0.0 < session["usage"]["cost_usd"].as_f64().unwrap(), "{session}");
    assert!(world.run(&["-c", "hi"]).expect_code(2).err.contains("no session"), "nobody goes on with it by accident");
}

#[test]
fn a_wrong_answer_is_sent_back_once_with_words() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => proposal("Plan It"),
        _ => proposal("planner"),
    });
    create(&world, &["-m", "mock/m2"]).expect_code(0);
    assert_eq!(world.model.requests().len(), 2);
    let last = world.model.last();
    assert_eq!(last.json["model"], "m2");
    assert!(last.user_texts().last().unwrap().contains("`identifier` must be lower-case letters"), "{:?}", last.user_texts());
    assert_eq!(last.json["temperature"].as_f64(), Some(0.3), "the same session");
    assert!(world.read(".posse/agents/planner.md").starts_with("---\ndescription: \""));
}

#[test]
fn an_answer_that_is_wrong_twice_is_a_failure_in_words() {
    let table = [
        ("no JSON here".to_owned(), "no JSON object"),
        (proposal("explore"), "`explore` is taken"),
        (proposal("general-purpose"), "it means the agent `general`"),
        (proposal("code-reviewer"), "it means the agent `Code_Reviewer`"),
        (proposal("off"), "a file of that name exists"),
        (json!({"identifier": "ok", "whenToUse": "", "systemPrompt": "x"}).to_string(), "`whenToUse` must be a text"),
    ];
    for (reply, words) in table {
        let world = World::with()
            .file(".posse/agents/Code_Reviewer.md", &reviewer("r"))
            .file(".posse/agents/off.md", "---\ndisable: true\n---\nOld words\n")
            .config("agent", json!({"off": {"disable": true}}))
            .script(move |_: &Seen| reply.clone());
        let done = create(&world, &[]).expect_code(1);
        assert!(
            done.err.contains("twice") && done.err.contains(words) && done.err.contains("posse sessions show ses_"),
            "{words}: {}",
            done.err
        );
        assert_eq!((done.out.as_str(), world.model.requests().len()), ("", 2), "{words}");
        let names: Vec<_> = std::fs::read_dir(world.project.join(".posse/agents")).unwrap().collect();
        assert_eq!(names.len(), 2, "{words}: nothing was written");
        assert!(world.read(".posse/agents/off.md").ends_with("Old words\n"), "and nothing was overwritten");
    }
}

#[test]
fn a_users_agent_goes_to_the_users_folder_and_counts_everywhere() {
    let world = World::new(|_: &Seen| proposal("mine"));
    let done = create(&world, &["--user"]).expect_code(0);
    assert_eq!(done.out.trim(), world.posse_home.join("agents/mine.md").to_str().unwrap());
    assert!(!world.project.join(".posse").exists());
    let agent = world.posse(&["agents", "show", "mine", "--format", "json"]).expect_code(0).json()["agent"].clone();
    assert_eq!(agent["trusted"], true);
}

#[test]
fn nothing_is_written_through_a_link_out_of_the_project() {
    let world = World::new(|_: &Seen| proposal("mine"));
    std::os::unix::fs::symlink(&world.home, world.project.join(".posse")).unwrap();
    let done = create(&world, &[]).expect_code(2);
    assert!(done.err.contains("leads out of the project") && !world.home.join("agents").exists(), "{}", done.err);
    std::fs::remove_file(world.project.join(".posse")).unwrap();
    world.write(".posse", "a file");
    assert!(create(&world, &[]).expect_code(2).err.contains(".posse is a file"));
    assert!(world.model.requests().is_empty(), "and no model is paid for it");
}

#[test]
fn create_needs_a_description_and_a_model() {
    let world = World::new(|_: &Seen| proposal("mine"));
    for args in [&["agents", "create"][..], &["agents", "create", "--description", " "]] {
        assert!(world.posse(args).expect_code(2).err.contains("--description"), "{args:?}");
    }
    assert!(create(&world, &["-m", "offline/explorer"]).expect_code(2).err.contains("needs a language model"));
    assert!(create(&world, &["-m", "mock/none"]).expect_code(2).err.contains("mock/m1"));
    world.configure(&json!({}));
    let done = create(&world, &[]).expect_code(2);
    assert!(done.err.contains("needs a language model") && done.err.contains("ANTHROPIC_API_KEY"), "{}", done.err);
    assert!(world.model.requests().is_empty() && !world.project.join(".posse").exists());
}

#[test]
fn on_a_terminal_the_description_is_asked_for() {
    let world = World::new(|_: &Seen| proposal("typed"));
    let mut terminal = world.command(&["agents", "create"]).at_terminal();
    terminal.sees("What should the agent do");
    terminal.types("Checks the changelog\n");
    let done = terminal.wait().expect_code(0);
    assert_eq!(done.out, ".posse/agents/typed.md\n");
    assert!(world.model.last().user_texts()[0].contains("Checks the changelog"));
}

#[test]
fn a_model_that_fails_or_is_interrupted_leaves_no_file() {
    let world = World::new(|_: &Seen| Answer::error(401, "no such key"));
    assert!(create(&world, &[]).expect_code(1).err.contains("no such key"));
    let slow = World::new(|_: &Seen| Answer::text(&proposal("never")).stalled_after(30));
    let running = slow.start(&["agents", "create", "--description", "x"]);
    assert!(slow.model.wait_for_requests(1));
    running.interrupt();
    let done = running.wait(std::time::Duration::from_secs(60)).expect_code(130);
    assert!(done.err.contains("interrupted"), "{}", done.err);
    assert!(!world.project.join(".posse").exists() && !slow.project.join(".posse").exists());
    let id = done.err.split("sessions show ").nth(1).unwrap().split('`').next().unwrap();
    let only = slow.posse(&["sessions", "show", id, "--format", "json"]).expect_code(0).json()["session"].clone();
    assert_eq!((&only["status"], &only["kind"]), (&json!("stopped"), &json!("internal")), "it does not go on by itself");
    assert!(slow.processes_left_after(std::time::Duration::from_secs(10)).is_empty());
}

#[test]
fn a_model_that_calls_tools_it_does_not_have_comes_to_an_end() {
    let world = World::new(|_: &Seen| Answer::call("bash", json!({"command": "touch made"})));
    let done = create(&world, &[]).expect_code(3);
    assert!(done.err.contains("step limit") && done.err.contains("posse sessions show ses_"), "{}", done.err);
    assert_eq!(world.model.requests().len(), 4, "three steps, and one to sum up");
    assert!(!world.project.join("made").exists() && !world.project.join(".posse").exists());
}

#[test]
fn a_session_is_summed_up_by_the_agent_for_that() {
    let world = World::with().file("a.txt", "hello\n").script(|seen: &Seen| match (seen.system.contains("short account"), seen.steps()) {
        (true, _) => Answer::text("The user wanted a.txt read, and it was."),
        (false, 0) => Answer::call("read", json!({"filePath": "a.txt"})),
        (false, _) => Answer::text("It says hello"),
    });
    let id = world.run(&["--format", "json", "Read @a.txt please"]).expect_code(0).json()["session"].as_str().unwrap().to_owned();
    let done = world.posse(&["sessions", "show", &id, "--summary"]).expect_code(0);
    assert_eq!(done.out, "The user wanted a.txt read, and it was.\n");
    let seen = world.model.last();
    assert!(seen.tools.is_empty());
    let told = seen.user_texts()[0].to_owned();
    assert!(told.contains("you: Read @a.txt please") && told.contains("▸ read a.txt") && told.contains("agent: It says hello"), "{told}");
    assert_eq!(seen.user_texts().len(), 1, "a record holds no mentions of ours");
    let all = world.posse(&["sessions", "show", &id, "--summary", "--format", "json"]).expect_code(0).json();
    assert_eq!((&all["session"], &all["summary"]), (&json!(id), &json!("The user wanted a.txt read, and it was.")));
    let roots = world.posse(&["sessions", "list", "--format", "json"]).expect_code(0).json();
    assert_eq!(roots.as_array().unwrap().len(), 1, "accounts are not sessions of the user");
    world.posse(&["sessions", "show", &id, "--summary", "--edits"]).expect_code(2);
    assert!(world.posse(&["sessions", "show", "ses_none", "--summary"]).expect_code(2).err.contains("ses_none"));
    let before = world.model.requests().len();
    world.configure(&json!({}));
    let done = world.posse(&["sessions", "show", &id, "--summary"]).expect_code(2);
    assert!(done.err.contains("needs a language model"), "{}", done.err);
    world.configure(&json!({"agent": {"summary": {"disable": true}}}));
    assert!(world.posse(&["sessions", "show", &id, "--summary"]).expect_code(2).err.contains("disabled"));
    assert_eq!(world.model.requests().len(), before);
}

#[test]
fn a_long_session_is_summed_up_within_bounds() {
    let world = World::new(|seen: &Seen| match seen.system.contains("short account") {
        true => Answer::text("Much was said."),
        false => Answer::text(&"many words\n".repeat(20_000)),
    });
    let id = world.run(&["--format", "json", "Say much"]).expect_code(0).json()["session"].as_str().unwrap().to_owned();
    world.posse(&["sessions", "show", &id, "--summary"]).expect_code(0);
    let told = world.model.last().user_texts()[0].to_owned();
    assert!(told.contains("you: Say much") && told.contains("bytes of the record are left out"), "{}", &told[..500]);
    assert!(told.len() < 70_000, "{}", told.len());
}

#[test]
fn who_answers_is_one_that_a_user_may_start_with() {
    let world = World::with()
        .config("agent", json!({"helper": {"mode": "subagent", "prompt": "You help."}, "lead": {"mode": "primary", "prompt": "You lead."}}))
        .script(|seen: &Seen| seen.system.lines().next().unwrap_or_default().to_owned());
    assert_eq!(world.run(&["-a", "Lead", "hi"]).expect_code(0).out, "You lead.\n");
    for (name, words) in
        [("helper", "helper is a subagent"), ("explore", "explore is a subagent"), ("nobody", "there is no agent `nobody`")]
    {
        let done = world.run(&["--agent", name, "hi"]).expect_code(2);
        assert!(done.err.contains(words) && done.err.contains("build, lead, plan"), "{name}: {}", done.err);
        assert!(!done.err.contains("title") && !done.err.contains("compaction"), "internal agents are nobody's to name: {}", done.err);
    }
    let inline = json!({"poet": {"description": "Rhymes", "prompt": "You rhyme."}}).to_string();
    assert_eq!(world.run(&["--agents", &inline, "-a", "poet", "hi"]).expect_code(0).out, "You rhyme.\n");
    for wrong in ["{", "[]", r#"{"poet": {"steps": "many"}}"#] {
        let done = world.run(&["--agents", wrong, "hi"]).expect_code(2);
        assert!(done.err.contains("--agents"), "{wrong}: {}", done.err);
    }
    let requests = world.model.requests().len();
    let mock = crate::support::world::mock_config(crate::support::Api::Anthropic, &world.model.url);
    for (name, words) in [("explore", "is a subagent"), ("title", "is hidden"), ("nobody", "there is no agent nobody")] {
        let mut config = mock.clone();
        config["default_agent"] = json!(name);
        world.configure(&config);
        let done = world.run(&["hi"]).expect_code(2);
        assert!(done.err.contains("default_agent") && done.err.contains(words) && done.err.contains("build"), "{name}: {}", done.err);
    }
    assert_eq!(world.model.requests().len(), requests, "nothing was begun");
}
