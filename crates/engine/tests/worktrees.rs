//! Tasks that work in a folder of their own: when it is made, looked at, removed and made again, and what is said of it.
//!
//! The yard is in memory (`office::Yard`); what git does is tested in `tools`, both together through the binary.

#![allow(clippy::unwrap_used)]

mod office;

use std::{sync::Arc, time::Duration};

use office::{
    Ground, Office, Yard, check_tree, ends, last, lines, log, notices, outcomes, prompt, say, settled, summaries, survives_every_cut,
    survives_every_fault,
};
use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{Birth, By, Command, Event, Forks, Hold, How, Isolation, ModelFailure, Record, SessionId, Status};
use posse_tools::Dialect;
use serde_json::{Value, json};

fn isolated(description: &str, prompt: &str, isolation: &str) -> Value {
    json!({"description": description, "prompt": prompt, "subagent_type": "worker", "isolation": isolation})
}

fn in_background(mut input: Value) -> Value {
    input["run_in_background"] = json!(true);
    input["name"] = input["description"].clone();
    input
}

fn office(ground: Ground, script: impl Fn(&Seen) -> ScriptedReply + Send + Sync + 'static) -> Office {
    let yard = Yard::default();
    *yard.ground.lock().unwrap() = ground;
    Office { yard: Some(Arc::new(yard)), forks: Forks::Explicit, ..Office::with_model(Scripted::with(script)) }
}

fn yard(office: &Office) -> Arc<Yard> {
    office.yard.clone().unwrap()
}

fn asked(office: &Office) -> Vec<String> {
    yard(office).asked.lock().unwrap().clone()
}

/// One worker in a worktree touches something and says so; the root ends with what it heard.
fn one(seen: &Seen) -> ScriptedReply {
    match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", isolated("part", "work", "worktree")),
        ("user: go", _) => say("done"),
        (_, 0) => ScriptedReply::call("touch", json!({"what": "x"})),
        _ => say("worked"),
    }
}

async fn task(office: &Office) -> SessionId {
    summaries(&office.memory).await[1].session.clone()
}

fn count(records: &[Record], is: impl Fn(&Event) -> bool) -> usize {
    records.iter().filter(|record| is(&record.event)).count()
}

/// What was recorded of the folders, in order: `left` with clean or not, `released` with removed or not.
fn recorded(records: &[Record]) -> Vec<String> {
    let word = |record: &Record| match &record.event {
        Event::TaskEnded { .. } => Some("ended".to_owned()),
        Event::WorktreeLeft { left, .. } => Some(format!("left clean={}", left.clean)),
        Event::Released { removed, words, .. } => Some(format!("released removed={removed} {words}").trim_end().to_owned()),
        Event::Ended { .. } => Some("rest".to_owned()),
        _ => None,
    };
    records.iter().filter_map(word).collect()
}

/// CC-182, CC-218, CC-219, CC-220, CC-222: made once, named by the task, worked in, looked at when the round is over, removed when nothing
/// was changed in it; and the caller is not at rest before that.
#[tokio::test(start_paused = true)]
async fn a_clean_worktree_is_removed_when_its_task_has_ended() {
    let office = office(Ground::Clean, one);
    office.run("go").await;
    let task = task(&office).await;
    let path = format!("/yard/{task}");
    assert_eq!(
        asked(&office),
        [
            format!("make {task} from / Worktree for part (@worker subagent)"),
            format!("ensure {path}"),
            format!("look {path}"),
            format!("release {path}"),
            format!("removed {path}")
        ]
    );
    assert_eq!(yard(&office).folders(), 0);
    let records = office.records().await;
    assert_eq!(recorded(&records), ["left clean=true", "ended", "released removed=true", "rest"]);
    assert_eq!(
        outcomes(&records, "agent"),
        [format!("worked\n\nworktree: it changed nothing, so its folder is removed.\n\ntask_id: {task}")]
    );
    let birth = Birth::of(&log(&office.memory, &task).await[0].event).unwrap();
    assert_eq!((birth.worktree.as_ref().unwrap().path.as_str(), birth.directory), (path.as_str(), format!("{path}/below")));
    check_tree(&office, "clean").await;
}

