//! A request as the scripted model sees it, and what a real provider would refuse in it.
//!
//! All four protocols are read into one shape, so that a script or a check does not care which one the test runs on.

use std::{collections::HashSet, time::Instant};

use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    Anthropic,
    /// Chat Completions.
    OpenAi,
    Responses,
    Gemini,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    Text(String),
    Call {
        id: String,
        name: String,
        input: Value,
    },
    Result {
        id: String,
        text: String,
        error: bool,
    },
    /// Reasoning, images and what else there is.
    Other(Value),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// `user` or `assistant`; results of tools are the user's.
    pub role: String,
    pub blocks: Vec<Block>,
}

#[derive(Debug, Clone)]
pub struct Seen {
    /// Counts the server's accepted requests from 0.
    pub number: usize,
    pub api: Api,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub json: Value,
    pub system: String,
    pub messages: Vec<Message>,
    /// Names, in the order they were offered.
    pub tools: Vec<String>,
    pub at: Instant,
}

impl Seen {
    pub fn read(path: &str, headers: Vec<(String, String)>, body: Vec<u8>) -> Result<Seen, String> {
        let json: Value = serde_json::from_slice(&body).map_err(|error| format!("the body is not JSON: {error}"))?;
        let api = match path {
            _ if path.ends_with("/messages") => Api::Anthropic,
            _ if path.ends_with("/responses") => Api::Responses,
            _ if path.ends_with(":streamGenerateContent") => Api::Gemini,
            _ => Api::OpenAi,
        };
        let all = list(&json["messages"]);
        let (system, messages) = match api {
            Api::Anthropic => (flat(&json["system"]), all.iter().map(anthropic_message).collect()),
            Api::OpenAi => {
                let (system, talk): (Vec<_>, Vec<_>) =
                    all.iter().partition(|message| matches!(word(message, "role"), "system" | "developer"));
                let system: Vec<String> = system.iter().map(|message| flat(&message["content"])).collect();
                (system.join("\n"), talk.into_iter().map(openai_message).collect::<Result<_, _>>()?)
            }
            Api::Responses => (word(&json, "instructions").to_owned(), responses_messages(list(&json["input"]))?),
            Api::Gemini => (flat(&json["systemInstruction"]["parts"]), list(&json["contents"]).iter().map(gemini_message).collect()),
        };
        let tools = offered(&json).into_iter().map(|tool| word(tool, "name").to_owned()).collect();
        Ok(Seen { number: 0, api, path: path.to_owned(), headers, body, json, system, messages, tools, at: Instant::now() })
    }

    /// How many answers the model has given in this conversation: a script's position.
    pub fn steps(&self) -> usize {
        self.messages.iter().filter(|message| message.role == "assistant").count()
    }

    /// Every text of the user's side, in order: the first is the prompt.
    pub fn user_texts(&self) -> Vec<&str> {
        let users = self.messages.iter().filter(|message| message.role == "user");
        users
            .flat_map(|message| &message.blocks)
            .filter_map(|block| if let Block::Text(text) = block { Some(text.as_str()) } else { None })
            .collect()
    }

    pub fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.messages.iter().flat_map(|message| &message.blocks)
    }

    pub fn calls(&self) -> Vec<&Block> {
        self.blocks().filter(|block| matches!(block, Block::Call { .. })).collect()
    }

    pub fn results(&self) -> Vec<&Block> {
        self.blocks().filter(|block| matches!(block, Block::Result { .. })).collect()
    }

    /// Texts of the results since the model last spoke.
    pub fn last_results(&self) -> Vec<&str> {
        let after = self.messages.iter().rposition(|message| message.role == "assistant").map_or(0, |at| at + 1);
        let blocks = self.messages[after..].iter().flat_map(|message| &message.blocks);
        blocks.filter_map(|block| if let Block::Result { text, .. } = block { Some(text.as_str()) } else { None }).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// What the model is told about a tool, in the provider's own shape.
    pub fn tool(&self, name: &str) -> Option<&Value> {
        offered(&self.json).into_iter().find(|tool| word(tool, "name") == name)
    }

    /// What a real provider would answer 400 to: a transcript that does not hold together.
    pub fn refuse(&self) -> Option<String> {
        let empty = |message: &Value| {
            message["content"].as_str().is_some_and(str::is_empty) || message["content"].as_array().is_some_and(Vec::is_empty)
        };
        if self.api == Api::Anthropic && list(&self.json["messages"]).iter().any(empty) {
            return Some("a message is empty".into());
        }
        if self.messages.first().is_none_or(|message| message.role != "user") {
            return Some("the first message is not the user's".into());
        }
        let mut names = HashSet::new();
        if let Some(twice) = self.tools.iter().find(|name| !names.insert(name.as_str())) {
            return Some(format!("tool {twice} is named twice"));
        }
        unpaired(&self.messages)
    }
}

/// Every call has one result, in the message after it, and no id is used twice.
fn unpaired(messages: &[Message]) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut used = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        for block in &message.blocks {
            match block {
                Block::Result { id, .. } => match open.iter().position(|open| open == id) {
                    Some(found) => drop(open.remove(found)),
                    None => return Some(format!("message {at}: a result without its call, or twice: {id}")),
                },
                _ if !open.is_empty() && message.role == "user" => {
                    return Some(format!("message {at}: calls without a result before it: {open:?}"));
                }
                Block::Text(text) if text.trim().is_empty() => return Some(format!("message {at} has an empty text")),
                Block::Call { id, .. } if !used.insert(id.as_str()) => return Some(format!("message {at}: call id used twice: {id}")),
                _ => {}
            }
        }
        if message.role == "assistant" {
            if !open.is_empty() {
                return Some(format!("message {at}: calls without a result before it: {open:?}"));
            }
            open = message
                .blocks
                .iter()
                .filter_map(|block| if let Block::Call { id, .. } = block { Some(id.as_str()) } else { None })
                .collect();
        }
    }
    (!open.is_empty()).then(|| format!("calls without a result: {open:?}"))
}

