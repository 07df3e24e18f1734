//! Long conversations through the real binary: summed up in time, after an overflow, and when asked. CC-211.

use serde_json::{Value, json};

use crate::support::{Answer, Api, Seen, World, world::mock_config};

/// The last words of the user's side.
fn last_said(seen: &Seen) -> String {
    seen.user_texts().last().map(|text| (*text).to_owned()).unwrap_or_default()
}

const FRAME: &str = "about to be replaced by a summary";

fn is_summary(seen: &Seen) -> bool {
    last_said(seen).contains(FRAME)
}

/// A user's file whose model takes so many tokens.
fn small(api: Api, url: &str, context: u64) -> Value {
    let mut config = mock_config(api, url);
    config["provider"]["mock"]["models"]["m1"]["context"] = json!(context);
    config["provider"]["mock"]["models"]["m1"]["output"] = json!(1_000);
    config
}

/// Reads a large file again and again, until it has been told to stop by its own count.
fn reader(steps: usize) -> impl Fn(&Seen) -> Answer + Send + Sync + 'static {
    move |seen| {
        let text = seen.json.to_string();
        let done = text
            .split("round-")
            .skip(1)
            .filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<usize>().ok());
        let done = done.max().unwrap_or(0);
        let counted = seen.body.len() as u64 / 4;
        match () {
            () if is_summary(seen) => Answer::text(&format!("Summary: everything up to round-{done} is done.")).usage(counted, 20, 0, 0),
            () if done < steps => {
                let thought = format!("round-{} {}", done + 1, "and so on ".repeat(400));
                Answer::text(&thought).and_call("bash", json!({"command": format!("echo {done}")})).usage(counted, 20, 0, 0)
            }
            () => Answer::text("all rounds are done"),
        }
    }
}

/// Before the next request would not fit a summary is written, by an internal session that is in the tree and in the costs.
#[test]
fn cc_211_a_long_conversation_is_summed_up_before_it_overflows() {
    for api in [Api::Anthropic, Api::OpenAi, Api::Responses, Api::Gemini] {
        let world = World::with().api(api).script(reader(24));
        world.configure(&small(api, &world.model.url, 24_000));
        let shown = world.run(&["--format", "json", "count the rounds"]).expect_code(0).json();
        assert_eq!(shown["result"], "all rounds are done", "{api:?}");
        let internal: Vec<&Value> = shown["tree"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "internal").collect();
        assert!(
            !internal.is_empty() && internal.iter().all(|entry| entry["agent"] == "compaction" && entry["status"] == "completed"),
            "{shown}"
        );
        let requests = world.model.requests();
        assert!(requests.iter().all(|seen| seen.body.len() < 24_000 * 5), "{api:?}: nothing larger than the model takes");
        let after = requests.iter().position(|seen| is_summary(seen)).unwrap() + 1;
        let text = requests[after].json.to_string();
        assert!(text.contains("is replaced by this summary") && text.contains("count the rounds"), "{api:?}: the user's words stay");
        assert_eq!(requests[after].tools, requests[0].tools, "{api:?}");
    }
}

/// The summary is asked for with the bytes that were sent before: the provider has them cached.
#[test]
fn whoever_sums_up_repeats_the_bytes_of_the_last_request() {
    let world = World::new(reader(24));
    world.configure(&small(Api::Anthropic, &world.model.url, 24_000));
    world.run(&["go"]).expect_code(0);
    let requests = world.model.requests();
    let at = requests.iter().position(|seen| is_summary(seen)).unwrap();
    let (before, summing) = (&requests[at - 1].body, &requests[at].body);
    let shared = before.iter().zip(summing).take_while(|(one, other)| one == other).count();
    let asked = String::from_utf8_lossy(summing).find(FRAME).unwrap();
    assert!(asked.saturating_sub(shared) < summing.len() / 3, "{shared} bytes are shared of {} before the directive", asked);
    assert!(20_000 < shared, "{shared}");
}

