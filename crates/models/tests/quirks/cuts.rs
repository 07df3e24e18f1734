//! A connection that ends after every byte of an answer (reliability row 13): one request each, never a call, always a
//! failure that the session tries again. Hundreds of streams are cut the same way beside the folds, without a socket.

use posse_session::{ModelFailure, retry_after};
use serde_json::json;

use crate::{
    server::{Act, Server},
    world::{ask, call, chunk, model},
};

#[tokio::test]
async fn row_13_no_connection_that_breaks_runs_a_tool_or_asks_twice() {
    let first = json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "ls", "arguments": "{\"p\"" } }] });
    let second = json!({ "tool_calls": [{ "index": 0, "function": { "arguments": ":1}" } }] });
    let chunks = [chunk(first, None), chunk(second, None), chunk(json!({}), Some("tool_calls"))];
    let text: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    // In one piece with its head, so that no acknowledgement is waited for.
    let answer = |at: usize, end: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        let said = if at == 0 { String::new() } else { format!("{at:x}\r\n{}\r\n", &text[..at]) };
        match end {
            "broken" => vec![Act::Send(format!("{head}{said}").into_bytes()), Act::Close],
            _ => vec![Act::Send(format!("{head}{said}0\r\n\r\n").into_bytes())],
        }
    };
    // A broken connection, and a relay that ends the body as if all were well.
    for end in ["broken", "ended"] {
        let server = Server::playing((0..=text.len()).map(|at| answer(at, end))).await;
        let model = model("mine", &server);
        // Where the body ends in good order, the last event counts without its blank line.
        let whole = if end == "broken" { text.len() } else { text.len() - 2 };
        for at in 0..whole {
            let error = ask(&*model).await.unwrap_err();
            assert_eq!((error.failure, server.received().len()), (ModelFailure::Cut, at + 1), "{end} at {at}");
            assert!(retry_after(error.failure, 5, None, 0.0).is_some() && retry_after(error.failure, 6, None, 0.0).is_none());
        }
        // The last byte makes the answer, whatever the connection does then.
        for at in whole..=text.len() {
            assert_eq!(ask(&*model).await.unwrap().parts, [call("a", "{\"p\":1}")], "{end} at {at}");
        }
    }
}
