//! The hook seam, with hooks in this process: what each may see and change, and what is recorded of it.

#![allow(clippy::unwrap_used)]

mod office;

use std::sync::{Arc, Mutex};

use office::{Office, call, say};
use posse_session::{
    Before, BoxFuture, Entry, Event, Hook, HookedCall, Look, Message, Outcome, Part, Record, SessionId, Tool, ToolCall, ToolContext,
    ToolSpec, Workspace,
};
use serde_json::{Value, json};

#[derive(Default)]
struct Nosy {
    events: Mutex<Vec<String>>,
    seen: Mutex<Vec<usize>>,
    after: Mutex<Vec<String>>,
}

impl Hook for Nosy {
    fn name(&self) -> &str {
        "nosy"
    }

    fn looks(&self) -> bool {
        true
    }

    fn event(&self, _: &SessionId, record: &Record) {
        self.events.lock().unwrap().push(record.event.name());
    }

    fn message<'a>(&'a self, _: &'a SessionId, entry: &'a mut Entry) -> BoxFuture<'a, ()> {
        Box::pin(async { entry.parts.push(Part::reminder("be kind")) })
    }

    fn before_call<'a>(&'a self, call: &'a HookedCall) -> BoxFuture<'a, Before> {
        Box::pin(async {
            match call.input["what"].as_str() {
                Some("change me") => Before::Amend(json!({"what": "changed"})),
                Some("refuse me") => Before::Refuse("not today".into()),
                _ => Before::Go,
            }
        })
    }

    fn after_call<'a>(&'a self, call: &'a HookedCall, outcome: Outcome) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.after.lock().unwrap().push(format!("{} {}", call.tool, outcome.word()));
            match outcome {
                Outcome::Done { output, .. } => Outcome::done(format!("{} (seen)", output.inline().unwrap())),
                other => other,
            }
        })
    }

    fn transform<'a>(&'a self, _: &'a SessionId, seen: &'a [Arc<Message>]) -> BoxFuture<'a, Vec<Part>> {
        Box::pin(async move {
            self.seen.lock().unwrap().push(seen.len());
            if seen.is_empty() { vec![Part::reminder("first step")] } else { Vec::new() }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_sees_everything_and_what_it_changes_is_recorded() {
    let mut office = Office::new([call("touch", "change me"), call("touch", "refuse me"), call("crash", "x"), say("ok")]);
    let nosy = Arc::new(Nosy::default());
    office.hooks = vec![nosy.clone()];
    office.run("go").await;
    let shown = office.shown();
    assert_eq!(
        shown[..3],
        ["user: go", "user: <system-reminder>\nbe kind\n</system-reminder>", "user: <system-reminder>\nfirst step\n</system-reminder>"]
    );
    assert_eq!(shown[3..5], ["agent: touch({\"what\":\"changed\"})", "user: = touch changed ok (seen)"]);
    assert_eq!(shown[6], "user: error not today");
    assert_eq!(*nosy.after.lock().unwrap(), ["touch done", "crash failed"], "also after a failure, not after a refusal");
    assert_eq!(*nosy.seen.lock().unwrap(), [0, 1, 3, 5]);
    let looked = office.records().await.iter().any(|record| matches!(&record.event, Event::Looked { by, .. } if by == "nosy"));
    assert!(looked);
    let names = office.names().await;
    assert_eq!(*nosy.events.lock().unwrap(), names);
}

#[tokio::test(start_paused = true)]
async fn the_verdict_is_on_the_amended_input() {
    let mut office = Office::new([call("touch", "change me"), say("ok")]);
    office.hooks = vec![Arc::new(Nosy::default())];
    office.rules = json!({"*": "allow", "touch": {"*": "allow", "changed": "deny"}});
    office.run("go").await;
    assert!(office.shown().last().unwrap().contains("Denied by the rule touch(changed)"), "{:?}", office.shown());
    assert!(office.witness.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_hook_added_is_there_after_a_restart_and_the_request_is_the_same() {
    let mut office = Office::new([call("touch", "a"), say("one"), say("two")]);
    office.hooks = vec![Arc::new(Nosy::default())];
    office.run("go").await;
    let before = office.shown();
    office.hooks = Vec::new();
    let handle = office.open(vec![posse_session::Command::Say(office.entry("again"))]).await;
    office::settled(&handle).await;
    assert_eq!(office.shown()[..before.len()], before[..]);
}

struct Slow;

impl Hook for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn looks(&self) -> bool {
        true
    }

    fn before_call<'a>(&'a self, _: &'a HookedCall) -> BoxFuture<'a, Before> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_hangs_is_passed_over() {
    let mut office = Office::new([call("touch", "a"), say("ok")]);
    office.hooks = vec![Arc::new(Slow)];
    office.run("go").await;
    assert_eq!(office.shown().last().unwrap(), "user: = touch a ok");
}

struct Bringer(ToolSpec);

impl Tool for Bringer {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn look(&self, _: &Value, _: &dyn Workspace) -> Result<Look, String> {
        Ok(Look::default())
    }

    fn run<'a>(&'a self, _: &'a ToolCall, _: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Outcome::done("brought") })
    }
}

impl Hook for Bringer {
    fn name(&self) -> &str {
        "bringer"
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        vec![Arc::new(Bringer(self.0.clone()))]
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_brings_a_tool_the_model_can_use() {
    let mut office = Office::new([call("fetch", "x"), say("ok")]);
    office.hooks =
        vec![Arc::new(Bringer(ToolSpec { name: "fetch".into(), description: "fetches".into(), schema: json!({"type": "object"}) }))];
    office.run("go").await;
    assert_eq!(office.shown().last().unwrap(), "user: = brought");
    assert!(office.model.seen()[0].head.tools.iter().any(|spec| spec.name == "fetch"));
}
