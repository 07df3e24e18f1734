//! What every store promises. One suite, run on each of them: a new store is one more module at the end.

#![allow(clippy::unwrap_used, reason = "a promise that is not kept should panic")]

mod support;

use std::time::Duration;

use posse_session::{
    Answer, AppendError, AskId, BatchId, By, CallId, Decision, EVENT_BYTES_MAX, Event, Grant, LeaseError, LetterId, Posted, ReadError,
    Record, SavedFold, Scope, SessionId, Summary, Touch, Verdict,
};
use posse_store::{Memory, Sqlite};
use serde_json::json;
use tokio::time::timeout;

use support::{Owner, Store, blob, created, draft, events_of, id, letter, queued, read_all, step, step_started};

/// Longer than any poll, shorter than a patient reader.
const SOON: Duration = Duration::from_secs(5);

async fn what_is_appended_is_read_back_in_pages(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    assert_eq!(owner.append(vec![created("ses_a"), queued("one")]).await, 2);
    assert_eq!(owner.append(vec![queued("two")]).await, 3);
    assert_eq!(owner.append((0..7).map(|number| queued(format!("more {number}"))).collect()).await, 10);

    let whole = read_all(store, "ses_a").await;
    assert_eq!(whole.iter().map(|record| record.seq).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    assert_eq!(whole[0].event, created("ses_a"));
    assert_eq!(whole[2].event, queued("two"));
    assert_eq!(whole[0].batch, whole[1].batch);
    assert_ne!(whole[1].batch, whole[2].batch);

    let mut paged: Vec<Record> = Vec::new();
    loop {
        let page = store.read(&owner.session, paged.len() as u64, 3).await.unwrap();
        assert!(page.len() <= 3);
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, whole);
    assert_eq!(store.read(&owner.session, 10, 3).await.unwrap(), []);
    assert_eq!(store.read(&owner.session, u64::MAX, 3).await.unwrap(), []);
    assert_eq!(store.read(&id("ses_nobody"), 0, 3).await.unwrap(), []);
}

async fn sessions_do_not_see_each_other(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a"), queued("a")]).await;
    owner.switch_to("ses_child").await;
    owner.append(vec![created("ses_a"), queued("child")]).await;
    owner.switch_to("ses_a").await;
    assert_eq!(owner.append(vec![queued("a again")]).await, 3);
    assert_eq!(events_of(store, "ses_a").await, [created("ses_a"), queued("a"), queued("a again")]);
    assert_eq!(events_of(store, "ses_child").await, [created("ses_a"), queued("child")]);
}

async fn an_append_behind_the_head_is_refused(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    let stale = owner.draft(vec![queued("too late")]);
    owner.append(vec![created("ses_a")]).await;
    assert!(matches!(store.append(stale).await, Err(AppendError::Moved { head: 1 })));
    let early = draft(&owner.session, &owner.owned.root, owner.owned.epoch, 5, vec![queued("too early")]);
    assert!(matches!(store.append(early).await, Err(AppendError::Moved { head: 1 })));
    assert_eq!(events_of(store, "ses_a").await, [created("ses_a")]);
    assert_eq!(owner.append(vec![queued("in time")]).await, 2);
}

async fn an_old_owner_is_refused(store: &dyn Store) {
    let mut old = Owner::of(store, "ses_a").await;
    old.append(vec![created("ses_a")]).await;
    let late = old.draft(vec![queued("from the past")]);
    drop(old);
    let mut new = Owner::of(store, "ses_a").await;
    assert!(matches!(store.append(late).await, Err(AppendError::Moved { head: 1 })));
    assert_eq!(new.append(vec![queued("from the new one")]).await, 2);
    assert_eq!(events_of(store, "ses_a").await, [created("ses_a"), queued("from the new one")]);
}

async fn nobody_appends_without_owning(store: &dyn Store) {
    let append = draft(&id("ses_a"), &id("ses_a"), 0, 0, vec![created("ses_a")]);
    assert!(matches!(store.append(append).await, Err(AppendError::Moved { head: 0 })));
    assert_eq!(read_all(store, "ses_a").await, []);
}

async fn a_session_stays_in_its_tree(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    let other = Owner::of(store, "ses_b").await;
    let stolen = draft(&id("ses_a"), &other.owned.root, other.owned.epoch, 1, vec![queued("mine now")]);
    assert!(matches!(store.append(stolen).await, Err(AppendError::Unavailable(words)) if words.contains("ses_b")));
}

async fn the_same_batch_again_is_success(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    let append = owner.draft(vec![created("ses_a"), queued("once")]);
    assert_eq!(owner.send(append.clone()).await.unwrap(), 2);
    assert_eq!(store.append(append.clone()).await.unwrap(), 2);
    assert_eq!(events_of(store, "ses_a").await, [created("ses_a"), queued("once")]);
    // Only at the tail: once the log went on, the writer must look.
    owner.append(vec![queued("next")]).await;
    assert!(matches!(store.append(append).await, Err(AppendError::Moved { head: 3 })));
}

async fn a_batch_fails_as_a_whole(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    store.post(letter(1, "ses_a")).await.unwrap();
    let (text, kept) = blob(b"a blob that must not stay");
    let mut append = owner.draft(vec![queued(text), queued("x".repeat(EVENT_BYTES_MAX))]);
    append.blobs.push(kept.clone());
    append.letters.push(LetterId::new("msg_1"));
    let refused = store.append(append).await;
    assert!(matches!(&refused, Err(AppendError::Unavailable(words)) if words.contains("event 3 (queued) of ses_a")), "{refused:?}");
    assert_eq!(events_of(store, "ses_a").await, [created("ses_a")]);
    assert!(matches!(store.blob(&kept.0).await, Err(ReadError::Missing)));
    assert!(store.waits(&LetterId::new("msg_1")).await.unwrap());
    assert_eq!(store.summaries(None).await.unwrap()[0].head, 1);
    assert_eq!(owner.append(vec![queued("fine")]).await, 2);
}

async fn a_blob_is_there_with_its_event(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    let (text, kept) = blob(&vec![7; 300_000]);
    let mut append = owner.draft(vec![created("ses_a"), queued(text.clone())]);
    append.blobs.push(kept.clone());
    owner.send(append).await.unwrap();
    assert_eq!(store.blob(&kept.0).await.unwrap(), kept.1);
    assert_eq!(events_of(store, "ses_a").await[1], queued(text.clone()));
    // Bringing a known blob again changes nothing.
    let mut again = owner.draft(vec![queued(text)]);
    again.blobs.push(kept.clone());
    owner.send(again).await.unwrap();
    assert_eq!(store.blob(&kept.0).await.unwrap(), kept.1);
}

async fn an_append_takes_its_letters_in(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    for number in 1..=3 {
        store.post(letter(number, "ses_a")).await.unwrap();
    }
    store.post(letter(9, "ses_b")).await.unwrap();
    let mut append = owner.draft(vec![queued("letters 1 and 2")]);
    append.letters = vec![LetterId::new("msg_1"), LetterId::new("msg_2")];
    owner.send(append).await.unwrap();
    assert!(!store.waits(&LetterId::new("msg_1")).await.unwrap());
    assert_eq!(store.waiting(&id("ses_a")).await.unwrap(), [letter(3, "ses_a")]);
    assert_eq!(store.waiting(&id("ses_b")).await.unwrap(), [letter(9, "ses_b")]);
    // A letter that changes nothing is taken in without a fact.
    let mut append = owner.draft(Vec::new());
    append.letters = vec![LetterId::new("msg_3")];
    assert_eq!(owner.send(append).await.unwrap(), 2);
    assert_eq!(store.waiting(&id("ses_a")).await.unwrap(), []);
}

async fn a_letter_posted_twice_lies_there_once(store: &dyn Store) {
    store.post(letter(2, "ses_a")).await.unwrap();
    store.post(letter(1, "ses_a")).await.unwrap();
    store.post(Posted { to: id("ses_other"), ..letter(2, "ses_a") }).await.unwrap();
    assert_eq!(store.waiting(&id("ses_a")).await.unwrap(), [letter(2, "ses_a"), letter(1, "ses_a")]);
    assert!(store.waits(&LetterId::new("msg_2")).await.unwrap());
    assert!(!store.waits(&LetterId::new("msg_3")).await.unwrap());
}

async fn a_tree_has_one_owner_at_a_time(store: &dyn Store) {
    let first = store.take(&id("ses_a")).await.unwrap();
    assert!(matches!(store.take(&id("ses_a")).await, Err(LeaseError::Held { by: Some(pid) }) if pid == std::process::id()));
    let other = store.take(&id("ses_b")).await.unwrap();
    assert_eq!((first.epoch, other.epoch), (1, 1));
    drop(first);
    let second = store.take(&id("ses_a")).await.unwrap();
    assert_eq!((second.root.as_str(), second.epoch), ("ses_a", 2));
}

async fn a_follower_wakes_when_the_log_grows(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    let session = id("ses_a");
    timeout(SOON, store.changed(&session, 0)).await.expect("it has grown already");
    let mut follower = store.changed(&session, 1);
    assert!(timeout(Duration::from_millis(120), &mut follower).await.is_err(), "nothing has happened yet");
    // Another session's news are not this one's.
    owner.switch_to("ses_child").await;
    owner.append(vec![created("ses_a")]).await;
    assert!(timeout(Duration::from_millis(120), &mut follower).await.is_err(), "another session has grown");
    owner.switch_to("ses_a").await;
    owner.append(vec![queued("news")]).await;
    timeout(SOON, follower).await.expect("it has grown");
}

async fn a_letter_rings(store: &dyn Store) {
    assert!(timeout(Duration::from_millis(120), store.rung()).await.is_err(), "an empty inbox is quiet");
    // Posted while nobody listens: the next one to listen hears it.
    store.post(letter(1, "ses_a")).await.unwrap();
    timeout(SOON, store.rung()).await.expect("a letter came");
    let (_, rung) = tokio::join!(store.post(letter(2, "ses_a")), timeout(SOON, store.rung()));
    rung.expect("another letter came");
}

async fn lists_are_newest_first(store: &dyn Store) {
    for root in ["ses_a", "ses_b"] {
        let mut owner = Owner::of(store, root).await;
        owner.append(vec![created(root), queued("hello")]).await;
    }
    let mut owner = Owner::of(store, "ses_a").await;
    let [asked, done] = step(1, "the output");
    owner.append(asked).await;
    let head = owner.append(done).await;
    owner.switch_to("ses_child").await;
    owner.append(vec![created("ses_a")]).await;

    let listed = store.summaries(None).await.unwrap();
    assert_eq!(names(&listed), ["ses_child", "ses_a", "ses_b"]);
    assert_eq!(names(&store.summaries(Some(&id("ses_a"))).await.unwrap()), ["ses_child", "ses_a"]);
    assert_eq!(store.summaries(Some(&id("ses_nobody"))).await.unwrap(), []);
    let a = &listed[1];
    assert_eq!((a.title.as_str(), a.calls, a.head, a.last_reply), ("about ses_a", 1, head, Some(5)));
    let mut folded = Summary::new(id("ses_a"));
    read_all(store, "ses_a").await.iter().for_each(|record| folded.apply(record));
    assert_eq!(*a, folded);
}

async fn asks_and_lasting_answers_are_found_quickly(store: &dyn Store) {
    for root in ["ses_a", "ses_b"] {
        let mut owner = Owner::of(store, root).await;
        owner.append(vec![created(root), queued("is \"asks\":[ in here?")]).await;
    }
    assert_eq!(store.with_asks().await.unwrap(), []);
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![asked("ask_1")]).await;
    let [found] = &store.with_asks().await.unwrap()[..] else { panic!("one session has an ask") };
    assert_eq!((found.session.as_str(), found.asks[0].ask.as_str(), found.granted.len()), ("ses_a", "ask_1", 0));
    owner.append(vec![answered("ask_1")]).await;
    let [found] = &store.with_asks().await.unwrap()[..] else { panic!("one session has a lasting answer") };
    assert_eq!((found.asks.len(), found.granted[0].grant.to_string().as_str(), found.granted[0].scope), (0, "edit(*)", Scope::Project));
    owner.append(vec![Event::Revoked { ask: AskId::new("ask_1"), by: By::User }]).await;
    assert_eq!(store.with_asks().await.unwrap(), []);
}