/// CC-223, CC-262, CC-271: kept with work in it, and the caller is told where, on which branch, and how much; in a notice as in a result.
#[tokio::test(start_paused = true)]
async fn a_worktree_with_work_in_it_is_kept_and_named() {
    for (dialect, background, merge) in [
        (Dialect::Posse, false, "task_merge"),
        (Dialect::Posse, true, "task_merge"),
        (Dialect::Claude, false, "TaskMerge"),
        (Dialect::Claude, true, "TaskMerge"),
    ] {
        let mut office = office(Ground::Dirty, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => {
                let input = isolated("part", "work", "worktree");
                ScriptedReply::call(dialect.tool(), if background { in_background(input) } else { input })
            }
            _ => one(seen),
        });
        office.dialect = dialect;
        office.run("go").await;
        let task = task(&office).await;
        let records = office.records().await;
        let heard = if background { notices(&records) } else { outcomes(&records, dialect.tool()) };
        let expected = format!(
            "worktree: /yard/{task}\nbranch: posse/{task}\n2 files changed, 1 commit. It is kept: {merge} with this id brings it home"
        );
        assert!(heard[0].contains(&expected), "{dialect:?}: {heard:?}");
        assert_eq!((yard(&office).count("release"), yard(&office).folders()), (0, 1), "nobody removes work");
        assert_eq!(recorded(&records)[0], "left clean=false");
        check_tree(&office, "dirty").await;
    }
}

/// What cannot be told is kept.
#[tokio::test(start_paused = true)]
async fn a_worktree_that_nobody_can_judge_is_kept() {
    let office = office(Ground::Unknown, one);
    office.run("go").await;
    let said = outcomes(&office.records().await, "agent").remove(0);
    assert!(said.contains("The index is locked. It is kept; look at it before you rely on it."), "{said}");
    assert_eq!((yard(&office).count("release"), yard(&office).folders()), (0, 1));
}

/// A removal that fails is a fact with its words, and keeps nobody up.
#[tokio::test(start_paused = true)]
async fn a_worktree_that_cannot_be_removed_stays_and_the_session_goes_on() {
    let office = office(Ground::Clean, one);
    *yard(&office).stuck.lock().unwrap() = Some("the disk is read-only".into());
    office.run("go").await;
    assert_eq!(recorded(&office.records().await), ["left clean=true", "ended", "released removed=false the disk is read-only", "rest"]);
    check_tree(&office, "stuck").await;
}

/// A folder that cannot be made is a task that failed, in words; there is nothing to look at.
#[tokio::test(start_paused = true)]
async fn a_worktree_that_cannot_be_made_is_a_failure_in_words() {
    for background in [false, true] {
        let office = office(Ground::Clean, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => {
                let input = isolated("part", "work", "worktree");
                ScriptedReply::call("agent", if background { in_background(input) } else { input })
            }
            _ => one(seen),
        });
        *yard(&office).refusal.lock().unwrap() = Some("there is no commit to begin with".into());
        let session = office.run("go").await;
        assert!(session.is_settled());
        let records = office.records().await;
        let told = ends(&records);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].0 == How::Failed && told[0].1.contains("there is no commit to begin with"), "{told:?}");
        assert_eq!((yard(&office).count("look"), yard(&office).count("release")), (0, 0), "{:?}", asked(&office));
        assert!(office.witness.lock().unwrap().is_empty(), "nobody worked");
    }
}

