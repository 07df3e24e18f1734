//! Which instruction files the model is shown, in which order, and which are left out.

use crate::{Instructions, instructions, testing::World};

fn found(world: &World) -> Instructions {
    instructions(&world.places(), &world.load().unwrap())
}

/// `path: text` of each file.
fn texts(world: &World) -> Vec<String> {
    found(world).files.iter().map(|file| world.near(&format!("{}: {}", file.path.display(), file.text))).collect()
}

#[test]
fn the_users_come_first_then_the_projects_from_outside_in() {
    let world = World::new()
        .file("proj/AGENTS.md", "top")
        .file("proj/a/AGENTS.md", "a")
        .file("proj/a/CLAUDE.md", "no")
        .file("AGENTS.md", "no")
        .file("proj/b/AGENTS.md", "no")
        .at("proj/a/b");
    assert_eq!(texts(&world), ["proj/AGENTS.md: top", "proj/a/AGENTS.md: a"]);
    let world = world.file("home/.claude/CLAUDE.md", "claude's user");
    assert_eq!(texts(&world)[0], "home/.claude/CLAUDE.md: claude's user");
    let world = world.file("home/posse/AGENTS.md", "user");
    assert_eq!(texts(&world), ["home/posse/AGENTS.md: user", "proj/AGENTS.md: top", "proj/a/AGENTS.md: a"]);
}

#[test]
fn claudes_name_counts_where_ours_is_nowhere_and_the_user_lets_it() {
    let world = World::new().file("proj/CLAUDE.md", "top").file("home/.claude/CLAUDE.md", "user").at("proj/a");
    assert_eq!(texts(&world), ["home/.claude/CLAUDE.md: user", "proj/CLAUDE.md: top"]);
    assert_eq!(texts(&world.user(r#"{"compat": {"claude": false}}"#)), [""; 0]);
    let both = World::new().file("proj/CLAUDE.md", "no").file("proj/a/AGENTS.md", "yes").at("proj/a");
    assert_eq!(texts(&both), ["proj/a/AGENTS.md: yes"]);
}

#[test]
fn configured_files_and_globs_follow_in_order_without_doubles() {
    let world = World::with_user(r#"{"instructions": ["mine.md", "~/notes.md", "none.md", "https://x/y"]}"#)
        .file("home/posse/mine.md", "mine")
        .file("home/notes.md", "notes")
        .file("proj/AGENTS.md", "top")
        .file("proj/posse.json", r#"{"instructions": ["AGENTS.md", "docs/*.md", "deep/**/*.txt"]}"#)
        .file("proj/docs/b.md", "b")
        .file("proj/docs/a.md", "a")
        .file("proj/docs/c.txt", "no")
        .file("proj/docs/sub/d.md", "no")
        .file("proj/deep/x/y/z.txt", "z")
        .file("proj/deep/.git/x.txt", "no");
    let expected = [
        "proj/AGENTS.md: top",
        "home/posse/mine.md: mine",
        "home/notes.md: notes",
        "proj/docs/a.md: a",
        "proj/docs/b.md: b",
        "proj/deep/x/y/z.txt: z",
    ];
    assert_eq!(texts(&world), expected);
    let warnings: Vec<String> = found(&world).warnings.iter().map(|warning| world.near(&warning.to_string())).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("home/posse/posse.json:1: instructions: home/posse/none.md: "), "{warnings:?}");
    assert_eq!(world.warnings(), ["home/posse/posse.json:1: instructions[3]: URLs are not read; save it as a file and name that"]);
}

#[cfg(unix)]
#[test]
fn a_link_out_of_the_project_is_not_followed() {
    use std::os::unix::fs::symlink;
    let world = World::new()
        .file("secret", "s3cret")
        .file("proj/real.md", "inside")
        .file("proj/posse.json", r#"{"instructions": ["leak.md", "*.txt", "linked/*"]}"#)
        .file("outside/x.md", "s3cret");
    symlink(world.path("secret"), world.path("proj/AGENTS.md")).unwrap();
    symlink(world.path("secret"), world.path("proj/leak.md")).unwrap();
    symlink(world.path("secret"), world.path("proj/leak.txt")).unwrap();
    symlink(world.path("outside"), world.path("proj/linked")).unwrap();
    symlink(world.path("proj/real.md"), world.path("proj/CLAUDE.md")).unwrap();
    assert_eq!(texts(&world), ["proj/CLAUDE.md: inside"]);
    assert!(
        found(&world).warnings.iter().any(|warning| warning.words == "leak.md: leads out of the project"),
        "{:?}",
        found(&world).warnings
    );

    // The user's own folder may link anywhere, and a user's file that names a project's link is no way out.
    let world = world.env("POSSE_CONFIG_CONTENT", r#"{"instructions": ["leak.md"]}"#);
    symlink(world.path("secret"), world.path("home/posse/AGENTS.md")).unwrap();
    assert_eq!(texts(&world), ["home/posse/AGENTS.md: s3cret", "proj/CLAUDE.md: inside"]);
}

#[test]
fn long_files_are_cut_and_the_whole_is_bounded() {
    let long = "ü".repeat(50_000);
    let world = World::new().file("proj/AGENTS.md", &long).file("proj/posse.json", r#"{"instructions": ["d/*"]}"#);
    let text = &found(&world).files[0].text;
    assert!(text.ends_with("ü\n\n[cut here: the file has 100000 bytes]"), "{}", &text[text.len() - 60..]);
    assert!(text.len() < 65 * 1024);
    let world = (0..9).fold(world, |world, number| world.file(&format!("proj/d/{number}.md"), &long));
    let all = found(&world);
    assert!(all.files.iter().map(|file| file.text.len()).sum::<usize>() <= 257 * 1024);
    assert_eq!(all.files.len() + all.warnings.len(), 10);
    assert!(all.warnings[0].words.contains("left out"));
}

#[test]
fn odd_bytes_empty_files_and_folders_do_no_harm() {
    let world = World::new()
        .file("proj/AGENTS.md", b"\xef\xbb\xbfa\xffb")
        .file("proj/a/AGENTS.md/x", "")
        .file("proj/a/b/AGENTS.md", " \n")
        .at("proj/a/b");
    assert_eq!(texts(&world), ["proj/AGENTS.md: a\u{fffd}b"]);
}
