//! A session as OpenCode's export has it: `{info, messages: [{info, parts}]}`, made from the facts of its log.
//!
//! Message ids are those of the queue where an entry was said, else made from time and place in the log, so that they
//! sort as they happened. Nothing of a provider's own (signatures, opaque blocks) and no undo record is exported.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use posse_session::{
    CallId, EntryId, Event, Finish, How, ModelFailure, Outcome, Part, Record, Seq, SessionId, Spawn, Summary, Text, Timestamp, To, Usage,
};
use serde_json::{Map, Value, json};

/// Where the session stands, for the fields that no log has.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// The version of posse.
    pub version: &'a str,
    /// The top folder of the project.
    pub project: &'a str,
}

/// `facts` are the whole log of `summary`'s session with its texts, `begins` what it shows of other logs before that (a fork);
/// `children` are the logs of the sessions that were started in either.
pub fn opencode(
    summary: &Summary,
    begins: &[Record],
    facts: &[Record],
    children: &HashMap<SessionId, Vec<Record>>,
    setting: Setting<'_>,
) -> Value {
    let told = in_a_row(begins, facts);
    let mut export = Export::of(summary, &told, children, setting);
    told.iter().for_each(|record| export.fact(record));
    let messages: Vec<Value> = export.messages.into_iter().map(|message| json!({"info": message.info, "parts": message.parts})).collect();
    json!({"info": info(summary, facts, setting), "messages": messages})
}

/// Both as if they were one log: ids and order are made from places in it.
fn in_a_row<'a>(begins: &[Record], facts: &'a [Record]) -> Cow<'a, [Record]> {
    if begins.is_empty() {
        return facts.into();
    }
    let before = begins.len() as Seq;
    let mut told: Vec<Record> = begins.iter().chain(facts).cloned().collect();
    for (place, record) in told.iter_mut().enumerate() {
        record.seq = place as Seq + 1;
        if let Event::Reverted { to } = &mut record.event
            && before < record.seq
        {
            *to += before;
        }
    }
    told.into()
}

fn info(summary: &Summary, facts: &[Record], setting: Setting<'_>) -> Value {
    let (mut added, mut removed, mut files) = (0, 0, BTreeMap::new());
    for (path, plus, minus) in facts.iter().flat_map(|record| patches(&record.event)) {
        added += plus;
        removed += minus;
        files.insert(path, ());
    }
    let (provider, model) = model(&summary.model);
    let mut fields = json!({
        "id": summary.session.as_str(),
        "slug": summary.session.as_str(),
        "projectID": setting.project,
        "directory": summary.directory,
        "title": summary.title,
        "agent": summary.agent,
        "model": {"id": model, "providerID": provider},
        "version": setting.version,
        "cost": summary.usage.cost_usd,
        "tokens": tokens(summary.usage),
        "summary": {"additions": added, "deletions": removed, "files": files.len()},
        "time": {"created": summary.created.0, "updated": summary.updated.0},
    });
    if let Some(parent) = &summary.parent {
        fields["parentID"] = parent.as_str().into();
    }
    fields
}

/// One message that is being put together.
struct Message {
    seq: Seq,
    id: String,
    info: Value,
    parts: Vec<Value>,
}

/// What is known of a call before it is written down.
#[derive(Default)]
struct CallFacts<'a> {
    tool: &'a str,
    title: &'a str,
    input: Option<&'a Text>,
    called: Timestamp,
    started: Option<Timestamp>,
    ended: Option<(Timestamp, End<'a>)>,
    task: Option<(&'a SessionId, &'a Spawn)>,
}

#[derive(Clone, Copy)]
enum End<'a> {
    Outcome(&'a Outcome),
    Task(How, &'a Text),
}

/// An entry that waits to be said: since when, what, and who is to answer it.
struct Waiting<'a> {
    at: Timestamp,
    parts: Vec<Value>,
    agent: Option<&'a str>,
    model: Option<&'a str>,
}

impl Waiting<'_> {
    fn plain(at: Timestamp, parts: &[Part]) -> Self {
        Self { at, parts: parts.iter().filter_map(part).collect(), agent: None, model: None }
    }
}

