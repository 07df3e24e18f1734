//! Crash everywhere, one log: tasks with folders of their own, forks, and work beside the conversation.
//!
//! How a process lives and dies, and what must hold afterwards, is in `crashing/mod.rs`. Folders outlive every process; the
//! driver itself refuses to remove one that is worked in, or that holds something.

mod common;
mod crashing;

use common::{BESIDE, internal};
use crashing::{Letter, Say, Scenario, go, interrupt, plain, run, tell, user, wake};
use posse_session::{Command, Event, Hold, Purpose, Session, SessionId};

/// Internal work with an id of its own, about everything so far.
fn advise(session: &Session, id: &str, purpose: Purpose) -> Option<Command> {
    let segments = session.segments_until(session.head());
    let spawn = Box::new(internal(&format!("msg_{id}"), purpose, segments));
    Some(Command::Advise { task: SessionId::new(id), spawn })
}

fn wake_last() -> Option<Command> {
    Some(wake((SessionId::new("last"), 0)))
}

/// The user has done something with what a task left.
fn home(_: &Session, task: &str, discarded: bool) -> Option<Command> {
    let paths = if discarded { Vec::new() } else { vec!["a.rs".into()] };
    Some(Command::BringHome { task: SessionId::new(task), paths, onto: String::new(), discarded })
}

fn scenarios() -> Vec<Scenario> {
    let mut all = worktrees();
    all.extend(worktrees_gone_on_with());
    all.extend(forks());
    all.extend(beside());
    all.extend(yielding());
    all
}

/// CC-218, CC-222, CC-223: folders that hold nothing, that hold something, and one that cannot be removed.
fn worktrees() -> Vec<Scenario> {
    use Say::{Calls, Done};
    let stop = |session: &Session| interrupt(session, Hold::StoppedByUser, |session| !session.tasks().is_empty());
    vec![
        plain("a clean folder is removed", &[Calls(&[("alone", "clean")]), Done], vec![go()]),
        plain("a folder with work in it stays", &[Calls(&[("alone", "dirty"), ("touch", "1")]), Done], vec![go()]),
        plain("a folder that cannot be removed is told of", &[Calls(&[("alone", "stuck")]), Calls(&[("touch", "1")]), Done], vec![go()]),
        Scenario {
            ends_after: ("replied", 2),
            ..plain(
                "folders of all kinds in the background",
                &[Calls(&[("apart", "clean"), ("apart", "dirty"), ("apart", "stuck")]), Done, Done, Done, Done],
                vec![go(), tell(("ended", 1), |_| user("two"))],
            )
        },
        plain(
            "the user brings work home while its parent works, and throws other work away",
            &[Calls(&[("alone", "dirty")]), Calls(&[("touch", "1")]), Done, Done],
            vec![
                go(),
                tell(("worktree_left", 1), |session| home(session, "ses_5", false)),
                tell(("ended", 1), |session| home(session, "ses_6", true)),
                tell(("brought_home", 2), |_| user("two")),
            ],
        ),
        Scenario {
            ends_after: ("interrupted", 1),
            ..plain("who is stopped leaves a clean folder", &[Calls(&[("alone", "clean")])], vec![go(), tell(("task_started", 1), stop)])
        },
        Scenario {
            ends_after: ("interrupted", 1),
            ..plain(
                "Esc while a folder is to be removed",
                &[Calls(&[("alone", "clean"), ("touch", "1")]), Done],
                vec![
                    go(),
                    tell(("worktree_left", 1), |session| interrupt(session, Hold::Esc, |session| session.step().is_some())),
                    tell(("interrupted", 1), |session| session.hold().map(|_| Command::Resume { by: posse_session::By::User })),
                ],
            )
        },
    ]
}