fn asked(ask: &str) -> Event {
    let offers = vec![Grant { key: "edit".into(), pattern: "*".into(), exact: false }];
    let decision = Decision { offers, ..Decision::of(Verdict::Ask, Some(Touch::new("edit", "a.rs"))) };
    Event::Asked { ask: AskId::new(ask), call: CallId::new("call_1"), decision }
}

fn answered(ask: &str) -> Event {
    Event::Answered { ask: AskId::new(ask), call: CallId::new("call_1"), answer: Answer::Yes { scope: Scope::Project }, by: By::User }
}

fn names(summaries: &[Summary]) -> Vec<&str> {
    summaries.iter().map(|summary| summary.session.as_str()).collect()
}

async fn removing_a_tree_keeps_what_others_use(store: &dyn Store) {
    let (shared_text, shared) = blob(b"used by both");
    let (own_text, own) = blob(b"used by one");
    let mut gone = Owner::of(store, "ses_a").await;
    let mut append = gone.draft(vec![created("ses_a"), queued(shared_text.clone()), queued(own_text)]);
    append.blobs = vec![shared.clone(), own.clone()];
    gone.send(append).await.unwrap();
    gone.switch_to("ses_child").await;
    gone.append(vec![created("ses_a")]).await;
    store.post(letter(1, "ses_a")).await.unwrap();
    let mut stays = Owner::of(store, "ses_b").await;
    // The other session only names the blob: it was stored by the first.
    stays.append(vec![created("ses_b"), queued(shared_text)]).await;
    store.post(letter(2, "ses_b")).await.unwrap();

    assert_eq!(store.remove(&gone.owned).await.unwrap(), 2);
    assert_eq!(read_all(store, "ses_a").await, []);
    assert_eq!(read_all(store, "ses_child").await, []);
    assert_eq!(store.waiting(&id("ses_a")).await.unwrap(), []);
    assert!(matches!(store.blob(&own.0).await, Err(ReadError::Missing)));
    assert_eq!(store.blob(&shared.0).await.unwrap(), shared.1);
    assert_eq!(names(&store.summaries(None).await.unwrap()), ["ses_b"]);
    assert_eq!(store.waiting(&id("ses_b")).await.unwrap(), [letter(2, "ses_b")]);
    assert_eq!(stays.append(vec![queued("still here")]).await, 3);

    // The name can be used again, by a later owner only.
    let old = gone.draft(vec![created("ses_a")]);
    drop(gone);
    let mut again = Owner::of(store, "ses_a").await;
    assert_eq!(again.owned.epoch, 2);
    assert!(matches!(store.append(old).await, Err(AppendError::Moved { head: 0 })));
    assert_eq!(again.append(vec![created("ses_a")]).await, 1);
}

