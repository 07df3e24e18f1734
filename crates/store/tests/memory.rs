//! What only the memory store can do: fail on demand, and be as a crash would have left it.

mod support;

use posse_session::{AppendError, Inbox, Lease, LetterId, Log};
use posse_store::{Fault, Memory};

use support::{Owner, created, draft, events_of, id, letter, queued};

#[tokio::test]
async fn it_fails_when_told_and_as_told() {
    let store = Memory::failing_after(1);
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    let append = owner.draft(vec![queued("two")]);
    assert!(matches!(store.append(append.clone()).await, Err(AppendError::Unavailable(_))));
    store.set_fault(Fault::Moved { after: 0 });
    assert!(matches!(store.append(append.clone()).await, Err(AppendError::Moved { head: 1 })));
    assert_eq!(events_of(&store, "ses_a").await.len(), 1);

    store.set_fault(Fault::LostAnswer { after: 1 });
    assert!(matches!(store.append(append.clone()).await, Err(AppendError::Unavailable(_))));
    assert_eq!(events_of(&store, "ses_a").await.len(), 2);
    store.set_fault(Fault::None);
    assert_eq!(owner.send(append).await.unwrap(), 2, "its own batch is at the tail");
    assert_eq!((store.appends(), store.events()), (2, 2));
}

#[tokio::test]
async fn a_copy_is_what_a_crash_would_have_left() {
    let store = Memory::new();
    let mut owner = Owner::of(&store, "ses_a").await;
    owner.append(vec![created("ses_a")]).await;
    store.post(letter(1, "ses_a")).await.unwrap();
    let child = draft(&id("ses_child"), &id("ses_a"), 1, 0, vec![created("ses_a"), queued("for the child")]);
    store.append(child).await.unwrap();
    let mut append = owner.draft(vec![queued("letter 1"), queued("and more")]);
    append.letters.push(LetterId::new("msg_1"));
    owner.send(append).await.unwrap();

    let mut left = Vec::new();
    for events in 0..=store.events() {
        let copy = store.copy_up_to(events);
        left.push((
            events_of(&copy, "ses_a").await.len(),
            events_of(&copy, "ses_child").await.len(),
            copy.waits(&LetterId::new("msg_1")).await.unwrap(),
        ));
    }
    assert_eq!(left, [(0, 0, false), (1, 0, true), (1, 1, true), (1, 2, true), (2, 2, true), (3, 2, false)]);

    // The copy is its own: free to be taken, and deaf to what the first one does.
    let copy = store.copy();
    assert_eq!(copy.take(&id("ses_a")).await.unwrap().epoch, 2);
    owner.append(vec![queued("only here")]).await;
    assert_eq!(events_of(&copy, "ses_a").await.len(), 3);
    assert_eq!(copy.summaries(None).await.unwrap().len(), 2);
}