struct Export<'a> {
    summary: &'a Summary,
    setting: Setting<'a>,
    children: &'a HashMap<SessionId, Vec<Record>>,
    facts: &'a [Record],
    /// Everything that is known of the calls, whenever it was recorded.
    calls: HashMap<&'a CallId, CallFacts<'a>>,
    /// Entries that wait to be said.
    queued: HashMap<&'a EntryId, Waiting<'a>>,
    messages: Vec<Message>,
    /// The user message that is being answered.
    asked: String,
    model: String,
    step_at: Timestamp,
    /// Who answers this turn and on which model, if not the session's own.
    turn: (Option<String>, Option<String>),
    /// The turn goes on: the last reply called something.
    in_turn: bool,
    /// In whose name the kernel spoke last.
    author: String,
    /// Failures of the step that is being tried again.
    retries: Vec<Value>,
    last_time: u64,
}

impl<'a> Export<'a> {
    fn of(summary: &'a Summary, facts: &'a [Record], children: &'a HashMap<SessionId, Vec<Record>>, setting: Setting<'a>) -> Self {
        Self {
            summary,
            setting,
            children,
            facts,
            calls: calls(facts),
            queued: HashMap::new(),
            messages: Vec::new(),
            asked: String::new(),
            model: summary.model.clone(),
            step_at: summary.created,
            turn: (None, None),
            in_turn: false,
            author: String::new(),
            retries: Vec::new(),
            last_time: 0,
        }
    }

    fn fact(&mut self, record: &'a Record) {
        match &record.event {
            Event::Created { recipe, .. } => {
                self.model.clone_from(&recipe.model);
                // What another log had begun goes on nowhere else.
                (self.turn, self.in_turn) = ((None, None), false);
                self.retries.clear();
                self.queued.clear();
            }
            Event::Configured { model, .. } => self.model.clone_from(model),
            Event::Queued { entry } => drop(self.queued.insert(&entry.id, Waiting::plain(record.at, &entry.parts))),
            Event::Expanded { entry, parts, agent, model, .. } => {
                let at = self.queued.get(entry).map_or(record.at, |waiting| waiting.at);
                let waiting = Waiting { agent: agent.as_deref(), model: model.as_deref(), ..Waiting::plain(at, parts) };
                self.queued.insert(entry, waiting);
            }
            Event::TaskEnded { result, to: To::Queue { entry, .. }, .. } | Event::KeptEnded { words: result, entry: Some(entry), .. } => {
                drop(self.queued.insert(entry, Waiting::plain(record.at, &[Part::reminder(result.clone())])));
            }
            Event::StepStarted { took, notes, .. } => self.step(record, took, notes),
            Event::Replied { .. } => self.reply(record),
            Event::StepFailed { retry_at: Some(_), error, failure, .. } => {
                let error = problem(*failure, error);
                self.retries
                    .push(json!({"type": "retry", "attempt": self.retries.len() + 1, "error": error, "time": {"created": record.at.0}}));
            }
            Event::StepFailed { retry_at: None, error, failure, partial, usage, .. } => {
                let parts = if partial.is_blank() { Vec::new() } else { vec![json!({"type": "text", "text": words(partial)})] };
                let retries = std::mem::take(&mut self.retries);
                let mut info = self.assistant_info(record, self.agent(), *usage);
                info["error"] = problem(*failure, error);
                self.push(record, info, retries.into_iter().chain(parts).collect());
            }
            Event::Compacted { summary, .. } => self.compacted(record, summary),
            Event::Reverted { to } => self.messages.retain(|message| message.seq <= *to),
            _ => {}
        }
    }