/// CC-222, CC-223: tasks that are gone on with, before, while and after their folders are removed.
fn worktrees_gone_on_with() -> Vec<Scenario> {
    use Say::{Calls, Done};
    let late = |name, script, letters| Scenario { ends_after: ("replied", 2), ..plain(name, script, letters) };
    vec![
        // The letter is taken in before the report of the removal that is under way.
        late(
            "a task goes on while its folder is removed",
            &[Calls(&[("apart", "clean")]), Done, Done, Done],
            vec![go(), tell(("worktree_left", 1), |_| wake_last())],
        ),
        late(
            "a task goes on after its folder was removed",
            &[Calls(&[("apart", "clean")]), Done, Done, Done],
            vec![go(), tell(("released", 1), |_| wake_last())],
        ),
        late(
            "a task goes on and leaves work the second time",
            &[Calls(&[("apart", "later")]), Done, Done, Done],
            vec![go(), tell(("released", 1), |_| wake_last())],
        ),
        late(
            "a task goes on while its folder is removed, and leaves work",
            &[Calls(&[("apart", "later")]), Done, Done, Done],
            vec![go(), tell(("worktree_left", 1), |_| wake_last())],
        ),
        late(
            "a task goes on in a folder that could not be removed",
            &[Calls(&[("apart", "stuck")]), Done, Done, Done],
            vec![go(), tell(("released", 1), |_| wake_last())],
        ),
        late(
            "a message wakes a task with work in its folder",
            &[Calls(&[("apart", "dirty")]), Done, Calls(&[("message", "1")]), Done, Done],
            vec![go()],
        ),
    ]
}

/// CC-002, CC-192, CC-197: workers that are split off from a reply.
fn forks() -> Vec<Scenario> {
    use Say::{Calls, Done};
    vec![
        Scenario {
            ends_after: ("replied", 2),
            ..plain(
                "three forks of one reply",
                &[Calls(&[("fork", "1"), ("touch", "2"), ("fork", "3"), ("fork", "4")]), Done, Done, Done],
                vec![go()],
            )
        },
        Scenario {
            full_at: Some(1),
            ends_after: ("replied", 3),
            ..plain(
                "a fork of a conversation that was summed up",
                &[Calls(&[("touch", "1")]), Calls(&[("fork", "2"), ("read", "3")]), Done, Done],
                vec![go()],
            )
        },
        Scenario {
            ends_after: ("replied", 2),
            ..plain(
                "a fork goes on after its end",
                &[Calls(&[("fork", "1")]), Done, Done, Done],
                vec![go(), tell(("ended", 1), |_| wake_last())],
            )
        },
    ]
}

/// CC-209, CC-212..214, CC-216: work beside the conversation, at work and at rest.
fn beside() -> Vec<Scenario> {
    use Say::{Calls, Done};
    const TURN: &[Say] = &[Calls(&[("touch", "1")]), Done];
    let at_rest = |name, letters: Vec<Letter>| plain(name, TURN, std::iter::once(go()).chain(letters).collect());
    vec![
        at_rest("a suggestion at rest", vec![tell(("ended", 1), |session| advise(session, "ses_s", Purpose::Suggest))]),
        at_rest(
            "a suggestion, then what would come of it",
            vec![
                tell(("ended", 1), |session| advise(session, "ses_s", Purpose::Suggest)),
                tell(("advised", 1), |session| advise(session, "ses_t", Purpose::Speculate)),
            ],
        ),
        at_rest(
            "notes are taken and put in order at rest",
            vec![
                tell(("ended", 1), |session| advise(session, "ses_r", Purpose::Remember)),
                tell(("ended", 1), |session| advise(session, "ses_c", Purpose::Consolidate)),
                // A second one of a kind waits for no turn: it is not begun.
                tell(("ended", 1), |session| advise(session, "ses_r2", Purpose::Remember)),
            ],
        ),
        at_rest(
            "two questions at the side in a turn",
            vec![
                tell(("replied", 1), |session| advise(session, "ses_q1", Purpose::Side)),
                tell(("replied", 1), |session| advise(session, "ses_q2", Purpose::Side)),
            ],
        ),
        Scenario {
            ends_after: ("replied", 3),
            ..plain(
                "words come while a suggestion is made",
                &[Calls(&[("touch", "1")]), Done, Done],
                vec![
                    go(),
                    tell(("ended", 1), |session| advise(session, "ses_s", Purpose::Suggest)),
                    tell(("task_started", 1), |_| user("two")),
                ],
            )
        },
        Scenario {
            ends_after: ("interrupted", 1),
            ..plain(
                "a user stops all of it, the work beside it too",
                TURN,
                vec![
                    go(),
                    tell(("ended", 1), |session| advise(session, "ses_r", Purpose::Remember)),
                    tell(("ended", 1), |session| advise(session, "ses_q", Purpose::Side)),
                    tell(("task_started", 2), |session| interrupt(session, Hold::StoppedByUser, |session| !session.tasks().is_empty())),
                ],
            )
        },
    ]
}