/// CC-033: what the call says counts before what the definition says; `none` is the caller's folder. In no dialect are `cwd` and
/// a worktree both taken (CC-036, CC-037, CC-284 by our choice).
#[tokio::test(start_paused = true)]
async fn the_call_says_where_before_the_definition() {
    use Isolation::{Worktree, WorktreeWithChanges};
    let rows: [(Option<Isolation>, Option<&str>, Option<&str>); 7] = [
        (None, None, None),
        (None, Some("worktree"), Some("Worktree")),
        (None, Some("worktree+changes"), Some("WorktreeWithChanges")),
        (Some(Worktree), None, Some("Worktree")),
        (Some(WorktreeWithChanges), None, Some("WorktreeWithChanges")),
        (Some(WorktreeWithChanges), Some("worktree"), Some("Worktree")),
        (Some(Worktree), Some("none"), None),
    ];
    for (defined, called, expected) in rows {
        let mut office = office(Ground::Clean, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => {
                let mut input = isolated("part", "work", "none");
                input["isolation"] = json!(called);
                ScriptedReply::call("agent", input)
            }
            _ => one(seen),
        });
        office.isolations.extend(defined.map(|isolation| ("worker".to_owned(), isolation)));
        office.run("go").await;
        let made: Vec<String> = asked(&office).into_iter().filter(|words| words.starts_with("make")).collect();
        let case = format!("{defined:?} {called:?}");
        assert_eq!(made.len(), usize::from(expected.is_some()), "{case}: {made:?}");
        assert!(made.iter().all(|words| words.contains(&format!(" {} for", expected.unwrap()))), "{case}: {made:?}");
        let said = outcomes(&office.records().await, "agent").remove(0);
        assert_eq!(said.contains("worktree:"), expected.is_some(), "{case}: {said}");
    }
}

/// CC-031, CC-037, CC-284: what cannot be meant together is refused before anything is made.
#[tokio::test(start_paused = true)]
async fn a_folder_and_a_worktree_are_not_taken_together() {
    for dialect in [Dialect::Posse, Dialect::Claude] {
        let mut office = office(Ground::Clean, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", 0) => {
                let mut input = isolated("part", "work", "worktree");
                input["cwd"] = json!("/");
                ScriptedReply::call(dialect.tool(), input)
            }
            _ => one(seen),
        });
        office.dialect = dialect;
        office.run("go").await;
        let said = outcomes(&office.records().await, dialect.tool()).remove(0);
        assert!(said.contains("`cwd` and `isolation` exclude each other"), "{said}");
        assert_eq!((asked(&office).len(), summaries(&office.memory).await.len()), (0, 1));
    }
}

/// CC-221: a fork has read of another folder, so it is told where it is; whoever is none, or stays, is not.
#[tokio::test(start_paused = true)]
async fn a_fork_in_a_worktree_is_told_that_it_has_moved() {
    for (agent, isolation, told) in [("fork", "worktree", true), ("fork", "none", false), ("worker", "worktree", false)] {
        let lacks = "Of this worktree you should know: the submodule lib is empty.";
        let office = office(Ground::Dirty, move |seen| {
            let is_fork = lines(&seen.messages).iter().any(|line| line.contains("<fork-boilerplate>"));
            match (prompt(seen).as_str(), seen.position) {
                _ if is_fork => say("worked"),
                ("user: go", 0) => {
                    let mut input = isolated("part", "work", isolation);
                    input["subagent_type"] = json!(agent);
                    ScriptedReply::call("agent", input)
                }
                ("user: go", _) => say("done"),
                _ => say("worked"),
            }
        });
        *yard(&office).lacks.lock().unwrap() = Some(lacks.to_owned());
        office.run("go").await;
        let task = task(&office).await;
        let seen = office.model.seen().into_iter().find(|seen| seen.session == task).unwrap();
        let notice = lines(&seen.messages).into_iter().find(|line| line.contains("git worktree of your own"));
        assert_eq!(notice.is_some(), told, "{agent} {isolation}");
        if let Some(notice) = notice {
            assert!(notice.contains(&format!("/yard/{task}")) && notice.contains("Read a file again"), "{notice}");
            assert!(notice.contains(lacks), "it keeps its caller's head, so it is told here: {notice}");
            assert_eq!(last(&seen), notice, "after the directive, so that siblings share what comes before");
        }
        check_tree(&office, agent).await;
    }
}

/// A worker whose first round changes nothing and who is asked again.
fn twice(seen: &Seen) -> ScriptedReply {
    match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", isolated("part", "work", "worktree")),
        ("user: go", 1) => {
            let mut input = isolated("part", "more", "worktree");
            input["task_id"] = json!(lines(&seen.messages).join("\n").split("task_id: ").nth(1).unwrap().lines().next().unwrap());
            ScriptedReply::call("agent", input)
        }
        ("user: go", _) => say("done"),
        (_, 1) => say("worked more"),
        _ => say("worked"),
    }
}