fn anthropic_message(message: &Value) -> Message {
    let blocks = match &message["content"] {
        Value::String(text) => vec![Block::Text(text.clone())],
        content => list(content).iter().map(anthropic_block).collect(),
    };
    Message { role: word(message, "role").to_owned(), blocks }
}

fn anthropic_block(block: &Value) -> Block {
    match word(block, "type") {
        "text" => Block::Text(word(block, "text").to_owned()),
        "tool_use" => Block::Call { id: word(block, "id").to_owned(), name: word(block, "name").to_owned(), input: block["input"].clone() },
        "tool_result" => Block::Result {
            id: word(block, "tool_use_id").to_owned(),
            text: flat(&block["content"]),
            error: block["is_error"].as_bool().unwrap_or(false),
        },
        _ => Block::Other(block.clone()),
    }
}

fn openai_message(message: &Value) -> Result<Message, String> {
    let text = flat(&message["content"]);
    if word(message, "role") == "tool" {
        let result = Block::Result { id: word(message, "tool_call_id").to_owned(), text, error: false };
        return Ok(Message { role: "user".into(), blocks: vec![result] });
    }
    // A message of calls may come without a content or with an empty one.
    let mut blocks: Vec<Block> = if text.is_empty() { Vec::new() } else { vec![Block::Text(text)] };
    for call in list(&message["tool_calls"]) {
        let arguments = word(&call["function"], "arguments");
        let input = serde_json::from_str(if arguments.is_empty() { "{}" } else { arguments })
            .map_err(|error| format!("the arguments of a call are not JSON: {error}: {arguments}"))?;
        blocks.push(Block::Call { id: word(call, "id").to_owned(), name: word(&call["function"], "name").to_owned(), input });
    }
    Ok(Message { role: word(message, "role").to_owned(), blocks })
}

/// The items in messages: everything of one side up to the other's next word is one of them.
fn responses_messages(items: &[Value]) -> Result<Vec<Message>, String> {
    let mut messages: Vec<Message> = Vec::new();
    for item in items {
        let (role, blocks) = responses_item(item)?;
        match messages.last_mut() {
            Some(last) if last.role == role && role == "assistant" => last.blocks.extend(blocks),
            _ => messages.push(Message { role: role.to_owned(), blocks }),
        }
    }
    Ok(messages)
}

fn responses_item(item: &Value) -> Result<(&str, Vec<Block>), String> {
    let id = || word(item, "call_id").to_owned();
    Ok(match word(item, "type") {
        "function_call" => {
            let arguments = word(item, "arguments");
            let input =
                serde_json::from_str(arguments).map_err(|error| format!("the arguments of a call are not JSON: {error}: {arguments}"))?;
            ("assistant", vec![Block::Call { id: id(), name: word(item, "name").to_owned(), input }])
        }
        "function_call_output" => ("user", vec![Block::Result { id: id(), text: flat(&item["output"]), error: false }]),
        "message" => {
            let block = |part: &Value| match word(part, "type") {
                "input_text" | "output_text" => Block::Text(word(part, "text").to_owned()),
                _ => Block::Other(part.clone()),
            };
            (word(item, "role"), list(&item["content"]).iter().map(block).collect())
        }
        _ => ("assistant", vec![Block::Other(item.clone())]),
    })
}

fn gemini_message(content: &Value) -> Message {
    let role = if word(content, "role") == "model" { "assistant" } else { "user" };
    Message { role: role.to_owned(), blocks: list(&content["parts"]).iter().map(gemini_part).collect() }
}

fn gemini_part(part: &Value) -> Block {
    let (call, response) = (&part["functionCall"], &part["functionResponse"]);
    if call.is_object() {
        return Block::Call { id: word(call, "id").to_owned(), name: word(call, "name").to_owned(), input: call["args"].clone() };
    }
    if response.is_object() {
        let said = &response["response"];
        let error = said.get("error").is_some();
        let text = word(said, if error { "error" } else { "output" }).to_owned();
        return Block::Result { id: word(response, "id").to_owned(), text, error };
    }
    // An empty text is only the place of a signature.
    let is_signature = word(part, "text").is_empty() && part.get("thoughtSignature").is_some();
    match part.get("text").and_then(Value::as_str) {
        Some(text) if !is_signature => Block::Text(text.to_owned()),
        _ => Block::Other(part.clone()),
    }
}

/// The tools of a request, each with its name, whatever it is wrapped in.
fn offered(json: &Value) -> Vec<&Value> {
    let tools = list(&json["tools"]);
    match tools.first().and_then(|tool| tool.get("functionDeclarations")) {
        Some(declared) => list(declared).iter().collect(),
        None => tools.iter().map(|tool| tool.get("function").unwrap_or(tool)).collect(),
    }
}

/// A text, or the texts of a list of parts.
fn flat(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        other => list(other).iter().map(|part| word(part, "text")).collect::<Vec<_>>().join("\n"),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}
