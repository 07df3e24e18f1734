//! Many sessions in one process: what those cost that only wait to be spoken to.

#![allow(clippy::unwrap_used)]

mod office;

use std::sync::Arc;

use office::{Office, say, settled};
use posse_engine::{Handle, Outfit, Outfits};
use posse_session::{
    Birth, BoxFuture, Finish, Head, Live, Message, Model, ModelError, ModelFacts, Recipe, Reply, ReplyPart, Request, SessionId, Usage,
};

/// `POSSE_IDLE=10000` measures what docs/reliability.md tells.
const SESSIONS: usize = 300;

/// What one of them may have: 200 MB for ten thousand.
const BYTES_MAX: u64 = 20_000;

/// Answers, and remembers nothing of it: what the model of other tests keeps is not the sessions'.
struct Forgetful(Arc<dyn Model>);

impl Model for Forgetful {
    fn facts(&self) -> &ModelFacts {
        self.0.facts()
    }

    fn encode_head(&self, head: &Head) -> Arc<[u8]> {
        self.0.encode_head(head)
    }

    fn encode(&self, message: &Message) -> Arc<[u8]> {
        self.0.encode(message)
    }

    fn reply<'a>(&'a self, _: Request, _: &'a dyn Live) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let parts = vec![ReplyPart::Text("an answer".into())];
        Box::pin(async move { Ok(Reply { parts, usage: Usage::default(), finish: Finish::Stop }) })
    }
}

struct Everybody(Outfit);

impl Outfits for Everybody {
    fn recipe(&self, parent: &Recipe, agent: &str, _: Option<&str>) -> Result<Recipe, String> {
        Ok(Recipe { agent: agent.into(), ..parent.clone() })
    }

    fn outfit(&self, _: &SessionId, _: &Birth) -> Result<Outfit, String> {
        Ok(self.0.clone())
    }
}

/// Memory that this process has in use.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A session that is at rest is let go of, and can be spoken to again: what stays is its log.
#[tokio::test]
async fn sessions_that_are_at_rest_cost_next_to_nothing() {
    let count = std::env::var("POSSE_IDLE").ok().and_then(|count| count.parse().ok()).unwrap_or(SESSIONS);
    let folder = tempfile::tempdir().unwrap();
    let store = posse_store::Sqlite::open(folder.path()).unwrap();
    let mut office = Office::new([say("never")]);
    let mut outfit = office.outfit();
    outfit.model = Arc::new(Forgetful(outfit.model));
    let outfits: Arc<dyn Outfits> = Arc::new(Everybody(outfit));
    let hub = office.hub_on(store.clone());
    let talk = async |office: &mut Office, number: usize| {
        office.session = SessionId::new(format!("ses_{number:026}"));
        let handle: Handle =
            hub.create(office.session.clone(), office.created(), office.entry("hello"), outfits.clone(), office.limits).await.unwrap();
        settled(&handle).await;
        assert!(handle.finish().await);
        handle.close().await;
    };
    // What every process needs once is not theirs.
    for number in 0..50 {
        talk(&mut office, number).await;
    }
    let before = resident();
    for number in 50..50 + count {
        talk(&mut office, number).await;
    }
    let each = resident().saturating_sub(before) / count as u64;
    println!("{count} sessions at rest: {each} bytes each");
    assert!(each < BYTES_MAX, "{each} bytes each");
}
