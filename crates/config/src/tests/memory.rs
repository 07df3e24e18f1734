//! Agent memory: its folder by scope, what of it is shown, and who cannot get at what (CC-066, CC-078).

use posse_session::MemoryScope::{Local, Project, User};

use crate::{memory, memory_dir, testing::World};

#[test]
fn each_scope_has_its_folder_and_each_agent_its_own() {
    let world = World::new().at("proj/sub");
    let dir = |scope, agent: &str| world.near(&memory_dir(&world.places(), scope, agent).display().to_string());
    assert_eq!(dir(User, "reviewer"), "home/posse/agent-memory/reviewer");
    assert_eq!(dir(Project, "reviewer"), "proj/.posse/agent-memory/reviewer");
    assert_eq!(dir(Local, "reviewer"), "proj/.posse/agent-memory-local/reviewer");
    // Whatever an agent is called, it is one folder, and nobody else's.
    let mut seen = std::collections::HashSet::new();
    for name in [
        "reviewer",
        "Reviewer",
        "team/reviewer",
        "team:reviewer",
        "../../etc",
        "..",
        ".",
        "",
        "a b",
        "żółw",
        &"x".repeat(300),
        &"x".repeat(301),
    ] {
        let dir = memory_dir(&world.places(), Project, name);
        assert_eq!(dir.parent(), Some(&*world.path("proj/.posse/agent-memory")), "{name}");
        let folder = dir.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(folder.len() < 64 && folder.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter)), "{folder}");
        assert!(seen.insert(folder), "{name}");
    }
}

#[test]
fn the_first_part_of_the_notes_is_shown_and_a_cut_is_said() {
    let world = World::new();
    let text = |world: &World| memory(&world.places(), Project, "reviewer").text;
    let file = "proj/.posse/agent-memory/reviewer/MEMORY.md";
    let empty = text(&world);
    assert!(empty.starts_with("# Your memory\n") && empty.ends_with("MEMORY.md does not exist yet."), "{empty}");
    assert!(empty.contains(&world.path("proj/.posse/agent-memory/reviewer").display().to_string()));

    let world = world.file(file, "\u{feff}- tests: `make check`\n\n");
    assert!(text(&world).ends_with("MEMORY.md says:\n\n- tests: `make check`"), "{}", text(&world));

    let lines = (1..=300).map(|number| format!("line {number}\n")).collect::<String>();
    let world = world.file(file, &lines);
    let shown = text(&world);
    assert!(shown.contains("\nline 200\n\n[cut here: the file has ") && !shown.contains("line 201"), "{shown}");
    assert!(shown.ends_with(&format!("read {} for the rest, and make it shorter]", world.path(file).display())), "{shown}");

    let world = world.file(file, "ż".repeat(100_000));
    let shown = text(&world);
    assert!(shown.len() < 28 * 1024 && shown.contains("żż\n\n[cut here: the file has 200000 bytes") && !shown.contains('\u{fffd}'));

    let world = world.file(file, "one\n".repeat(200));
    assert!(!text(&world).contains("cut here"), "200 lines are whole");
}

#[cfg(unix)]
#[test]
fn a_project_cannot_show_an_agent_the_users_other_files() {
    use std::{fs, os::unix::fs::symlink};
    let world = World::new().file("secret/reviewer/MEMORY.md", "s3cret").file("proj/.posse/agent-memory/other/x", "");
    let shown = |world: &World| memory(&world.places(), Project, "reviewer").text;
    symlink(world.path("secret/reviewer"), world.path("proj/.posse/agent-memory/reviewer")).unwrap();
    assert!(!shown(&world).contains("s3cret"));
    fs::remove_file(world.path("proj/.posse/agent-memory/reviewer")).unwrap();
    fs::create_dir(world.path("proj/.posse/agent-memory/reviewer")).unwrap();
    symlink(world.path("secret/reviewer/MEMORY.md"), world.path("proj/.posse/agent-memory/reviewer/MEMORY.md")).unwrap();
    assert!(!shown(&world).contains("s3cret"));
    fs::remove_dir_all(world.path("proj/.posse/agent-memory")).unwrap();
    symlink(world.path("secret"), world.path("proj/.posse/agent-memory")).unwrap();
    assert!(!shown(&world).contains("s3cret"));
    fs::remove_dir_all(world.path("proj/.posse")).unwrap();
    fs::create_dir_all(world.path("elsewhere")).unwrap();
    fs::rename(world.path("secret"), world.path("elsewhere/agent-memory")).unwrap();
    symlink(world.path("elsewhere"), world.path("proj/.posse")).unwrap();
    assert!(!shown(&world).contains("s3cret"), "a link on the way");
}
