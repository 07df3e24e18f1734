//! The order of rules is the order written, whoever reads it; what a flag or another file adds comes after.

use std::path::Path;

use posse_session::{Touch, Verdict, judge};

use crate::{Config, parse_rule_flag, testing::World};

fn verdict(config: &Config, key: &str, pattern: &str) -> Verdict {
    let book = config.rulebook();
    let ceiling: Vec<&posse_session::Rules> = book.ceiling.iter().collect();
    judge(key, &[Touch::new(key, pattern)], None, &book.rules, &ceiling).decision.verdict
}

fn flag(text: &str, action: Verdict) -> Vec<posse_session::Rule> {
    parse_rule_flag(text, action, Path::new("/"), Path::new("/p")).unwrap()
}

fn verdicts(config: &Config, touches: &[(&str, &str)]) -> String {
    let letter = |verdict| match verdict {
        Verdict::Allow => 'a',
        Verdict::Ask => '?',
        Verdict::Deny => 'd',
    };
    touches.iter().map(|(key, pattern)| letter(verdict(config, key, pattern))).collect()
}

/// However a path is spelled, in a file, an agent's map or a flag: a rule that silently matches nothing protects nothing.
#[test]
fn a_path_in_a_rule_is_found_in_every_spelling() {
    let spelled = |world: &World, path: &str| path.replace("PROJ", &world.path("proj").display().to_string());
    let touches = [("edit", "a.txt"), ("edit", "src/deep/b.rs"), ("edit", "b.txt"), ("edit", "srcs")];
    for (path, expected) in [
        ("./a.txt", "daaa"),
        ("PROJ/a.txt", "daaa"),
        ("src/../a.txt", "daaa"),
        ("src/", "adaa"),
        ("./src/", "adaa"),
        ("PROJ/src/**", "adaa"),
        ("PROJ/", "dddd"),
        ("/elsewhere/a.txt", "aaaa"),
    ] {
        let world = World::new();
        let path = spelled(&world, path);
        let map = format!(r#"{{"permission": {{"edit": {{"{path}": "deny"}}}}}}"#);
        let user = world.user(&map);
        assert_eq!(verdicts(&user.load().unwrap(), &touches), expected, "{path}");

        let agent = format!(r#"{{"agent": {{"build": {map}}}}}"#);
        let world = user.user(&agent);
        let config = world.load().unwrap();
        let agents = crate::agents(&world.places(), &config, None).unwrap();
        let rules = &config.rulebook_for(agents.get("build").unwrap(), crate::PermissionMode::Default).rules;
        let of_agent: String = touches
            .iter()
            .map(|(key, name)| if rules.judge(&Touch::new(*key, *name)).verdict == Verdict::Deny { 'd' } else { 'a' })
            .collect();
        assert_eq!(of_agent, expected, "of an agent: {path}");

        let mut world = world.user("{}");
        let rules = parse_rule_flag(&format!("edit({path})"), Verdict::Deny, &world.path("home"), &world.path("proj"));
        world.overrides.rules = rules.unwrap();
        assert_eq!(verdicts(&world.load().unwrap(), &touches), expected, "as a flag: {path}");
    }
}

#[test]
fn a_pattern_that_can_never_match_is_named() {
    let user = r#"{"permission": {"edit": {
        "*/../x": "deny",
        "*.{txt,rs}": "deny"},
        "external_directory": {"*/../keys": "allow"}},
        "agent": {"build": {"permission": {"read": {"*/../y": "deny"}}}}}"#;
    let world = World::with_user(user);
    let file = "home/posse/posse.json";
    assert_eq!(
        world.warnings(),
        [
            format!(
                "{file}:2: permission.edit.*/../x: `..` after a wildcard, or above the top: no path is named like that, so this rule can never match"
            ),
            format!(
                "{file}:3: permission.edit.*.{{txt,rs}}: `{{a,b}}` is no choice here, so this rule can hardly match; write a rule for each"
            ),
            format!(
                "{file}:4: permission.external_directory.*/../keys: `..` after a wildcard, or above the top: no path is named like that, so this rule can never match"
            ),
        ]
    );
    let tolerated = crate::agents(&world.places(), &world.load().unwrap(), None).unwrap().tolerated;
    assert!(tolerated.len() == 1 && tolerated[0].key == "agent.build.permission.read.*/../y", "{tolerated:?}");
}

