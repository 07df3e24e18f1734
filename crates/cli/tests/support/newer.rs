//! What a scripted model says in OpenAI Responses and in Gemini's own protocol.
//!
//! The same pieces as in `answer.rs`, whose two protocols came first. A thought's signature is what these providers want
//! back: the encrypted thinking of the one, the signature on the next part of the other.

use serde_json::{Value, json};

use super::answer::{Answer, Piece, parts};

pub fn responses_events(answer: &Answer, pieces: &[Piece], next_id: &dyn Fn() -> String) -> Vec<Vec<u8>> {
    let mut events = vec![json!({"type": "response.created", "response": {"status": "in_progress", "output": []}})];
    for (index, piece) in pieces.iter().enumerate() {
        let (begun, deltas, done) = responses_piece(piece, index, next_id);
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": begun}));
        events.extend(deltas);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": done}));
    }
    let usage = answer.usage;
    let input = usage.input + usage.cache_read;
    let counts = json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": usage.cache_read},
        "output_tokens": usage.output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + usage.output});
    let reason = answer.stop_reason.as_ref();
    let kind = if reason.is_some() { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": kind, "response": {"error": null, "incomplete_details": reason.map(|reason| json!({"reason": reason})),
        "usage": counts}}));
    let named = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()).into_bytes();
    events.iter().map(named).collect()
}

/// An item as it begins, its deltas, and as it is done.
fn responses_piece(piece: &Piece, index: usize, next_id: &dyn Fn() -> String) -> (Value, Vec<Value>, Value) {
    let delta = |kind: &str, text: String| json!({"type": kind, "output_index": index, "delta": text});
    match piece {
        Piece::Text(text) => {
            let item = |content: Value| json!({"type": "message", "id": format!("msg_{index}"), "role": "assistant", "content": content});
            let deltas = parts(text, 40).map(|part| delta("response.output_text.delta", part)).collect();
            (item(json!([])), deltas, item(json!([{"type": "output_text", "text": text, "annotations": []}])))
        }
        Piece::Thinking { text, signature } => {
            let item = |summary: Value| json!({"type": "reasoning", "id": format!("rs_{index}"), "summary": summary, "encrypted_content": signature});
            let deltas = parts(text, 40).map(|part| delta("response.reasoning_summary_text.delta", part)).collect();
            (item(json!([])), deltas, item(json!([{"type": "summary_text", "text": text}])))
        }
        Piece::Call { name, arguments, id } => {
            let id = id.clone().unwrap_or_else(next_id);
            let item = |arguments: &str, status: &str| json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments, "status": status});
            let deltas = parts(arguments, 60).map(|part| delta("response.function_call_arguments.delta", part)).collect();
            (item("", "in_progress"), deltas, item(arguments, "completed"))
        }
    }
}

pub fn gemini_events(answer: &Answer, pieces: &[Piece]) -> Vec<Vec<u8>> {
    let chunk = |parts: Vec<Value>| json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]});
    let mut events = Vec::new();
    // A thought's signature comes on the part that follows it.
    let mut waiting: Option<&str> = None;
    for piece in pieces {
        let mut made = match piece {
            Piece::Thinking { text, signature } => {
                waiting = Some(signature);
                events.extend(parts(text, 40).map(|part| chunk(vec![json!({"text": part, "thought": true})])));
                continue;
            }
            Piece::Text(text) => parts(text, 40).map(|part| json!({"text": part})).collect::<Vec<_>>(),
            Piece::Call { name, arguments, id } => {
                // There is no other form than an object; what is none cannot be said in this protocol.
                let input: Value = serde_json::from_str(arguments).unwrap();
                let mut call = json!({"name": name, "args": input});
                if let Some(id) = id {
                    call["id"] = json!(id);
                }
                vec![json!({"functionCall": call})]
            }
        };
        if let (Some(signature), Some(first)) = (waiting.take(), made.first_mut()) {
            first["thoughtSignature"] = json!(signature);
        }
        events.extend(made.into_iter().map(|part| chunk(vec![part])));
    }
    let usage = answer.usage;
    let mut last = chunk(vec![json!({"text": ""})]);
    if let Some(signature) = waiting {
        last["candidates"][0]["content"]["parts"][0]["thoughtSignature"] = json!(signature);
    }
    last["candidates"][0]["finishReason"] = json!(answer.stop_reason.as_deref().unwrap_or("STOP"));
    last["usageMetadata"] = json!({"promptTokenCount": usage.input + usage.cache_read, "cachedContentTokenCount": usage.cache_read,
        "candidatesTokenCount": usage.output, "totalTokenCount": usage.input + usage.cache_read + usage.output});
    events.push(last);
    events.iter().map(|event| format!("data: {event}\r\n\r\n").into_bytes()).collect()
}