/// A task that goes on has its folder again, the same one, though it was removed; it is judged after every round.
#[tokio::test(start_paused = true)]
async fn a_task_that_goes_on_has_its_folder_again() {
    for ground in [Ground::Clean, Ground::Dirty] {
        let office = office(ground, twice);
        office.run("go").await;
        let path = format!("/yard/{}", task(&office).await);
        let verbs: Vec<String> = asked(&office).iter().map(|words| words.split(' ').next().unwrap().to_owned()).collect();
        let round = |first: &str| match ground {
            Ground::Clean => vec![first.to_owned(), "look".into(), "release".into(), "removed".into()],
            _ => vec![first.to_owned(), "look".into()],
        };
        assert_eq!(verbs, [vec!["make".to_owned()], round("ensure"), round("ensure")].concat(), "{ground:?}");
        assert!(asked(&office)[1..].iter().all(|words| words.contains(&path)), "{:?}", asked(&office));
        check_tree(&office, "twice").await;
    }
}

/// Whoever takes over finds the folder there, and makes none anew.
#[tokio::test(start_paused = true)]
async fn whoever_takes_over_ensures_the_folder() {
    let office = office(Ground::Clean, |seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", _) => one(seen),
        (_, 0) => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
        _ => say("worked"),
    });
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let memory = office.memory.copy();
    handle.close().await;
    assert_eq!((yard(&office).count("make"), yard(&office).count("release")), (1, 0));
    let office = office.reopened(memory);
    let handle = office.open(Vec::new()).await;
    settled(&handle).await;
    handle.close().await;
    let yard = yard(&office);
    assert_eq!((yard.count("make"), yard.count("ensure"), yard.count("removed")), (1, 2, 1), "{:?}", asked(&office));
    check_tree(&office, "taken over").await;
}

/// The child's own end is the truth: what is told of a round is what its own log says of it.
async fn tells_the_same(office: &Office, what: &str) {
    for summary in summaries(&office.memory).await {
        for record in log(&office.memory, &summary.session).await {
            let Event::TaskEnded { task, round, how, .. } = record.event else { continue };
            let own = log(&office.memory, &task).await;
            let end = own.iter().find_map(|record| match &record.event {
                Event::Ended { round: ended, how, .. } if *ended == round => Some(*how),
                _ => None,
            });
            // One that never began has no log.
            assert!(own.is_empty() || end == Some(how), "{what}: {task} round {round} was told as {how:?} and is {end:?}");
        }
    }
}

/// A folder that cannot be made again ends the round of its task, in its own log as in its caller's; nothing of it runs any more.
#[tokio::test(start_paused = true)]
async fn a_task_whose_folder_is_lost_ends_in_both_logs() {
    for tool in ["slow", "peek"] {
        let office = office(Ground::Dirty, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", _) => one(seen),
            // One reads only, and would be run again.
            (_, 0) => ScriptedReply::call(tool, json!({"what": "x", "ms": 60_000})),
            _ => say("worked").after(Duration::from_secs(60)),
        });
        let handle = office.begin("go").await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let memory = office.memory.copy();
        handle.close().await;
        let words = "its repository is gone";
        *yard(&office).lost.lock().unwrap() = Some(words.into());
        let office = office.reopened(memory);
        let ran = office.witness.lock().unwrap().len();
        let task = task(&office).await;
        let asked = |office: &Office| office.model.seen().iter().filter(|seen| seen.session == task).count();
        let before = asked(&office);
        let handle = office.open(Vec::new()).await;
        settled(&handle).await;
        handle.close().await;
        let told = ends(&office.records().await);
        assert!(told.len() == 1 && told[0].0 == How::Failed && told[0].1.contains(words), "{tool}: {told:?}");
        let own = log(&office.memory, &task).await;
        let ended = own
            .iter()
            .find_map(|record| if let Event::Ended { how, error, .. } = &record.event { Some((*how, error.clone())) } else { None });
        assert_eq!(ended, Some((How::Failed, words.to_owned())), "{tool}");
        assert_eq!((asked(&office), office.witness.lock().unwrap().len()), (before, ran), "{tool}: nobody is asked, nothing runs");
        check_tree(&office, tool).await;
        tells_the_same(&office, tool).await;
    }
}