    fn step(&mut self, record: &'a Record, took: &'a [EntryId], notes: &[Part]) {
        self.step_at = record.at;
        if !self.in_turn {
            self.turn = (None, None);
        }
        // Whatever its form, nobody typed it.
        let synthetic = |mut note: Value| {
            note["synthetic"] = true.into();
            note
        };
        let mut notes: Vec<Value> = notes.iter().filter_map(part).map(synthetic).collect();
        let said: Vec<_> = took.iter().filter_map(|id| self.queued.remove(id).map(|waiting| (id, waiting))).collect();
        let count = said.len();
        for (place, (id, mut waiting)) in said.into_iter().enumerate() {
            if place + 1 == count {
                waiting.parts.append(&mut notes);
            }
            self.turn.0 = waiting.agent.map(str::to_owned).or(self.turn.0.take());
            self.turn.1 = waiting.model.map(str::to_owned).or(self.turn.1.take());
            let info = self.user_info(id.as_str(), waiting.at);
            self.last_time = self.last_time.max(waiting.at.0);
            self.put(record.seq, id.as_str().to_owned(), info, waiting.parts);
        }
        // What the kernel says between two answers is a message of its own.
        if !notes.is_empty() {
            let id = self.made_id(record);
            let info = self.user_info(&id, record.at);
            self.put(record.seq, id, info, notes);
        }
    }

    /// Who answers now.
    fn agent(&self) -> &str {
        self.turn.0.as_deref().unwrap_or(&self.summary.agent)
    }

    fn model(&self) -> (&str, &str) {
        model(self.turn.1.as_deref().unwrap_or(&self.model))
    }

    fn user_info(&mut self, id: &str, at: Timestamp) -> Value {
        self.asked = id.to_owned();
        let (provider, model) = self.model();
        json!({
            "id": id,
            "sessionID": self.summary.session.as_str(),
            "role": "user",
            "time": {"created": at.0},
            "agent": self.agent(),
            "model": {"providerID": provider, "modelID": model},
        })
    }

    fn assistant_info(&self, record: &Record, agent: &str, usage: Usage) -> Value {
        let (provider, model) = self.model();
        json!({
            "id": "",
            "sessionID": self.summary.session.as_str(),
            "role": "assistant",
            "parentID": self.asked,
            "time": {"created": self.step_at.0, "completed": record.at.0},
            "agent": agent,
            "mode": agent,
            "modelID": model,
            "providerID": provider,
            "path": {"cwd": self.summary.directory, "root": self.setting.project},
            "cost": usage.cost_usd,
            "tokens": tokens(usage),
        })
    }

    fn reply(&mut self, record: &'a Record) {
        let Event::Replied { parts: said, calls, usage, finish, author, .. } = &record.event else { return };
        let calls = called_by(self.facts, record.seq, *calls);
        let reason = reason(*finish, !calls.is_empty());
        if let Some(named) = author.as_ref().filter(|author| !author.is_empty()) {
            self.author.clone_from(named);
        }
        // What is said in nobody's name is said for whom the kernel spoke last.
        let agent = if author.is_some() { self.author.clone() } else { self.agent().to_owned() };
        self.in_turn = !calls.is_empty();
        let mut info = self.assistant_info(record, &agent, *usage);
        info["finish"] = reason.into();
        let ended = calls.iter().filter_map(|call| self.calls.get(call)?.ended.as_ref()).map(|(at, _)| *at).max();
        info["time"]["completed"] = ended.map_or(record.at, |ended| ended.max(record.at)).0.into();
        let mut parts = std::mem::take(&mut self.retries);
        // What the kernel says in an agent's name is no step of a model.
        let by_model = author.is_none();
        parts.extend(by_model.then(|| json!({"type": "step-start"})));
        let mut left = calls.clone();
        for said in said {
            match said {
                Part::Call { call } => {
                    left.retain(|known| *known != call);
                    parts.extend(self.tool_part(call));
                }
                other => parts.extend(part(other).map(|mut said| {
                    said["time"] = json!({"start": self.step_at.0, "end": record.at.0});
                    said
                })),
            }
        }
        parts.extend(left.into_iter().filter_map(|call| self.tool_part(call)));
        for (hash, path) in calls.iter().filter_map(|call| self.calls.get(call)).flat_map(changed_files) {
            parts.push(json!({"type": "patch", "hash": hash, "files": [path]}));
        }
        parts.extend(by_model.then(|| json!({"type": "step-finish", "reason": reason, "cost": usage.cost_usd, "tokens": tokens(*usage)})));
        self.push(record, info, parts);
    }