#[test]
fn without_a_word_everything_inside_is_allowed_and_a_few_things_ask() {
    let config = World::new().load().unwrap();
    let allowed = [
        ("edit", "src/a.rs"),
        ("bash", "rm -rf x"),
        ("task", "general"),
        ("read", "a.rs"),
        ("read", ".env.example"),
        ("read", "a/b.env.example"),
        ("read", "environment"),
        ("edit", "environment"),
        ("edit", ".env.example"),
        ("edit", "a/.env.sample"),
        ("read", "a/.env.template"),
    ];
    assert_eq!(verdicts(&config, &allowed), "a".repeat(allowed.len()));
    let asked = [
        ("external_directory", "/etc/*"),
        ("private_address", "http://127.0.0.1:8080/"),
        ("doom_loop", "bash"),
        ("read", ".env"),
        ("read", "a/.env"),
        ("read", ".env.local"),
        ("read", "a/prod.env"),
        ("read", ".envrc"),
        ("read", "a/.env-old"),
        ("edit", ".env"),
        ("edit", "a/.env.production"),
        ("edit", "a/prod.env"),
        ("edit", ".envrc"),
        ("edit", "a/.env-old"),
    ];
    assert_eq!(verdicts(&config, &asked), "?".repeat(asked.len()));
    let book = config.rulebook();
    assert_eq!(book.rules.0[0].origin, "built-in");
    assert_eq!(book.ceiling, []);
}

/// The seed's example, as it is written there. The outcome hangs on the order.
const SEED: &str = r#""bash": {"git diff*": "allow", "git log*": "allow", "find * -delete*": "ask", "rm*": "deny", "*": "ask"}"#;

