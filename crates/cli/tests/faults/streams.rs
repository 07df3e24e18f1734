//! Model streams that fail: what is tried again, what is not, and what is never done twice.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Answer, Api, Seen, World, answer::Piece};

/// The first request gets this answer, every other one the text "fine".
fn first(answer: impl Fn() -> Answer + Send + Sync + 'static) -> World {
    World::new(move |seen: &Seen| if seen.number == 0 { answer() } else { Answer::text("fine") })
}

fn gap(world: &World) -> Duration {
    let requests = world.model.requests();
    requests[1].at.duration_since(requests[0].at)
}

#[test]
fn a_rate_limit_is_waited_out_as_long_as_the_server_says() {
    let world = first(|| Answer::error(429, "slow down").header("retry-after", "2"));
    let done = world.run(&["hi"]).expect_code(0);
    assert_eq!((done.out.as_str(), world.model.requests().len()), ("fine\n", 2));
    assert!(Duration::from_secs(2) <= gap(&world) && gap(&world) < Duration::from_secs(6), "{:?}", gap(&world));
    assert!(done.err.contains("slow down") && done.err.contains("trying again"), "the wait is said: {}", done.err);
}

#[test]
fn a_server_that_fails_once_is_asked_again() {
    for answer in
        [Answer::error(500, "oops"), Answer::error(529, "Overloaded"), Answer::hang_up(), Answer::bytes("HTTP/1.1 200 OK\r\nbroken")]
    {
        let named = format!("{answer:?}");
        let world = first(move || answer.clone());
        let done = world.run(&["hi"]).expect_code(0);
        assert_eq!((done.out.as_str(), world.model.requests().len()), ("fine\n", 2), "{named}");
        assert_eq!(world.model.requests()[0].body, world.model.requests()[1].body, "{named}: the same request");
    }
}

#[test]
fn a_cut_stream_is_asked_again_and_neither_its_call_nor_its_text_counts() {
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).script(|seen: &Seen| {
            let whole = Answer::text("I will write it down.")
                .and_call("bash", json!({"command": "echo once >> witness.txt; echo a longer command, to be cut in its middle"}));
            match (seen.steps(), seen.number) {
                // Inside the arguments: after a command that would already be valid if it were closed.
                (0, 0) => whole.cut_after(if seen.api == Api::Anthropic { 1100 } else { 900 }),
                (0, _) => whole,
                _ => Answer::text("written"),
            }
        });
        let done = world.run(&["--format", "stream-json", "go"]).expect_code(0);
        assert_eq!(world.read("witness.txt"), "once\n", "{api:?}");
        let lines = done.lines();
        let messages: Vec<&str> = lines.iter().filter(|line| line["type"] == "message").filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(messages, ["I will write it down.", "written"], "{api:?}");
        assert_eq!(lines.iter().filter(|line| line["type"] == "call_started").count(), 1);
        let requests = world.model.requests();
        assert_eq!(requests.len(), 3, "{api:?}");
        assert_eq!(requests[0].body, requests[1].body);
        assert_eq!(requests[2].user_texts().len(), 1);
    }
}

#[test]
fn a_stream_that_is_always_cut_fails_in_the_end_and_keeps_what_was_said() {
    let world = World::new(|_: &Seen| Answer::text("the beginning of a thought that never ends").cut_after(700));
    let done = world.run(&["--format", "json", "hi"]).expect_code(1);
    let shown = done.json();
    assert_eq!(shown["status"], "failed");
    assert_eq!(world.model.requests().len(), 6, "one try and five more");
    assert!(shown["result"].as_str().unwrap().starts_with("the beginning"), "{shown}");
    let id = shown["session"].as_str().unwrap();
    assert!(world.posse(&["sessions", "show", id]).expect_code(0).out.contains("failed"));
}

#[test]
fn an_error_inside_a_stream_ends_it_although_the_socket_stays_open() {
    let body = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n";
    let world = first(move || Answer::stream(body).stalled_after(body.len()));
    let begun = Instant::now();
    let done = world.run(&["hi"]).expect_code(0);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(done.out, "fine\n");
    assert!(world.model.wait_for_disconnects(1), "the socket is closed");
}