async fn what_a_fork_shows_is_not_removed(store: &dyn Store) {
    let (text, kept) = blob(b"a long text that the fork shows too");
    let mut shown = Owner::of(store, "ses_a").await;
    let mut append = shown.draft(vec![created("ses_a"), queued(text)]);
    append.blobs.push(kept.clone());
    shown.send(append).await.unwrap();
    // A fork of the same tree goes with it and is in nobody's way.
    shown.switch_to("ses_a_fork").await;
    shown.append(vec![created("ses_a"), forked(&["ses_a"])]).await;
    let mut fork = Owner::of(store, "ses_b").await;
    fork.append(vec![created("ses_b"), forked(&["ses_a", "ses_gone"]), queued("and on")]).await;
    let mut fork_of_fork = Owner::of(store, "ses_c").await;
    fork_of_fork.append(vec![created("ses_c"), forked(&["ses_a", "ses_b"])]).await;

    let refused = store.remove(&shown.owned).await;
    assert!(
        matches!(&refused, Err(AppendError::Unavailable(words)) if words.contains("ses_b, ses_c") && words.contains("ses_a")),
        "{refused:?}"
    );
    assert_eq!(read_all(store, "ses_a").await.len(), 2);
    assert_eq!(store.blob(&kept.0).await.unwrap(), kept.1);
    assert!(store.remove(&fork.owned).await.is_err(), "its own fork needs it");
    assert_eq!(store.remove(&fork_of_fork.owned).await.unwrap(), 1);
    assert_eq!(store.remove(&fork.owned).await.unwrap(), 1);
    assert_eq!(store.remove(&shown.owned).await.unwrap(), 2);
    assert!(matches!(store.blob(&kept.0).await, Err(ReadError::Missing)));
}