    fn compacted(&mut self, record: &Record, summary: &Text) {
        let id = self.made_id(record);
        let info = self.user_info(&id, record.at);
        self.put(record.seq, id, info, vec![json!({"type": "compaction", "auto": true})]);
        let mut info = self.assistant_info(record, "compaction", Usage::default());
        info["summary"] = true.into();
        info["finish"] = "stop".into();
        self.push(record, info, vec![json!({"type": "text", "text": words(summary)})]);
    }

    /// A call with its state, or nothing when the append that held it was torn.
    fn tool_part(&self, call: &CallId) -> Option<Value> {
        let known = self.calls.get(call).filter(|known| !known.tool.is_empty())?;
        Some(json!({"type": "tool", "callID": call.as_str(), "tool": known.tool, "state": self.state(known)}))
    }

    fn state(&self, call: &CallFacts<'_>) -> Value {
        let input = input(call.input);
        let metadata = call.task.map(|(task, _)| json!({"sessionId": task.as_str(), "summary": self.below(task)}));
        let start = call.started.unwrap_or(call.called).0;
        let title = call.task.map_or(call.title, |(_, spawn)| &spawn.description);
        match &call.ended {
            None if call.started.is_none() && call.task.is_none() => {
                json!({"status": "pending", "input": input, "raw": call.input.map_or(String::new(), words)})
            }
            None => {
                let mut state = json!({"status": "running", "input": input, "title": title, "time": {"start": start}});
                if let Some(metadata) = metadata {
                    state["metadata"] = metadata;
                }
                state
            }
            Some((at, end)) => self.ended(call, *end, json!({"start": start, "end": at.0}), metadata, title, input),
        }
    }

    fn ended(&self, call: &CallFacts<'_>, end: End<'_>, time: Value, metadata: Option<Value>, title: &str, input: Value) -> Value {
        let failed = |error: String| {
            let mut state = json!({"status": "error", "input": input, "error": error, "time": time});
            if let Some(metadata) = &metadata {
                state["metadata"] = metadata.clone();
            }
            state
        };
        match end {
            End::Task(How::Completed | How::Limit, result) => {
                let output = call.task.map_or_else(|| words(result), |(task, _)| task_output(call.tool, task, words(result)));
                json!({"status": "completed", "input": input, "output": output, "title": title,
                       "metadata": metadata.unwrap_or_else(|| json!({})), "time": time})
            }
            End::Task(How::Failed | How::Stopped, result) => failed(words(result)),
            End::Outcome(Outcome::Done { output, title: own, metadata: shown, attachments }) => {
                let title = if own.is_empty() { title } else { own };
                let metadata = metadata.or_else(|| shown.clone()).unwrap_or_else(|| json!({}));
                let mut state = json!({"status": "completed", "input": input, "output": words(output), "title": title,
                                       "metadata": metadata, "time": time});
                let files: Vec<Value> = attachments.iter().filter(|part| matches!(part, Part::File { .. })).filter_map(part).collect();
                if !files.is_empty() {
                    state["attachments"] = files.into();
                }
                state
            }
            End::Outcome(Outcome::Failed { error: text } | Outcome::Denied { why: text }) => failed(words(text)),
            End::Outcome(Outcome::Cancelled { partial }) => failed(spoiled("cancelled", partial)),
            End::Outcome(Outcome::Lost { partial }) => failed(spoiled("lost: the process that ran it died", partial)),
        }
    }

    /// The calls of a child, for the part that shows it.
    fn below(&self, task: &SessionId) -> Vec<Value> {
        let Some(facts) = self.children.get(task) else { return Vec::new() };
        let calls = calls(facts);
        let named = facts.iter().filter_map(|record| match &record.event {
            Event::Called { call, .. } => calls.get(call).map(|known| (call, known)),
            _ => None,
        });
        named
            .map(|(id, call)| {
                let status = match &call.ended {
                    Some((_, End::Outcome(Outcome::Done { .. }) | End::Task(How::Completed | How::Limit, _))) => "completed",
                    Some(_) => "error",
                    None if call.started.is_some() || call.task.is_some() => "running",
                    None => "pending",
                };
                json!({"id": id.as_str(), "tool": call.tool, "status": status, "title": call.title})
            })
            .collect()
    }

    fn push(&mut self, record: &Record, mut info: Value, parts: Vec<Value>) {
        let id = self.made_id(record);
        info["id"] = id.clone().into();
        self.put(record.seq, id, info, parts);
    }

