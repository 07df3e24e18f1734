//! Folders that a command of the user's makes: run below the keeper, within bounds, and once for a task wherever that can
//! be known. What a killed posse leaves of it is listed and forgotten; the folder is the user's.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use posse_session::Worktree;
use posse_tools::{Keeper, LeftoverKind, Order, Worktrees};

use crate::{
    common,
    killing::{at_every_moment, is_killed},
    lab::{Lab, names, read},
};

/// Notes each run, makes a folder by the name that it is told, and says so.
pub(crate) const MAKING: &str = "echo run >> ../runs; mkdir -p ../made-$POSSE_SLUG && echo made it && echo ../made-$POSSE_SLUG";
const SOON: Duration = Duration::from_secs(20);

/// A task of its own for each test: whoever orders again ends what is left of that task, on the whole machine.
fn task(home: &Path) -> String {
    let name = home.parent().unwrap().file_name().unwrap().to_string_lossy();
    format!("ses_1A{}", name.chars().filter(char::is_ascii_alphanumeric).collect::<String>())
}

fn slug(lab: &Lab) -> String {
    Worktrees::slug(&task(&lab.repo))
}

pub(crate) fn order(trees: &Worktrees, keeper: &Arc<Keeper>, home: &Path, command: &str) -> Result<(Worktree, String), String> {
    order_within(trees, keeper, home, command, Duration::from_secs(60))
}

fn order_within(trees: &Worktrees, keeper: &Arc<Keeper>, home: &Path, command: &str, time: Duration) -> Result<(Worktree, String), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let task = task(home);
    let order = Order { command, task: &task, home: home.to_str().unwrap(), time };
    runtime.block_on(trees.order(keeper, &order))
}

fn runs(lab: &Lab) -> usize {
    fs::read_to_string(lab.base.join("runs")).unwrap_or_default().lines().count()
}

fn made(lab: &Lab) -> PathBuf {
    lab.base.join(format!("made-{}", slug(lab)))
}

/// Kinds and places of what is noted, and whether it may go.
fn noted(lab: &Lab) -> Vec<(LeftoverKind, String, bool)> {
    lab.trees.orders().unwrap().into_iter().map(|order| (order.kind, order.place, order.cleanable)).collect()
}

fn is_alive(pid: &str) -> bool {
    // One that is dead and not yet reaped is gone.
    let status = read(&PathBuf::from(format!("/proc/{pid}/stat")));
    status.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')) && Path::new(&format!("/proc/{pid}")).exists()
}