fn forked(sessions: &[&str]) -> Event {
    let segments: Vec<_> = sessions.iter().map(|session| json!({"session": session, "from": 0, "to": 2})).collect();
    serde_json::from_value(json!({"type": "forked", "segments": segments})).unwrap()
}

async fn a_fold_is_kept_until_the_next_and_goes_with_its_session(store: &dyn Store) {
    let fold = |session: &str, seq: u64, body: &[u8]| SavedFold { session: id(session), seq, version: 7, body: body.into() };
    // Nobody knows this session: that is no error, and nothing is kept.
    store.save_fold(fold("ses_a", 1, b"too early")).await.unwrap();
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), None);
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a"), queued("one")]).await;
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), None);
    store.save_fold(fold("ses_a", 1, b"first")).await.unwrap();
    let second = SavedFold { version: 8, ..fold("ses_a", 2, &vec![7; 200_000]) };
    store.save_fold(second.clone()).await.unwrap();
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), Some(second));
    assert_eq!(store.saved_fold(&id("ses_b")).await.unwrap(), None);
    // It is beside the log, not in it.
    assert_eq!(owner.append(vec![queued("two")]).await, 3);
    store.remove(&owner.owned).await.unwrap();
    assert_eq!(store.saved_fold(&id("ses_a")).await.unwrap(), None);
}