    fn put(&mut self, seq: Seq, id: String, info: Value, parts: Vec<Value>) {
        let session = self.summary.session.as_str();
        let time = self.last_time;
        let parts = parts.into_iter().enumerate().map(|(place, part)| {
            let mut fields = Map::new();
            fields.insert("id".into(), format!("prt_{}Z{seq:011}{place:04}", time_letters(time)).into());
            fields.insert("sessionID".into(), session.into());
            fields.insert("messageID".into(), id.as_str().into());
            if let Value::Object(part) = part {
                fields.extend(part);
            }
            Value::Object(fields)
        });
        let parts = parts.collect();
        self.messages.push(Message { seq, id, info, parts });
    }

    /// An id that sorts after every earlier one: the letter after the time is above what most fresh ids have there.
    fn made_id(&mut self, record: &Record) -> String {
        self.last_time = self.last_time.max(record.at.0);
        let made = |time: u64| format!("msg_{}Z{:015}", time_letters(time), record.seq);
        if self.messages.last().is_some_and(|last| made(self.last_time) <= last.id) {
            self.last_time += 1;
        }
        made(self.last_time)
    }
}

fn calls(facts: &[Record]) -> HashMap<&CallId, CallFacts<'_>> {
    let mut calls: HashMap<&CallId, CallFacts<'_>> = HashMap::new();
    for record in facts {
        let Some(known) = about(&record.event).map(|call| calls.entry(call).or_default()) else { continue };
        match &record.event {
            Event::Called { tool, input, title, .. } => {
                (known.tool, known.title, known.input, known.called) = (tool, title, Some(input), record.at);
            }
            Event::Looked { input, .. } => known.input = Some(input),
            Event::CallStarted { .. } => known.started = Some(record.at),
            Event::CallFinished { outcome, .. } => known.ended = Some((record.at, End::Outcome(outcome))),
            Event::TaskStarted { task, spawn, .. } => known.task = Some((task, spawn)),
            Event::TaskEnded { how, result, .. } => known.ended = Some((record.at, End::Task(*how, result))),
            _ => {}
        }
    }
    calls
}

/// The call whose state a fact changes.
fn about(event: &Event) -> Option<&CallId> {
    match event {
        Event::Called { call, .. }
        | Event::Looked { call, .. }
        | Event::CallStarted { call, .. }
        | Event::CallFinished { call, .. }
        | Event::TaskStarted { call, .. }
        | Event::TaskEnded { to: To::Call { call }, .. } => Some(call),
        _ => None,
    }
}

/// The calls of the reply at this place: so many follow it before anything else is called.
fn called_by(facts: &[Record], reply: Seq, calls: u64) -> Vec<&CallId> {
    let after = &facts[facts.partition_point(|record| record.seq <= reply)..];
    let until = after.iter().take_while(|record| !matches!(record.event, Event::Replied { .. } | Event::StepStarted { .. }));
    let called = until.filter_map(|record| match &record.event {
        Event::Called { call, .. } => Some(call),
        _ => None,
    });
    called.take(usize::try_from(calls).unwrap_or(usize::MAX)).collect()
}

/// A part of an entry, a note or a reply; calls have their own, and what only a provider understands has none.
fn part(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text { text, .. } if text.is_blank() => return None,
        Part::Text { text, synthetic: false } => json!({"type": "text", "text": words(text)}),
        Part::Text { text, synthetic: true } => json!({"type": "text", "text": words(text), "synthetic": true}),
        Part::Reasoning { text, .. } => json!({"type": "reasoning", "text": words(text)}),
        Part::File { mime, name, data } => {
            let url = data.as_ref().map_or_else(|| format!("file://{name}"), |data| format!("data:{mime};base64,{}", words(data)));
            json!({"type": "file", "mime": mime, "filename": name, "url": url})
        }
        Part::Agent { name } => json!({"type": "agent", "name": name}),
        Part::Subtask { agent, description, prompt, command, model: wanted, .. } => {
            let mut fields = json!({"type": "subtask", "agent": agent, "description": description, "prompt": words(prompt)});
            if let Some((provider, model)) = wanted.as_deref().map(model) {
                fields["model"] = json!({"providerID": provider, "modelID": model});
            }
            if let Some(command) = command {
                fields["command"] = command.as_str().into();
            }
            fields
        }
        Part::Patch { path, before, after, .. } => {
            json!({"type": "patch", "hash": if after.is_empty() { before } else { after }, "files": [path]})
        }
        Part::Compaction { .. } => json!({"type": "compaction", "auto": true}),
        Part::Compact { .. } => json!({"type": "compaction", "auto": false}),
        Part::Retry { attempt, error } => json!({"type": "retry", "attempt": attempt, "error": problem(None, error)}),
        Part::Call { .. } | Part::Opaque { .. } => return None,
    })
}