fn is_gone_soon(pid: &str) -> bool {
    let until = Instant::now() + SOON;
    while is_alive(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !is_alive(pid)
}

/// CC-224: it runs below the keeper, in the caller's folder, is told the task and a name for the folder, and prints the folder last.
#[test]
fn a_command_makes_the_folder_below_the_keeper() {
    let (lab, keeper) = (Lab::new(), common::keeper());
    let command = format!("pwd -P >&2; echo $PPID $POSSE_TASK $POSSE_CALL > ../told; {MAKING}");
    let (tree, folder) = order(&lab.trees, &keeper, &lab.repo, &command).unwrap();
    assert_eq!((Path::new(&folder), tree.path.as_str(), tree.branch.as_str()), (made(&lab).as_path(), folder.as_str(), ""));
    let told = read(&lab.base.join("told"));
    let told: Vec<&str> = told.split_whitespace().collect();
    assert_eq!(told[1..], [task(&lab.repo), format!("create_{}", slug(&lab))]);
    // Its shell is a child of the shell that the keeper started.
    assert!(keeper.pid().is_some_and(|pid| pid != std::process::id()), "a keeper was started for it");
    assert_eq!(noted(&lab), [(LeftoverKind::Order, folder, false)], "until its task has begun");
    lab.trees.forget_orders_of(&made(&lab)).unwrap();
    assert_eq!((noted(&lab), names(&lab.base.join("trees/.posse/orders"))), (Vec::new(), Vec::new()));
    assert!(made(&lab).is_dir(), "it is the user's");
}

/// What it leaves running ends with it; one that takes too long, says too much or fails makes nothing and leaves nothing.
#[test]
fn a_command_has_bounds() {
    let (lab, keeper) = (Lab::new(), common::keeper());
    let within = |command: &str, time: Duration| order_within(&lab.trees, &keeper, &lab.repo, command, time);
    order(&lab.trees, &keeper, &lab.repo, &format!("(sleep 600 & echo $! > ../left); {MAKING}")).unwrap();
    assert!(is_gone_soon(read(&lab.base.join("left")).trim()), "it does not outlive its command");
    lab.trees.forget_order(&slug(&lab)).unwrap();
    for (command, time, words) in [
        ("echo no room >&2; exit 3", SOON, "it ended with exit code 3: no room."),
        ("echo nowhere", SOON, "its last line must be a folder, and was `nowhere`."),
        ("true", SOON, "its last line must be a folder, and was ``."),
        ("echo wait >&2; sleep 600 & echo $! > ../left; wait", Duration::from_millis(500), "it took longer than 0.5 s: wait."),
        ("yes", SOON, "it printed more than 16777216 bytes."),
        ("yes >&2", SOON, "it printed more than 16777216 bytes."),
    ] {
        let error = within(command, time).unwrap_err();
        assert_eq!(error, format!("The `worktree.create` command made no folder: {words}"), "{command}");
        assert_eq!(noted(&lab), [], "{command}");
        lab.trees.forget_order(&slug(&lab)).unwrap();
        assert_eq!(names(&lab.base.join("trees/.posse/orders")), Vec::<String>::new(), "{command}");
    }
    assert!(is_gone_soon(read(&lab.base.join("left")).trim()), "one that took too long is ended with all it started");
}

/// Ordered again for the same task it is the folder that was made, and the command does not run a second time.
#[test]
fn a_second_order_finds_what_the_first_has_made() {
    let (lab, keeper) = (Lab::new(), common::keeper());
    let first = order(&lab.trees, &keeper, &lab.repo, MAKING).unwrap();
    assert_eq!((order(&lab.trees, &keeper, &lab.repo, MAKING).unwrap(), runs(&lab)), (first.clone(), 1));
    // One that the user has removed meanwhile is made again.
    fs::remove_dir(made(&lab)).unwrap();
    assert_eq!((order(&lab.trees, &keeper, &lab.repo, MAKING).unwrap(), runs(&lab)), (first, 2));
}

/// At every moment: it is listed, and forgotten or gone on with; and the command has run once.
#[test]
fn a_killed_order_is_listed_and_forgotten_or_gone_on_with() {
    let keeper = common::keeper();
    at_every_moment(
        "order",
        |_| {},
        |lab, moment| {
            let ran = runs(lab);
            match &noted(lab)[..] {
                [(LeftoverKind::Order, place, false)] => assert_eq!((Path::new(place), ran), (made(lab).as_path(), 1), "{moment}"),
                [(LeftoverKind::Order, _, true)] => assert_eq!(ran, 0, "{moment}"),
                other => panic!("{moment}: {other:?}"),
            }
            order(&lab.trees, &keeper, &lab.repo, MAKING).unwrap();
            assert_eq!(runs(lab), 1, "{moment}");
            lab.trees.forget_order(&slug(lab)).unwrap();
            assert_eq!((noted(lab), names(&lab.base.join("trees/.posse/orders"))), (Vec::new(), Vec::new()), "{moment}");
        },
    );
    // Forgotten instead: nothing is left but what the command had made.
    at_every_moment(
        "order",
        |_| {},
        |lab, moment| {
            lab.trees.forget_order(&slug(lab)).unwrap();
            assert_eq!((noted(lab), names(&lab.base.join("trees/.posse/orders"))), (Vec::new(), Vec::new()), "{moment}");
            assert_eq!(made(lab).is_dir(), runs(lab) == 1, "{moment}");
        },
    );
}

/// Killed while the command is under way: the command ends too, is listed, and runs once more under the same name.
#[test]
fn a_command_dies_with_its_posse_and_runs_again_under_the_same_name() {
    let lab = Lab::new();
    assert!(is_killed(&lab, "order_in_the_middle", u64::MAX), "its command kills it");
    assert!(is_gone_soon(read(&lab.base.join("pid")).trim()), "the command does not outlive it");
    let listed = lab.trees.orders().unwrap();
    assert!(listed.len() == 1 && listed[0].cleanable, "{listed:?}");
    assert!(listed[0].why.contains("was interrupted in") && listed[0].why.contains(&task(&lab.repo)), "{listed:?}");
    let (_, folder) = order(&lab.trees, &common::keeper(), &lab.repo, MAKING).unwrap();
    assert_eq!((Path::new(&folder), runs(&lab)), (made(&lab).as_path(), 2));
}
