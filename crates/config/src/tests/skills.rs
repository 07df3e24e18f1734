//! Skills: where they are found, how they are named, listed and worded, and what they are as commands
//! (CC-072, CC-077, CC-203 to CC-206, CC-264, CC-270, CC-276, CC-291).

use std::fs;

use posse_session::AgentMode;
use serde_json::json;

use crate::{Command, Skill, Skills, commands, skill_content, skills, testing::World};

fn found(world: &World) -> Skills {
    skills(&world.places(), &world.load().unwrap())
}

fn names(world: &World) -> Vec<String> {
    found(world).list().iter().map(|skill| skill.name.clone()).collect()
}

fn one(world: &World, name: &str) -> Skill {
    found(world).find(name).unwrap_or_else(|| panic!("no {name}")).clone()
}

fn command(world: &World, name: &str) -> Option<Command> {
    let places = world.places();
    commands(&places, &world.load().unwrap(), &found(world)).find(name).cloned()
}

fn trusted(mut world: World) -> World {
    world.overrides.trust = true;
    world
}

fn skill(name: &str) -> String {
    format!("---\nname: {name}\ndescription: about {name}\n---\nbody of {name}\n")
}

#[test]
fn every_place_is_read_and_the_last_of_a_name_counts() {
    let places = [
        "home/.agents/skills/s/SKILL.md",
        "home/.config/opencode/skill/s/SKILL.md",
        "home/.config/opencode/skills/deep/er/s/SKILL.md",
        "home/.claude/skills/s/SKILL.md",
        "home/posse/skills/s/SKILL.md",
        "proj/.agents/skills/s/SKILL.md",
        "proj/sub/.agents/skills/s/SKILL.md",
        "proj/.opencode/skill/s/SKILL.md",
        "proj/.opencode/skills/s/SKILL.md",
        "proj/.claude/skills/group/s/SKILL.md",
        "proj/sub/.claude/skills/s/skill.md",
        "proj/.posse/skills/s/SKILL.md",
        "proj/sub/.posse/skills/s/SKILL.md",
    ];
    let mut world = World::new().at("proj/sub");
    world.overrides.trust = true;
    for (at, place) in places.into_iter().enumerate() {
        world = world.file(place, format!("---\nname: s\n---\n{at}"));
        // Two spellings of one folder are one, and there the first counts.
        let counting = if place.contains("opencode/skills") { at - 1 } else { at };
        assert_eq!((names(&world), one(&world, "s").body), (vec!["s".to_owned()], counting.to_string()), "{place}");
    }
    let said: Vec<String> = found(&world).tolerated.iter().map(|problem| world.near(&problem.to_string())).collect();
    assert_eq!(said.len(), places.len() - 1, "every override is said: {said:?}");
    assert_eq!(
        said.last().unwrap(),
        ".posse/skills/s/SKILL.md:1: name: the same name again: `s` is also proj/.posse/skills/s/SKILL.md:1; this one counts"
    );
    assert!(said[0].ends_with("the same name again: `s` is also home/.agents/skills/s/SKILL.md:1; this one counts"), "{}", said[0]);
    assert_eq!(found(&world).files, places.len());
    let quiet = world.user(r#"{"compat": {"opencode": false, "claude": false}}"#);
    assert_eq!(found(&quiet).files, 6);
}

#[test]
fn folders_that_the_user_names_count_and_a_projects_only_with_trust() {
    let world = World::with_user(r#"{"skills": ["~/mine", "here", "none"]}"#)
        .file("home/mine/a/SKILL.md", skill("a"))
        .file("home/posse/here/b/SKILL.md", skill("b"));
    assert_eq!(names(&world), ["a", "b"]);
    let said: Vec<String> = found(&world).tolerated.iter().map(|problem| world.near(&problem.to_string())).collect();
    assert_eq!(said, ["home/posse/posse.json:1: skills: home/posse/none: no such folder"]);
    // They are the user's, so a project's own of the same name counts over them if it is trusted.
    let mut world = world.file("proj/.posse/skills/a/SKILL.md", "---\nname: a\n---\nthe project's");
    assert_ne!(one(&world, "a").body, "the project's");
    world.overrides.trust = true;
    assert_eq!(one(&world, "a").body, "the project's");
    let paths = World::with_user(r#"{"skills": {"paths": ["~/mine"]}}"#).file("home/mine/a/SKILL.md", skill("a"));
    assert_eq!(names(&paths), ["a"]);
    let theirs = World::with_project(r#"{"skills": ["extra"]}"#).file("proj/extra/c/SKILL.md", skill("c"));
    assert_eq!(names(&theirs), [""; 0]);
    assert_eq!(names(&trusted(theirs)), ["c"]);
}

#[test]
fn plugins_have_skills_in_their_own_name_found_by_namespace_and_suffix() {
    // CC-072.
    let world = World::with_user(r#"{"plugins": ["~/kit", "~/other"]}"#)
        .file("home/kit/.claude-plugin/plugin.json", r#"{"name": "kit", "skills": ["./more"]}"#)
        .file("home/kit/skills/pdf/SKILL.md", skill("pdf"))
        .file("home/kit/more/Excel Sheets/SKILL.md", "---\ndescription: d\n---\nx")
        .file("home/other/skills/pdf/SKILL.md", skill("pdf"))
        .file("home/other/skills/audit/SKILL.md", skill("audit"));
    assert_eq!(names(&world), ["kit:Excel Sheets", "kit:pdf", "other:audit", "other:pdf"]);
    let skills = found(&world);
    for (name, expected) in [
        ("kit:pdf", Some("kit:pdf")),
        ("KIT:PDF", Some("kit:pdf")),
        ("audit", Some("other:audit")),
        ("excel-sheets", Some("kit:Excel Sheets")),
        ("kit:excel_sheets", Some("kit:Excel Sheets")),
        ("pdf", None),
        ("df", None),
        ("", None),
    ] {
        assert_eq!(skills.find(name).map(|skill| skill.name.as_str()), expected, "{name}");
    }
    assert_eq!(skills.near("audti"), ["other:audit"]);
}

#[test]
fn fields_are_read_as_people_write_them() {
    let file = "---\nname: audit-auth\ndescription: Audits auth.\nwhen_to_use: Before a release.\nallowed-tools: Read, Grep, Glob\ncontext: fork\n\
        agent: explore\nmodel: sonnet\nargument-hint: [path]\ndisable-model-invocation: yes\nuser-invocable: \"true\"\nlicense: MIT\n---\n\nLook at $1.\n";
    let world = trusted(World::new().file("proj/.claude/skills/folder/SKILL.md", file));
    let skill = one(&world, "audit-auth");
    let expected = Skill {
        name: "audit-auth".into(),
        description: Some("Audits auth. Before a release.".into()),
        allowed_tools: vec!["Read".into(), "Grep".into(), "Glob".into()],
        fork: true,
        agent: Some("explore".into()),
        model: Some("sonnet".into()),
        argument_hint: Some("[path]".into()),
        disable_model_invocation: true,
        user_invocable: true,
        options: json!({"license": "MIT"}).as_object().unwrap().clone(),
        body: "Look at $1.".into(),
        dir: world.path("proj/.claude/skills/folder"),
        origin: skill.origin.clone(),
        trusted: true,
    };
    assert_eq!(skill, expected);
    // By its folder's name too, and without a head by nothing else.
    assert_eq!(one(&world, "folder").name, "audit-auth");
    let bare = World::new().file("proj/.claude/skills/bare/SKILL.md", "Just words.");
    assert_eq!((one(&bare, "bare").description, one(&bare, "bare").body), (None, "Just words.".to_owned()));
}

#[test]
fn what_lies_beside_a_skill_is_its_resources_and_no_skill() {
    let world = World::new()
        .file("proj/.claude/skills/SKILL.md", skill("top"))
        .file("proj/.claude/skills/a/SKILL.md", skill("a"))
        .file("proj/.claude/skills/a/examples/SKILL.md", skill("example"))
        .file("proj/.claude/skills/group/b/SKILL.md", skill("b"))
        .file("proj/.claude/skills/readme.md", "no");
    assert_eq!(names(&world), ["a", "b", "top"]);
    // A folder of skills stands for all that lie in it.
    let folders = [".claude/skills", ".claude/skills/group/b"].map(|dir| world.path("proj").join(dir));
    assert_eq!(found(&world).folders(), folders);
}

#[test]
fn the_model_is_shown_a_bounded_list_of_what_it_may_call() {
    let world = World::new()
        .file("proj/.claude/skills/b/SKILL.md", skill("b"))
        .file("proj/.claude/skills/a/SKILL.md", "---\nname: a\ndescription: >\n  two\n  lines\n---\nx")
        .file("proj/.claude/skills/silent/SKILL.md", "---\nname: silent\n---\nx")
        .file("proj/.claude/skills/manual/SKILL.md", "---\nname: manual\ndescription: d\ndisable-model-invocation: true\n---\nx")
        .file("proj/.claude/skills/denied/SKILL.md", skill("denied"))
        .file("proj/.claude/skills/long/SKILL.md", format!("---\nname: long\ndescription: {}\n---\nx", "ż".repeat(1000)));
    let listing = found(&world).listing(&|name| name != "denied");
    assert_eq!(listing, format!("- a: two lines\n- b: about b\n- long: {}…", "ż".repeat(300)));
    assert_eq!(found(&world).listing(&|name| name != "denied"), listing, "the same bytes again");
    let words = |name: &str| found(&world).called_for(name).map(|skill| skill.name.clone());
    assert_eq!(words("SILENT"), Ok("silent".to_owned()));
    assert_eq!(words("silnet"), Err("skill: there is no skill `silnet`; did you mean silent?".to_owned()));
    assert_eq!(words("zz"), Err("skill: there is no skill `zz`; call it with a name from its list".to_owned()));
    assert!(words("manual").unwrap_err().starts_with("skill: `manual` may be called for by the user only, as /manual."));
    // Not listed, and there for who calls for them.
    assert!(found(&world).find("silent").is_some() && command(&world, "manual").is_some());
    assert_eq!(found(&World::new()).listing(&|_| true), "");

    let many = |count: usize| {
        let mut world = World::new();
        for number in 0..count {
            let text = format!("---\nname: skill-{number:04}\ndescription: {}\n---\nx", "words ".repeat(60));
            world = world.file(&format!("proj/.claude/skills/s{number}/SKILL.md"), text);
        }
        found(&world).listing(&|_| true)
    };
    let (some, crowd) = (many(60), many(900));
    assert!(some.len() <= 8 * 1024 && some.lines().count() == 60 && some.contains("…"), "{}", some.len());
    assert!(crowd.len() <= 8 * 1024 + 100, "{}", crowd.len());
    let shown = crowd.lines().count() - 1;
    assert!(crowd.starts_with("- skill-0000\n- skill-0001\n"));
    assert!(crowd.ends_with(&format!("\n({} more are not listed here; each can be called for by its name)", 900 - shown)), "{crowd}");
}

#[test]
fn a_skill_that_is_called_for_comes_with_its_folder_and_some_of_its_files() {
    let mut world = World::new()
        .file("home/posse/skills/s/SKILL.md", skill("s"))
        .file("home/posse/skills/s/scripts/run.py", "x")
        .file("home/posse/skills/s/.hidden", "x")
        .file("home/posse/skills/s/node_modules/m/x.js", "x");
    let dir = world.path("home/posse/skills/s");
    assert_eq!(
        skill_content(&one(&world, "s")),
        format!(
            "<skill_content name=\"s\">\nbody of s\n\nBase directory of this skill: {0}\n\
             Files in it, to be read by their path when the text above calls for them:\n- {0}/scripts/run.py\n</skill_content>",
            dir.display()
        )
    );
    for number in 0..30 {
        world = world.file(&format!("home/posse/skills/s/r{number:02}.md"), "x");
    }
    let content = skill_content(&one(&world, "s"));
    let listed: Vec<&str> = content.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(listed.len(), 10);
    assert!(listed[0].ends_with("/r00.md") && listed[9].ends_with("/r09.md"), "{listed:?}");
    // CC-072, CC-077: what an agent is to have from its start, and what it names in vain.
    let (text, missing) = found(&world).preload(&["S".to_owned(), "none".to_owned()]);
    assert!(text.starts_with("<skill_content name=\"s\">") && missing == ["none"]);
}

#[test]
fn each_skill_is_a_command_and_a_fork_runs_in_a_child() {
    // CC-203, CC-204, CC-205, CC-264: `/audit-auth`, without a model deciding so.
    let file =
        "---\nname: audit-auth\ndescription: d\ncontext: fork\nallowed-tools: Read, Grep, Glob\n---\nLook at $1 in ${CLAUDE_SKILL_DIR}.";
    let world =
        World::new().file("home/.claude/skills/audit-auth/SKILL.md", file).file("home/.claude/skills/plain/SKILL.md", skill("plain"));
    let audit = command(&world, "audit-auth").unwrap();
    assert!(audit.is_subtask(None) && audit.is_subtask(Some(AgentMode::Primary)));
    assert_eq!((audit.agent_name(), audit.allowed_tools.join(" ")), (Some("general"), "Read Grep Glob".to_owned()));
    let dir = world.path("home/.claude/skills/audit-auth");
    assert_eq!(
        audit.expand("src now", &world.places()),
        [crate::Piece::Text(format!("Look at src now in {0}.\n\nBase directory of this skill: {0}", dir.display()))]
    );
    // CC-270: without `context: fork` it is said to whoever the user talks to.
    let plain = command(&world, "plain").unwrap();
    assert!(!plain.is_subtask(Some(AgentMode::Primary)) && plain.agent_name().is_none());
    let chosen = file.replace("context: fork", "context: fork\nagent: explore");
    let world = world.file("home/.claude/skills/audit-auth/SKILL.md", chosen);
    assert_eq!(command(&world, "audit-auth").unwrap().agent_name(), Some("explore"));
    // Not for the user.
    let world = world.file("home/.claude/skills/plain/SKILL.md", "---\nname: plain\nuser-invocable: false\n---\nx");
    assert!(command(&world, "plain").is_none() && found(&world).find("plain").is_some());
}

#[test]
fn without_trust_a_skill_is_words() {
    let file = "---\nname: s\ndescription: d\nmodel: evil/m\nallowed-tools: Bash\nhooks: {a: 1}\n---\nrun !`id`";
    let world = World::new().file("proj/.claude/skills/s/SKILL.md", file);
    let skill = one(&world, "s");
    assert_eq!((skill.trusted, &skill.model, &skill.allowed_tools, skill.options.len()), (false, &None, &Vec::new(), 0));
    assert!(skill_content(&skill).contains("a folder that the user has not trusted"));
    let words = command(&world, "s").unwrap().expand("", &world.places());
    assert!(matches!(&words[..], [crate::Piece::Text(text)] if text.starts_with("run `id` (not run: ")), "{words:?}");
    let line = world.load().unwrap().ignored_line().unwrap();
    assert!(line.contains(".claude/skills/s/SKILL.md: allowed_tools, hooks, model, !`cmd`"), "{line}");
    let skill = one(&trusted(world), "s");
    assert_eq!((skill.trusted, skill.model.as_deref(), skill.allowed_tools.len()), (true, Some("evil/m"), 1));
}

#[cfg(unix)]
#[test]
fn a_project_is_not_read_through_links_out_of_it() {
    use std::os::unix::fs::symlink;
    let world = World::new().file("outside/s/SKILL.md", skill("s3cret")).file("proj/.claude/skills/in/SKILL.md", skill("in"));
    symlink(world.path("outside/s"), world.path("proj/.claude/skills/leak")).unwrap();
    fs::create_dir_all(world.path("proj/.claude/skills/file")).unwrap();
    symlink(world.path("outside/s/SKILL.md"), world.path("proj/.claude/skills/file/SKILL.md")).unwrap();
    symlink(world.path("outside"), world.path("proj/.agents")).unwrap();
    assert_eq!(names(&world), ["in"]);
}

#[test]
fn three_thousand_files_are_loaded_in_no_time() {
    let mut world = World::new();
    for number in 0..1_500 {
        let text =
            format!("---\nname: skill-{number}\ndescription: does things\nallowed-tools: Read, Grep\n---\n{}", "words\n".repeat(100));
        world = world.file(&format!("home/.claude/skills/s{number}/SKILL.md"), &text);
        world = world.file(&format!("home/.claude/commands/c{number}.md"), &text);
    }
    let (places, config) = (world.places(), world.load().unwrap());
    let started = std::time::Instant::now();
    let skills = skills(&places, &config);
    let commands = commands(&places, &config, &skills);
    let took = started.elapsed();
    assert_eq!((skills.files, commands.files, commands.list().len()), (1_500, 1_500, 3_002));
    // 150 ms is for a release build; this one is not, and its machine may be busy.
    assert!(took.as_secs() < 20, "{took:?}");
}