/// What a call changed: the hash of each file and its path.
fn changed_files<'a>(call: &CallFacts<'a>) -> Vec<(&'a str, &'a str)> {
    let Some((_, End::Outcome(Outcome::Done { attachments, .. }))) = &call.ended else { return Vec::new() };
    let patches = attachments.iter().filter_map(|part| match part {
        Part::Patch { path, before, after, .. } => Some((if after.is_empty() { before.as_str() } else { after.as_str() }, path.as_str())),
        _ => None,
    });
    patches.collect()
}

fn patches(event: &Event) -> Vec<(&str, u64, u64)> {
    let Event::CallFinished { outcome: Outcome::Done { attachments, .. }, .. } = event else { return Vec::new() };
    let patches = attachments.iter().filter_map(|part| match part {
        Part::Patch { path, added, removed, .. } => Some((path.as_str(), *added, *removed)),
        _ => None,
    });
    patches.collect()
}

/// The result with the id that resumes it, as the model of this dialect reads it.
fn task_output(tool: &str, task: &SessionId, text: String) -> String {
    if text.contains(task.as_str()) {
        return text;
    }
    match tool {
        "task" => format!("{text}\n\n<task_metadata>\nsession_id: {task}\ntask_id: {task}\n</task_metadata>"),
        _ => format!("{text}\n\ntask_id: {task}"),
    }
}

fn spoiled(how: &str, partial: &Text) -> String {
    if partial.is_blank() { how.to_owned() } else { format!("{how}\n{}", words(partial)) }
}

fn reason(finish: Finish, calls: bool) -> &'static str {
    match finish {
        _ if calls => "tool-calls",
        Finish::Calls => "tool-calls",
        Finish::Stop => "stop",
        Finish::Length => "length",
        Finish::Refusal => "content-filter",
        Finish::Other => "other",
    }
}

fn problem(failure: Option<ModelFailure>, words: &str) -> Value {
    let plain = |name: &str| json!({"name": name, "data": {"message": words}});
    match failure {
        None => plain("MessageAbortedError"),
        Some(ModelFailure::Auth | ModelFailure::NeedsModel) => plain("ProviderAuthError"),
        Some(ModelFailure::TooLong) => plain("ContextOverflowError"),
        Some(failure) => {
            let again = !matches!(failure, ModelFailure::BadRequest | ModelFailure::Deadline);
            json!({"name": "APIError", "data": {"message": words, "isRetryable": again}})
        }
    }
}

fn tokens(usage: Usage) -> Value {
    json!({
        "input": usage.input, "output": usage.output, "reasoning": 0,
        "cache": {"read": usage.cache_read, "write": usage.cache_write},
    })
}

/// `provider/model` as two words.
fn model(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// The input as the model wrote it; what is no object is kept as text.
fn input(text: Option<&Text>) -> Value {
    let text = text.map_or(String::new(), words);
    match serde_json::from_str(&text) {
        Ok(value @ Value::Object(_)) => value,
        _ if text.trim().is_empty() => json!({}),
        _ => json!({ "raw": text }),
    }
}

fn words(text: &Text) -> String {
    match text {
        Text::Inline(words) => words.clone(),
        Text::Stored { bytes, .. } => format!("({bytes} bytes of text that could not be read back)"),
    }
}

/// The time as ids write it: ten letters that sort.
fn time_letters(millis: u64) -> String {
    const LETTERS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    (0..10).rev().map(|place| char::from(LETTERS[(millis >> (5 * place) & 31) as usize])).collect()
}
