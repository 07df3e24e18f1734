//! `posse demo` as a user runs it who has just installed posse: it is as told, or it says what is not.
//!
//! It checks itself, so these tests look at what it cannot know: that it leaves the user's own things alone and nothing
//! behind, and that its checks can fail.

use std::{
    io::BufRead as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use crate::support::{Answer, Seen, World, world::Invocation};

/// It takes about three seconds where nobody looks on; machines that run tests are busy.
const MOST: Duration = Duration::from_secs(60);

/// What ends with it may take a moment.
const GONE: Duration = Duration::from_secs(10);

/// A user, and the folder that is `TMPDIR` for all that is run.
struct User {
    world: World,
    temporary: PathBuf,
}

impl User {
    fn new() -> User {
        let world = World::new(|_: &Seen| Answer::text("nobody asks me"));
        let temporary = world.folder().canonicalize().unwrap().join("temporary");
        std::fs::create_dir(&temporary).unwrap();
        User { world, temporary }
    }

    fn demo(&self, args: &[&str]) -> Invocation<'_> {
        let command = self.world.command(&[&["demo"], args].concat());
        command.env("TMPDIR", self.temporary.to_str().unwrap()).within(MOST)
    }

    /// The demo's folders that are there now.
    fn left(&self) -> Vec<PathBuf> {
        std::fs::read_dir(&self.temporary).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    /// Every file below the user's home.
    fn own(&self) -> Vec<PathBuf> {
        let (mut files, mut folders) = (Vec::new(), vec![self.world.home.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }

    fn processes(&self) -> Vec<String> {
        self.world.processes_left_after(GONE).into_iter().map(|process| process.command).collect()
    }
}

/// Worktrees, a refused ask, kill -9, going on, both ways home: all of it is checked by the demo itself.
#[test]
fn the_demo_is_as_told_and_leaves_nothing_behind() {
    let user = User::new();
    let before = user.own();
    let done = user.demo(&[]).run().expect_code(0);
    let told = [
        "the model is SCRIPTED (scripted/demo)",
        "✓ two of its three tests fail",
        "✓ each has edited text.sh in its own worktree",
        "✓ the padder's copy was refused, and it was told so",
        "4. kill -9",
        "✓ the run was killed by signal 9",
        "✓ only the command that ran is lost",
        "✓ no call was started twice",
        "✓ the end of each agent reached its caller exactly once",
        "✓ the trimmer's work is home, and only that",
        "$ posse tasks merge padder",
        "✓ every test passes",
        "✓ no worktree and no branch is left behind",
        "Done in ",
    ];
    let mut rest = done.out.as_str();
    for line in told {
        let at = rest.find(line).unwrap_or_else(|| panic!("{line} is not told, or not in this place:\n{}", done.out));
        rest = &rest[at..];
    }
    assert!(!done.out.contains('\x1b'), "no colour where nobody looks on: {}", done.out);
    let is_wide = |line: &&str| 100 < line.chars().count() && !line.contains("/posse-demo-");
    assert_eq!(done.out.lines().find(is_wide), None);
    assert!(done.out.contains("/temporary/posse-demo-") && done.err.is_empty(), "{done:?}");
    assert_eq!(user.left(), Vec::<PathBuf>::new());
    assert_eq!((user.own(), user.world.model.requests().len()), (before, 0), "the user's own things are left alone");
    assert_eq!(user.processes(), Vec::<String>::new());
}

/// Each of these makes one thing untrue, and the demo notices it: exit 1, what was expected and found, and where to look.
#[test]
fn what_is_not_as_told_is_said() {
    for (spoil, what) in [
        ("ask", "refused"),
        ("twice", "the padder's command wrote its line exactly once\n  expected: 1\n  found:    2"),
        ("tests", "every test passes\n  expected: []\n  found:    [\"pad\"]"),
    ] {
        let user = User::new();
        let done = user.demo(&["--spoil", spoil]).run().expect_code(1);
        assert!(done.err.contains("this is not as told: ") && done.err.contains(what), "{spoil}: {done:?}");
        assert!(!done.out.contains("Done in "), "{spoil}: {done:?}");
        let left = user.left();
        assert!(left.len() == 1 && done.err.contains(left[0].to_str().unwrap()), "{spoil}: {left:?} {done:?}");
        assert_eq!(user.processes(), Vec::<String>::new(), "{spoil}");
    }
}

#[test]
fn what_is_kept_can_be_looked_at() {
    let user = User::new();
    let done = user.demo(&["--keep"]).run().expect_code(0);
    let [folder] = &user.left()[..] else { panic!("one folder is kept: {done:?}") };
    assert!(done.out.contains(&format!("cd {0}/project; HOME={0}/home posse sessions tree", folder.display())), "{done:?}");
    let home = folder.join("home");
    let shown = user.world.command(&["sessions", "tree", "--format", "json"]).cwd(folder.join("project"));
    let tree = shown.env("HOME", home.to_str().unwrap()).without("POSSE_HOME").run().expect_code(0).json();
    let sessions: Vec<_> = tree.as_array().unwrap().iter().map(|node| (node["status"].clone(), node["model"].clone())).collect();
    assert_eq!(sessions, vec![("completed".into(), "scripted/demo".into()); 3], "{tree:#}");
    assert!(std::fs::read_to_string(folder.join("project/CHANGES.txt")).unwrap().starts_with("pad fills up"));
}

#[test]
fn ctrl_c_takes_everything_down() {
    for moment in ["1. A repository", "2. Two background agents", "3. One wants out", "5. Going on"] {
        let user = User::new();
        let running = user.demo(&[]).start();
        assert!(running.wait_for_out(moment, MOST), "{moment}: {}", running.out_so_far());
        running.interrupt();
        let done = running.wait(GONE);
        assert_eq!(done.code, Some(130), "{moment}: {done:?}");
        assert!(done.err.contains("interrupted; ") && done.err.contains(" is removed"), "{moment}: {done:?}");
        assert_eq!(user.left(), Vec::<PathBuf>::new(), "{moment}");
        assert_eq!(user.processes(), Vec::<String>::new(), "{moment}");
    }
}

/// `posse demo | head -1`: whoever has seen enough leaves nothing behind either.
#[test]
fn a_reader_may_leave() {
    let user = User::new();
    let mut child = user.demo(&[]).unread();
    let mut first = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("posse demo: "), "{first}");
    let ended = wait_within(&mut child, MOST);
    assert_eq!((ended, user.left(), user.processes()), (Some(0), Vec::new(), Vec::new()));
}

/// The exit code; none if it has not ended by then.
fn wait_within(child: &mut std::process::Child, most: Duration) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < most {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    None
}

#[test]
fn what_it_needs_and_does_not_find_is_named() {
    let user = User::new();
    let programs = user.world.folder().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let sh = std::env::split_paths(&std::env::var("PATH").unwrap()).map(|folder| folder.join("sh")).find(|path| path.exists()).unwrap();
    std::os::unix::fs::symlink(sh, programs.join("sh")).unwrap();
    let done = user.demo(&[]).env("PATH", programs.to_str().unwrap()).run().expect_code(1);
    assert!(done.err.contains("git is not on PATH"), "{done:?}");
    for place in ["/proc", "/nowhere/at/all"] {
        let done = user.demo(&[]).env("TMPDIR", place).run().expect_code(1);
        assert!(done.err.contains(place) && done.err.contains("set TMPDIR to a folder that can be written"), "{done:?}");
    }
    assert_eq!(user.left(), Vec::<PathBuf>::new());
}

/// The demo's model is nobody else's: in a run of the user's it is a script file that is not there.
#[test]
fn nobody_else_gets_the_demos_model() {
    let user = User::new();
    let done = user.world.run(&["-m", "scripted/demo", "Make tests.sh pass"]).expect_code(2);
    assert!(done.err.contains("cannot read the script demo"), "{done:?}");
    assert!(!Path::new(&user.temporary).join("posse-demo").exists());
}