#[test]
fn the_seeds_example_under_first_and_under_last() {
    let touches = [("bash", "git diff HEAD"), ("bash", "git log"), ("bash", "find . -delete"), ("bash", "rm -rf x"), ("bash", "make")];
    let world = |order: &str, map: &str| World::with_user(&format!("{{{order}\"permission\": {{{map}}}}}")).load().unwrap();
    let first = world(r#""permission_order": "first", "#, SEED);
    assert_eq!(verdicts(&first, &touches), "aa?d?", "as the seed says");
    assert_eq!((first.dead_denies.len(), first.warnings.len()), (0, 0), "{:?}", first.warnings);
    // The fallback is the fallback wherever it stands.
    let star_first = SEED.replace(", \"*\": \"ask\"", "").replace("{\"git diff*", "{\"*\": \"ask\", \"git diff*");
    assert_eq!(verdicts(&world(r#""permission_order": "first", "#, &star_first), &touches), "aa?d?");
    // Under last the star at the end wins over everything, and the deny that is lost is an error.
    let last = world("", SEED);
    assert_eq!(verdicts(&last, &touches), "?????");
    let dead: Vec<&str> = last.dead_denies.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!((dead, last.warnings.len()), (vec!["bash(rm*)"], 3));
    assert_eq!(verdicts(&world(r#""permission_order": "last", "#, &star_first), &touches), "aa?d?");
}

/// Here both orders mean something, and not the same.
const MAP: &str = r#""bash": {"*": "ask", "git *": "allow", "git push*": "deny", "ls*": "allow"}, "edit": "deny""#;

#[test]
fn the_last_match_wins_or_the_first_as_the_file_says() {
    let touches = [("bash", "make"), ("bash", "git log"), ("bash", "git push -f"), ("bash", "ls -l"), ("edit", "a")];
    let last = World::with_user(&format!("{{\"permission\": {{{MAP}}}}}")).load().unwrap();
    assert_eq!(verdicts(&last, &touches), "?adad");
    let first = World::with_user(&format!("{{\"permissionOrder\": \"first\", \"permission\": {{{MAP}}}}}")).load().unwrap();
    assert_eq!(verdicts(&first, &touches), "?aaad", "git push is allowed by the first match, and * is only the fallback");
    assert_eq!(first.dead_denies.len(), 1, "which makes the deny useless: {:?}", first.dead_denies);
    assert_eq!(last.dead_denies, []);
}

#[test]
fn under_first_the_fallback_key_is_the_fallback_wherever_it_stands() {
    let config =
        World::with_user(r#"{"permission_order": "first", "permission": {"*": "deny", "mcp_a": "allow", "mcp_*": "ask"}}"#).load().unwrap();
    assert_eq!(verdicts(&config, &[("mcp_a", "x"), ("mcp_b", "x"), ("edit", "x")]), "a?d");
}

#[test]
fn the_order_is_each_files_own() {
    let world = World::with_user(r#"{"permission_order": "first", "permission": {"bash": {"a*": "deny", "*": "allow"}}}"#)
        .env("POSSE_CONFIG_CONTENT", r#"{"permission": {"bash": {"b*": "deny", "bb*": "ask"}}}"#);
    assert_eq!(verdicts(&world.load().unwrap(), &[("bash", "a"), ("bash", "b"), ("bash", "bb"), ("bash", "c")]), "dd?a");
}

#[test]
fn every_rule_knows_its_line_and_a_home_is_a_folder() {
    let world = World::with_user("{\"permission\": {\n\"edit\": \"ask\",\n\"external_directory\": {\n\"~/notes/*\": \"allow\"}}}");
    let rules = world.load().unwrap().rulebook().rules.0;
    let theirs = rules.iter().filter(|rule| rule.origin != "built-in");
    let written: Vec<String> = theirs.map(|rule| world.near(&format!("{}({}) {}", rule.key, rule.pattern, rule.origin))).collect();
    assert_eq!(written, ["edit(*) home/posse/posse.json:2", "external_directory(home/notes/*) home/posse/posse.json:4"]);
}

#[test]
fn a_tools_name_means_the_key_it_is_judged_by() {
    let config = World::with_user(r#"{"permission": {"write": "deny"}}"#).load().unwrap();
    assert_eq!(verdict(&config, "edit", "a"), Verdict::Deny);
    let config = World::with_user(r#"{"permission": {"edit": "ask"}, "tools": {"write": false, "bash": false}}"#).load().unwrap();
    assert_eq!(verdicts(&config, &[("edit", "a"), ("bash", "a")]), "?d", "tools come before the explicit rules");
}

#[test]
fn a_key_is_the_same_in_every_spelling_and_in_claudes_words() {
    for key in ["Bash", "BASH", "bash", "shell"] {
        let config = World::with_user(&format!("{{\"permission\": {{\"{key}\": \"deny\"}}}}")).load().unwrap();
        assert_eq!(verdict(&config, "bash", "ls"), Verdict::Deny, "{key}");
    }
    let config = World::with_user(
        r#"{"permission": {"Bash": {"npm run:*": "deny"}, "MultiEdit": {"./src/*": "ask"}, "WebSearch": "deny", "externalDirectory": "deny"}, "tools": {"Task": false}}"#,
    );
    let config = config.load().unwrap();
    let touches = [
        ("bash", "npm run x"),
        ("bash", "npm"),
        ("edit", "src/a"),
        ("edit", "a"),
        ("webfetch", "x"),
        ("external_directory", "/"),
        ("task", "x"),
    ];
    assert_eq!(verdicts(&config, &touches), "da?addd");
}

#[test]
fn a_rule_that_would_protect_nothing_stops_the_start() {
    let table = [
        (
            r#""permission": {"bsah": "deny"}"#,
            "1: permission.bsah: no tool has this name, so the rule would do nothing; did you mean `bash`?",
        ),
        (
            r#""permission": {"Edti": {"a": "allow", "b": "ask", "c": "deny"}}"#,
            "1: permission.Edti: no tool has this name, so the rule would do nothing; did you mean `edit`?",
        ),
        (r#""permission": {"database": "ask"}"#, "1: permission.database: no tool has this name, so the rule would do nothing"),
        (r#""permission": {"Bash(rm:*)": "deny"}"#, "1: permission.Bash(rm:*): no tool has this name, so the rule would do nothing"),
        (
            r#""permission": {"doom_lop": "deny"}"#,
            "1: permission.doom_lop: no tool has this name, so the rule would do nothing; did you mean `doom_loop`?",
        ),
        (r#""tools": {"wirte": false}"#, "1: tools.wirte: no tool has this name, so the rule would do nothing; did you mean `write`?"),
        (
            r#""permission": {"WebFetch": {"domain:": "deny"}}"#,
            "1: permission.WebFetch.domain:: expected a host alone, as in `domain:example.com` or `domain:*.example.com`",
        ),
        (
            r#""permission": {"Read": {"!src": "deny"}}"#,
            "1: permission.Read.!src: a pattern that begins with `!` is not supported; write a rule of its own",
        ),
        (
            r#""permission": {"protected": "allow"}"#,
            "1: permission.protected: protected files are always asked about; no rule changes that",
        ),
        (r#""tools": {"protected": true}"#, "1: tools.protected: protected files are always asked about; no rule changes that"),
    ];
    for (text, words) in table {
        assert_eq!(World::with_user(&format!("{{{text}}}")).error(), format!("home/posse/posse.json:{words}"));
    }
    let slip = World::new().file("home/.config/opencode/opencode.json", r#"{"permission": {"bsah": "deny"}}"#);
    assert!(slip.error().contains("did you mean `bash`?"), "{}", slip.error());
}

#[test]
fn what_opencode_users_write_is_taken() {
    let text = r#"{
        "permission": {"*": "ask", "read": "allow", "edit": "deny", "glob": "allow", "grep": "allow", "list": "allow", "bash": {"*": "ask"},
            "task": "deny", "external_directory": "ask", "todowrite": "deny", "todoread": "deny", "question": "deny", "webfetch": "deny",
            "websearch": "ask", "codesearch": "ask", "lsp": "deny", "doom_loop": "ask", "skill": {"internal-*": "deny"}, "plan_enter": "deny",
            "plan_exit": "deny", "mymcp_*": "ask", "github_create_issue": "deny", "context7*": "deny", "nothing": "allow"},
        "tools": {"write": false, "patch": false, "multiedit": false, "my-mcp_search": false, "sentry*": false, "nothing": true}}"#;
    let strange = |warnings: Vec<String>| warnings.into_iter().filter(|words| !words.contains("can never apply")).collect::<Vec<_>>();
    assert_eq!(strange(World::with_user(text).warnings()), [""; 0]);
    let own_tool = World::new().file("home/.config/opencode/opencode.json", r#"{"permission": {"database": "deny"}}"#);
    assert_eq!(
        own_tool.warnings(),
        ["home/.config/opencode/opencode.json:1: permission.database: no tool has this name, so the rule would do nothing"]
    );
}

#[test]
fn flags_are_above_every_file_in_the_order_given() {
    let mut world = World::with_user(r#"{"permission": {"bash": "deny"}}"#).file("proj/posse.json", r#"{"permission": {"edit": "ask"}}"#);
    world.overrides.rules =
        [flag("bash(git*)", Verdict::Allow), flag("bash(git push*)", Verdict::Deny), flag("edit(*.md)", Verdict::Allow)].concat();
    let config = world.load().unwrap();
    assert_eq!(
        verdicts(&config, &[("bash", "git log"), ("bash", "git push"), ("bash", "make"), ("edit", "a.md"), ("edit", "a.rs")]),
        "adda?"
    );
    assert_eq!(config.dead_denies, []);
}

#[test]
fn a_project_may_tighten_and_never_loosen() {
    let world = World::with_user(r#"{"permission": {"bash": {"*": "allow", "rm*": "deny"}, "webfetch": "ask"}}"#)
        .file("proj/posse.json", r#"{"permission": {"bash": "ask", "webfetch": "allow", "edit": {"*.lock": "deny", "*": "allow"}}}"#)
        .file("proj/opencode.json", r#"{"permission": "allow"}"#);
    let config = world.load().unwrap();
    assert_eq!(verdicts(&config, &[("bash", "ls"), ("bash", "rm x"), ("webfetch", "x"), ("edit", "a.lock"), ("edit", "a.rs")]), "?d?da");
    assert_eq!(
        config.ignored_line().unwrap(),
        "ignored, because this folder is not trusted: opencode.json: permission (allow), posse.json: permission.webfetch (allow), permission.edit.* (allow) \
         (`posse trust` accepts it)"
    );
}

#[test]
fn dead_rules_are_named() {
    let dead = |text: &str| {
        let config = World::with_user(text).load().unwrap();
        (config.dead_denies.len(), config.warnings.len())
    };
    assert_eq!(dead(r#"{"permission": {"bash": {"rm*": "deny", "*": "allow"}}}"#), (1, 0));
    assert_eq!(dead(r#"{"permission": {"bash": {"*": "allow", "rm*": "deny"}}}"#), (0, 0));
    assert_eq!(dead(r#"{"permission": {"bash": {"rm*": "deny"}, "*": "ask"}}"#), (1, 0));
    assert_eq!(dead(r#"{"permission": {"bash": {"rm -rf *": "deny", "rm*": "deny"}}}"#), (0, 1), "still denied, so only a warning");
    assert_eq!(dead(r#"{"permission": {"bash": {"git*": "allow", "*": "ask"}}}"#), (0, 1));
    let across = World::with_user(r#"{"permission": {"edit": "deny"}}"#).env("POSSE_CONFIG_CONTENT", r#"{"permission": "allow"}"#);
    assert_eq!(across.load().unwrap().dead_denies.len(), 1);
    let claude =
        World::new().file("home/.claude/settings.json", r#"{"permissions": {"deny": ["Edit"]}}"#).user(r#"{"permission": "allow"}"#);
    assert_eq!(claude.load().unwrap().dead_denies.len(), 1, "in a neighbour's file too");
    let mut project = World::with_user(r#"{"permission": {"edit": "deny"}}"#).file("proj/posse.json", r#"{"permission": "ask"}"#);
    assert_eq!(project.load().unwrap().dead_denies.len(), 0, "a project's ask lifts nothing");
    project.overrides.trust = true;
    assert_eq!(project.load().unwrap().dead_denies.len(), 1, "unless it is trusted, and then one is told");
}

#[test]
fn a_deny_that_a_flag_makes_useless_is_told() {
    let mut world = World::with_user(r#"{"permission": {"bash": {"*": "allow", "rm*": "deny"}}}"#);
    world.overrides.rules = flag("bash(git*)", Verdict::Allow);
    assert_eq!(world.load().unwrap().dead_denies, []);
    world.overrides.rules = flag("bash", Verdict::Allow);
    let dead: Vec<String> = world.load().unwrap().dead_denies.iter().map(|problem| world.near(&problem.to_string())).collect();
    assert_eq!(dead, ["home/posse/posse.json:1: bash(rm*): this deny can never apply: bash(*) at --allow wins over it and says allow"]);
    world.overrides.rules = [flag("edit(a)", Verdict::Deny), flag("edit", Verdict::Ask)].concat();
    assert_eq!(world.load().unwrap().dead_denies.len(), 1, "also one of another flag");
}

#[test]
fn a_long_list_of_allows_hides_no_dead_deny() {
    let allows: Vec<String> = (0..1000).map(|number| format!("\"Bash(tool{number}:*)\"")).collect();
    let claude = format!("{{\"permissions\": {{\"allow\": [{}], \"deny\": [\"Bash(rm:*)\"]}}}}", allows.join(", "));
    let world = World::new().file("home/.claude/settings.json", claude).user(r#"{"permission": {"bash": "allow"}}"#);
    assert_eq!(world.load().unwrap().dead_denies.len(), 1);
}

#[test]
fn a_domain_is_compared_with_the_host_of_an_address() {
    let config =
        World::with_user(r#"{"permission": {"webfetch": {"*": "ask", "domain:example.com": "allow", "domain:evil.org": "deny"}}}"#);
    let touches = [
        ("webfetch", "https://example.com/a"),
        ("webfetch", "https://example.com.evil.net/"),
        ("webfetch", "https://evil.org/?x=example.com"),
        ("webfetch", "https://other.net/"),
    ];
    assert_eq!(verdicts(&config.load().unwrap(), &touches), "a?d?");
}