/// Over all logs, whoever died: while folders are lost, every round ends in its own log as it is told.
#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_a_lost_folder_is_survivable() {
    for script in [one as fn(&Seen) -> ScriptedReply, team, twice] {
        let office = office(Ground::Dirty, script);
        office.run("go").await;
        *yard(&office).lost.lock().unwrap() = Some("its repository is gone".into());
        survives_every_cut(office, async |office, what| tells_the_same(office, what).await).await;
    }
}

/// A task that fails or is stopped leaves a folder too: it is looked at, and removed if it is clean.
#[tokio::test(start_paused = true)]
async fn a_failed_or_stopped_task_is_cleaned_up_after() {
    for (stop, ground) in [(false, Ground::Clean), (true, Ground::Clean), (false, Ground::Dirty), (true, Ground::Dirty)] {
        let office = office(ground, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: go", _) => one(seen),
            (_, 0) if stop => ScriptedReply::call("slow", json!({"what": "x", "ms": 600_000})),
            _ => ScriptedReply::failing(ModelFailure::BadRequest, "no"),
        });
        let handle = office.begin("go").await;
        if stop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            handle.command(Command::StopTask { task: task(&office).await, by: By::User }).await.unwrap();
        }
        settled(&handle).await;
        handle.close().await;
        let told = ends(&office.records().await);
        assert_eq!(told[0].0, if stop { How::Stopped } else { How::Failed });
        let words = if ground == Ground::Clean { "it changed nothing" } else { "2 files changed, 1 commit" };
        assert!(told[0].1.contains(words), "{told:?}");
        let yard = yard(&office);
        assert_eq!((yard.count("look"), yard.folders()), (1, usize::from(ground == Ground::Dirty)), "{:?}", asked(&office));
        check_tree(&office, "stopped or failed").await;
    }
}

/// CC-271: while a task goes on nobody removes its folder, not even a removal that was already under way.
#[tokio::test(start_paused = true)]
async fn a_folder_is_never_removed_below_a_task_that_goes_on() {
    let office = office(Ground::Clean, |seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", 0) => ScriptedReply::call("agent", in_background(isolated("part", "work", "worktree"))),
        ("user: go", 1) => say("meanwhile"),
        ("user: go", 2) => ScriptedReply::call("send_message", json!({"to": "part", "message": "more", "summary": "more"})),
        ("user: go", _) => say("done"),
        (_, 0) => say("worked"),
        (_, 1) => ScriptedReply::call("slow", json!({"what": "x", "ms": 60_000})),
        _ => say("worked more"),
    });
    *yard(&office).removal.lock().unwrap() = Duration::from_secs(5);
    let handle = office.begin("go").await;
    // The second round works from here on: the folder is there all the while.
    let mut there = Vec::new();
    for _ in 0..40 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let all = summaries(&office.memory).await;
        if all.len() == 2 && all[1].status == Status::Running && 2 <= all[1].steps {
            there.push(yard(&office).folders());
        }
    }
    assert!(!there.is_empty() && there.iter().all(|folders| *folders == 1), "{there:?} {:?}", asked(&office));
    settled(&handle).await;
    handle.close().await;
    assert_eq!(yard(&office).folders(), 0, "in the end it is gone: {:?}", asked(&office));
    check_tree(&office, "gone on").await;
}

/// A task below one that has a folder works there too, unless it has its own; each folder is released by whoever started its task.
#[tokio::test(start_paused = true)]
async fn a_task_below_works_in_the_folder_of_its_caller() {
    for isolation in ["none", "worktree"] {
        let office = office(Ground::Clean, move |seen| match (prompt(seen).as_str(), seen.position) {
            ("user: work", 0) => ScriptedReply::call("agent", isolated("below", "help", isolation)),
            ("user: help", _) => say("helped"),
            _ => one(seen),
        });
        office.run("go").await;
        let all = summaries(&office.memory).await;
        let (task, below) = (&all[1].session, &all[2]);
        let expected = if isolation == "none" { format!("/yard/{task}/below") } else { format!("/yard/{}/below", below.session) };
        assert_eq!(below.directory, expected);
        let made = asked(&office);
        let own = format!("make {} from /yard/{task}/below Worktree", below.session);
        assert_eq!(made.iter().any(|words| words.starts_with(&own)), isolation == "worktree", "{made:?}");
        assert_eq!(yard(&office).folders(), 0);
        check_tree(&office, isolation).await;
    }
}