/// CC-215: what is told of work at hand ends with it.
fn yielding() -> Vec<Scenario> {
    use Say::{Calls, Done};
    let summarise = |session: &Session| advise(session, "ses_now", Purpose::Summarise);
    vec![
        Scenario {
            ends_after: ("ended", 1),
            ..plain(
                "a round ends before it is said what goes on in it",
                &[Calls(&[("touch", "1")]), Done],
                vec![go(), tell(("replied", 1), summarise)],
            )
        },
        plain(
            "it is said twice what goes on",
            &[Calls(&[("touch", "1")]), Calls(&[("read", "2")]), Calls(&[("touch", "3")]), Done],
            vec![go(), tell(("replied", 1), summarise), tell(("advised", 1), |session| advise(session, "ses_again", Purpose::Summarise))],
        ),
        Scenario {
            ends_after: ("ended", 1),
            ..plain(
                "a round waits for its task and for nobody who only tells of it",
                &[Calls(&[("apart", "clean")]), Done, Done],
                vec![go(), tell(("replied", 2), summarise)],
            )
        },
        plain("nothing goes on, and somebody tells of it", &[Done], vec![go(), tell(("ended", 1), summarise)]),
    ]
}

crashing::every_story_ends_well!(scenarios);

/// The stories tell what they are called: without that the simulation would have gone blind.
#[test]
fn the_stories_are_the_ones_they_say() {
    let told = |name: &str| {
        let scenario = scenarios().into_iter().find(|scenario| scenario.name == name).expect(name);
        let world = run(&scenario, &[], name);
        let folder = world.folders.values().next().map(|folder| (folder.tries, folder.is_there));
        (world.count("worktree_left"), world.count("released"), folder)
    };
    assert_eq!(told("a clean folder is removed"), (1, 1, Some((1, false))));
    assert_eq!(told("a folder with work in it stays"), (1, 0, Some((0, true))));
    assert_eq!(told("a folder that cannot be removed is told of"), (1, 1, Some((1, true))), "and it is not tried again");
    // It was removed under its feet, made again, and removed when it had ended again: the first removal is no fact.
    assert_eq!(told("a task goes on while its folder is removed"), (2, 1, Some((2, false))));
    assert_eq!(told("a task goes on after its folder was removed"), (2, 2, Some((2, false))));
    assert_eq!(told("a task goes on and leaves work the second time"), (2, 1, Some((1, true))));
    assert_eq!(told("a task goes on while its folder is removed, and leaves work"), (2, 0, Some((1, true))));
    assert_eq!(told("a task goes on in a folder that could not be removed"), (2, 2, Some((2, true))));
}

/// CC-209: no round is opened for it, whatever the kind; and when it is over, nothing is open any more.
#[test]
fn work_beside_a_conversation_at_rest_is_no_round() {
    for scenario in
        [beside(), yielding()].into_iter().flatten().filter(|scenario| scenario.letters.iter().all(|letter| letter.when.0 != "replied"))
    {
        let world = run(&scenario, &[], scenario.name);
        let words = world.log.iter().filter(|record| matches!(record.event, Event::Queued { .. })).count();
        assert_eq!(world.count("ended"), words, "{}: one end for each time that somebody spoke", scenario.name);
    }
}

#[test]
fn every_kind_of_work_beside_the_conversation_is_in_a_story() {
    let mut seen = Vec::new();
    for scenario in scenarios() {
        for record in run(&scenario, &[], scenario.name).log {
            if let Event::TaskStarted { spawn, .. } = record.event {
                seen.extend(spawn.purpose);
            }
        }
    }
    assert!(BESIDE.iter().all(|purpose| seen.contains(purpose)), "{seen:?}");
}