/// "prompt is too long": compact once and go on, or say what happened; never a loop.
#[test]
fn an_overflow_that_the_provider_reports_is_mended_once() {
    let world = World::new(|seen: &Seen| match reader(12)(seen) {
        _ if !is_summary(seen) && 60_000 < seen.body.len() => Answer::error(400, "prompt is too long: 250000 tokens > 200000 maximum"),
        answer => answer,
    });
    let done = world.run(&["go"]).expect_code(0);
    assert_eq!(done.out.trim(), "all rounds are done");
    assert!(done.err.contains("summed up"), "{}", done.err);
    let hopeless = World::new(|seen: &Seen| match seen.steps() {
        0 if !seen.json.to_string().contains("what was so far") => {
            Answer::text(&"words ".repeat(2_000)).and_call("bash", json!({"command": "true"}))
        }
        _ if is_summary(seen) => Answer::text("what was so far"),
        _ => Answer::error(400, "prompt is too long: 250000 tokens > 200000 maximum"),
    });
    let done = hopeless.run(&["go"]).expect_code(1);
    assert!(done.err.contains("too long"), "{}", done.err);
    assert!(hopeless.model.requests().len() <= 5, "{}", hopeless.model.requests().len());
}

#[test]
fn compact_can_be_typed_and_says_what_is_left() {
    let world = World::new(|seen: &Seen| match is_summary(seen) {
        true => Answer::text("The user likes blue."),
        false => Answer::text(&format!("noted {}", seen.messages.len())),
    });
    world.run(&["I like blue"]).expect_code(0);
    let done = world.run(&["-c", "/compact keep the colours"]).expect_code(0);
    assert!(done.out.contains("The user likes blue."), "{}", done.out);
    assert!(last_said(&world.model.last()).contains("keep the colours"));
    world.run(&["-c", "and now?"]).expect_code(0);
    let last = world.model.last();
    assert_eq!(last.messages.len(), 1, "the summary and the question");
    assert!(last.json.to_string().contains("The user likes blue.") && last.json.to_string().contains("I like blue"));
    // Nothing is deleted.
    let id = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    assert!(world.posse(&["sessions", "show", &id]).expect_code(0).out.contains("noted 1"));
    // The command is no text for a model, and there is nothing more to sum up.
    let before = world.model.requests().len();
    world.run(&["-c", "/compact"]).expect_code(0);
    let again = world.run(&["-c", "/compact"]).expect_code(0);
    assert!(again.out.contains("not summed up"), "{}", again.out);
    assert_eq!(world.model.requests().len(), before + 1);
}

#[test]
fn it_can_be_switched_off_and_a_project_that_nobody_trusts_cannot_switch_it() {
    for (compaction, summed) in [(json!({"auto": false}), false), (json!({"prune": false}), true)] {
        let world = World::new(reader(16));
        let mut config = small(Api::Anthropic, &world.model.url, 20_000);
        config["compaction"] = compaction.clone();
        world.configure(&config);
        world.run(&["go"]).expect_code(0);
        assert_eq!(world.model.requests().iter().any(|seen| is_summary(seen)), summed, "{compaction}");
    }
    let world = World::with().file("posse.json", r#"{"compaction": {"auto": false}}"#).script(reader(16));
    world.configure(&small(Api::Anthropic, &world.model.url, 20_000));
    let done = world.run(&["go"]).expect_code(0);
    assert!(done.err.contains("compaction"), "{}", done.err);
    assert!(world.model.requests().iter().any(|seen| is_summary(seen)));
}

/// Killed in the middle of a summary, the next process goes on with it.
#[test]
fn a_summary_survives_kill_9() {
    let world = World::new(|seen: &Seen| match reader(24)(seen) {
        answer if is_summary(seen) => answer.after(std::time::Duration::from_millis(700)),
        answer => answer,
    });
    world.configure(&small(Api::Anthropic, &world.model.url, 24_000));
    let running = world.start(&["run", "--format", "json", "go"]);
    assert!(world.model.wait_until(std::time::Duration::from_secs(30), |books| books.requests.iter().any(|seen| is_summary(seen))));
    running.kill();
    let id = world.posse(&["sessions", "list"]).out.split_whitespace().next().unwrap().to_owned();
    let shown = world.posse(&["sessions", "resume", &id, "--format", "json"]).expect_code(0).json();
    assert_eq!(shown["result"], "all rounds are done");
}