/// A team in worktrees: one waits, one does not, one is a fork.
fn team(seen: &Seen) -> ScriptedReply {
    let is_fork = lines(&seen.messages).iter().any(|line| line.contains("<fork-boilerplate>"));
    match (prompt(seen).as_str(), seen.position) {
        (_, 1) if is_fork => ScriptedReply::call("touch", json!({"what": "z"})),
        _ if is_fork => say("forked"),
        ("user: go", 0) => {
            let mut forked = isolated("third", "fork it", "worktree");
            forked["subagent_type"] = json!("fork");
            ScriptedReply::call("agent", isolated("first", "work", "worktree"))
                .and_call("agent", in_background(isolated("second", "work", "worktree+changes")))
                .and_call("agent", forked)
        }
        ("user: go", _) => say("done"),
        (_, 0) => ScriptedReply::call("touch", json!({"what": "x"})),
        _ => say("worked"),
    }
}

/// Over all logs: every folder is looked at when its round ends; clean ones are gone and dirty ones are there, whoever died.
#[tokio::test(start_paused = true)]
async fn a_crash_anywhere_around_worktrees_is_survivable() {
    for (ground, script) in [
        (Ground::Clean, one as fn(&Seen) -> ScriptedReply),
        (Ground::Dirty, one),
        (Ground::Clean, team),
        (Ground::Dirty, team),
        (Ground::Clean, twice),
    ] {
        let office = office(ground, script);
        office.run("go").await;
        survives_every_cut(office, async |office, what| {
            let records = office.records().await;
            let tasks = count(&records, |event| matches!(event, Event::TaskStarted { .. }));
            let rounds = count(&records, |event| matches!(event, Event::TaskEnded { .. }));
            let left = count(&records, |event| matches!(event, Event::WorktreeLeft { .. }));
            let released = count(&records, |event| matches!(event, Event::Released { removed: true, .. }));
            // A torn append may say it twice; never may it be missing.
            assert!(rounds <= left, "{what}: looked at every round: {:?}", recorded(&records));
            let live: Vec<String> = summaries(&office.memory).await[1..].iter().map(|task| format!("/yard/{}", task.session)).collect();
            let there = yard(office).there.lock().unwrap().keys().filter(|path| live.contains(path)).count();
            match ground {
                // One that is asked again at once needs its folder: it is removed after the last round at the latest.
                Ground::Clean => {
                    assert!(there == 0 && (rounds == 0 || 0 < released), "{what}: {there} there, {:?}", recorded(&records));
                }
                _ => assert_eq!((released, there), (0, tasks), "{what}"),
            }
            yard(office).asked.lock().unwrap().clear();
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_append_that_fails_anywhere_around_worktrees_stops_the_tree_and_the_next_owner_goes_on() {
    for ground in [Ground::Clean, Ground::Dirty] {
        survives_every_fault(move || office(ground, one)).await;
    }
}

/// What the user stopped stays stopped, and its folder is released all the same.
#[tokio::test(start_paused = true)]
async fn a_root_that_is_stopped_releases_what_its_tasks_left() {
    let office = office(Ground::Clean, |seen| match (prompt(seen).as_str(), seen.position) {
        ("user: go", _) => one(seen),
        _ => ScriptedReply::call("slow", json!({"what": "x", "ms": 600_000})),
    });
    let handle = office.begin("go").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    handle.command(Command::Interrupt { by: By::User, hold: Hold::Esc, partial: Default::default() }).await.unwrap();
    settled(&handle).await;
    handle.close().await;
    assert_eq!(yard(&office).folders(), 0, "{:?}", asked(&office));
    check_tree(&office, "escape").await;
}