#[test]
fn one_bad_event_is_forgiven_and_two_are_an_error() {
    let world = first(|| Answer::stream("data: {not json\n\n"));
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "fine\n");
    let never = World::new(|_: &Seen| Answer::stream("data: {not json\n\n"));
    let done = never.run(&["hi"]).expect_code(1);
    assert_eq!(never.model.requests().len(), 2);
    assert!(done.err.contains("posse: "), "{}", done.err);
}

#[test]
fn an_answer_with_nothing_in_it_is_asked_for_once_more() {
    let world = first(|| Answer::calls([]));
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "fine\n");
    let blank = World::new(|_: &Seen| Answer::text("  \n "));
    let done = blank.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("nothing"), "{}", done.err);
}

#[test]
fn a_stream_that_stalls_is_given_up_and_asked_again() {
    let world = World::with()
        .config("limits", json!({"stream_idle": "400ms"}))
        .script(|seen: &Seen| if seen.number == 0 { Answer::text("half").stalled_after(400) } else { Answer::text("fine") });
    let begun = Instant::now();
    assert_eq!(world.run(&["hi"]).expect_code(0).out, "fine\n");
    assert!(Duration::from_millis(400) <= gap(&world) && begun.elapsed() < Duration::from_secs(10));
    assert!(world.model.wait_for_disconnects(1));
}

#[test]
fn a_slow_stream_that_goes_on_is_not_a_stalled_one() {
    let words = "a text in many pieces, ".repeat(12);
    let said = words.clone();
    let world = World::with()
        .config("limits", json!({"stream_idle": "600ms"}))
        .script(move |_: &Seen| Answer::text(&words).slowly(Duration::from_millis(150)));
    let begun = Instant::now();
    assert_eq!(world.run(&["hi"]).expect_code(0).out.trim_end(), said.trim_end());
    assert!(Duration::from_millis(1200) < begun.elapsed(), "longer than the limit in all");
    assert_eq!(world.model.requests().len(), 1);
}

#[test]
fn a_refused_key_is_told_in_the_providers_words_and_not_tried_again() {
    let world = World::new(|_: &Seen| Answer::error(401, "invalid x-api-key"));
    let begun = Instant::now();
    let done = world.run(&["hi"]).expect_code(1);
    assert!(done.err.contains("invalid x-api-key"), "{}", done.err);
    assert!(done.err.contains("check") && done.err.contains("key"), "what to do: {}", done.err);
    assert_eq!((world.model.requests().len(), done.out.as_str()), (1, ""));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_refused_request_is_not_tried_again() {
    for (status, words) in [
        (400, "messages: something is wrong"),
        (404, "model: m1 not found"),
        (413, "too large"),
        (400, "prompt is too long: 300000 tokens > 200000 maximum"),
    ] {
        let world = World::new(move |_: &Seen| Answer::error(status, words));
        let done = world.run(&["hi"]).expect_code(1);
        assert!(done.err.contains(words), "{}", done.err);
        assert_eq!(world.model.requests().len(), 1, "{status} {words}");
        // The session is not bricked: another prompt is taken, and says the same.
        world.run(&["-c", "again"]).expect_code(1);
        assert_eq!(world.model.last().user_texts().last(), Some(&"again"));
    }
}

#[test]
fn a_stream_in_single_bytes_loses_no_letter() {
    let words = "h\u{e9}llo \u{6f22}\u{5b57} \u{1f600} \"quoted\" \\ and\nlines";
    for api in [Api::Anthropic, Api::OpenAi] {
        let world = World::with().api(api).script(move |_: &Seen| Answer::text(words).in_chunks_of(1));
        assert_eq!(world.run(&["hi"]).expect_code(0).out, format!("{words}\n"));
    }
}

#[test]
fn reasoning_is_kept_and_sent_back_with_its_signature_and_never_printed() {
    let world = World::new(|seen: &Seen| match seen.steps() {
        0 => Answer::calls([Piece::Thinking { text: "private thoughts".into(), signature: "sig-1".into() }])
            .and_call("bash", json!({"command": "true"})),
        _ => Answer::text("done"),
    });
    let done = world.run(&["hi"]).expect_code(0);
    assert_eq!(done.out, "done\n");
    assert!(!done.err.contains("private thoughts"));
    let body = String::from_utf8_lossy(&world.model.last().body).into_owned();
    assert!(body.contains("private thoughts") && body.contains("sig-1"), "{body}");
}