async fn only_the_owner_removes(store: &dyn Store) {
    let mut old = Owner::of(store, "ses_a").await;
    old.append(vec![created("ses_a")]).await;
    let mut stale = store.take(&id("ses_b")).await.unwrap();
    stale.root = id("ses_a");
    stale.epoch = 7;
    assert!(matches!(store.remove(&stale).await, Err(AppendError::Moved { .. })));
    assert_eq!(read_all(store, "ses_a").await.len(), 1);
}

async fn facts_of_a_later_version_are_kept_as_they_came(store: &dyn Store) {
    let later = json!({"type": "dreamt", "zeta": 1, "alpha": {"deep": [1, 2.5, null, "ü"]}, "ignorable": true});
    let event: Event = serde_json::from_value(later.clone()).unwrap();
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a"), event]).await;
    let read = events_of(store, "ses_a").await;
    assert_eq!(read[1], Event::Unknown(later.clone()));
    assert_eq!(serde_json::to_string(&read[1]).unwrap(), later.to_string());
}

async fn sessions_write_at_the_same_time(store: &dyn Store) {
    let write = async |root: SessionId| {
        let mut owner = Owner::of(store, root.as_str()).await;
        owner.append(vec![created(root.as_str())]).await;
        for number in 1..=10 {
            owner.append(vec![step_started(number), queued(format!("{root} {number}"))]).await;
        }
        assert_eq!(read_all(store, root.as_str()).await.len(), 21);
    };
    tokio::join!(write(id("ses_a")), write(id("ses_b")), write(id("ses_c")), write(id("ses_d")));
    assert!(store.summaries(None).await.unwrap().iter().all(|summary| summary.head == 21));
}

async fn a_loser_does_not_harm_its_neighbours(store: &dyn Store) {
    let mut winner = Owner::of(store, "ses_a").await;
    let mut loser = Owner::of(store, "ses_b").await;
    winner.append(vec![created("ses_a")]).await;
    loser.append(vec![created("ses_b")]).await;
    let late = draft(&loser.session, &loser.owned.root, loser.owned.epoch, 0, vec![queued("late")]);
    let batch = BatchId::new("evt_same");
    let good = posse_session::Append { batch, ..winner.draft(vec![queued("good")]) };
    let (lost, won) = tokio::join!(store.append(late), store.append(good));
    assert!(matches!(lost, Err(AppendError::Moved { head: 1 })));
    assert_eq!(won.unwrap(), 2);
}

async fn a_letter_can_be_taken_back_until_it_is_taken_in(store: &dyn Store) {
    let mut owner = Owner::of(store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    let (first, second) = (letter(1, "ses_a"), letter(2, "ses_a"));
    store.post(first.clone()).await.unwrap();
    store.post(second.clone()).await.unwrap();
    assert!(store.withdraw(&first.id).await.unwrap());
    assert!(!store.withdraw(&first.id).await.unwrap(), "it is gone already");
    assert_eq!(store.waiting(&owner.session).await.unwrap(), std::slice::from_ref(&second));
    let taken = posse_session::Append { letters: vec![second.id.clone()], ..owner.draft(vec![queued("taken in")]) };
    store.append(taken).await.unwrap();
    assert!(!store.withdraw(&second.id).await.unwrap(), "an append was quicker");
}

async fn looking_at_an_owner_changes_nothing(store: &dyn Store) {
    assert!(!store.is_held(&id("ses_a")).await.unwrap());
    let owned = store.take(&id("ses_a")).await.unwrap();
    let epoch = owned.epoch;
    assert!(store.is_held(&id("ses_a")).await.unwrap());
    assert!(!store.is_held(&id("ses_b")).await.unwrap());
    drop(owned);
    assert!(!store.is_held(&id("ses_a")).await.unwrap());
    assert_eq!(store.take(&id("ses_a")).await.unwrap().epoch, epoch + 1);
}

macro_rules! contract {
    ($($promise:ident)*) => {
        mod memory {
            use super::*;
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(&Memory::new()).await;
            })*
        }

        mod sqlite {
            use super::*;
            $(#[tokio::test]
            async fn $promise() {
                let folder = tempfile::tempdir().unwrap();
                super::$promise(&Sqlite::open(folder.path()).unwrap()).await;
            })*
        }
    };
}

contract! {
    what_is_appended_is_read_back_in_pages
    sessions_do_not_see_each_other
    an_append_behind_the_head_is_refused
    an_old_owner_is_refused
    nobody_appends_without_owning
    a_session_stays_in_its_tree
    the_same_batch_again_is_success
    a_batch_fails_as_a_whole
    a_blob_is_there_with_its_event
    an_append_takes_its_letters_in
    a_letter_posted_twice_lies_there_once
    a_tree_has_one_owner_at_a_time
    a_follower_wakes_when_the_log_grows
    a_letter_rings
    lists_are_newest_first
    asks_and_lasting_answers_are_found_quickly
    removing_a_tree_keeps_what_others_use
    only_the_owner_removes
    what_a_fork_shows_is_not_removed
    a_fold_is_kept_until_the_next_and_goes_with_its_session
    facts_of_a_later_version_are_kept_as_they_came
    sessions_write_at_the_same_time
    a_loser_does_not_harm_its_neighbours
    a_letter_can_be_taken_back_until_it_is_taken_in
    looking_at_an_owner_changes_nothing
}
