//! What the demo's model says. It is a script and no language model, and is called so wherever its name is shown.
//!
//! An answer follows from the conversation alone, so a process that goes on after a crash hears what the one before it
//! would have heard. The one exception is the crash itself: in the first life both agents are brought to the moment in
//! which the process kills itself.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use posse_models::{Scripted, ScriptedReply, Seen};
use posse_session::{Block, Model, ModelFacts, Prices, Role};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::build;

/// The name under which every list and log shows it.
pub(crate) const MODEL: &str = "scripted/demo";

/// Only `posse demo` sets it, for the processes that it starts.
pub(super) const VARIABLE: &str = "POSSE_DEMO";

pub(super) const PROMPT: &str = "Make tests.sh pass";
pub(super) const TRIM: &str = "trimmer";
pub(super) const PAD: &str = "padder";
const TRIM_PROMPT: &str = "`trim` in text.sh leaves spaces at the end. Mend it, test it, commit it.";
const PAD_PROMPT: &str = "`pad` in text.sh adds a dot too many. Mend it, and note it in CHANGES.txt.";

/// The file in which the padder notes what it did; its line would be there twice if the command had run twice.
pub(super) const NOTES: &str = "CHANGES.txt";

/// The padder's slow command writes its line at once and then takes longer than the process lives.
const SLOW: &str = "echo 'pad fills up to its width' >> CHANGES.txt && sleep 30";

pub(super) const TRIM_BROKEN: &str = "    while [ \"${text# }\" != \"$text\" ]; do text=${text# }; done\n";
pub(super) const TRIM_MENDED: &str = "    while [ \"${text# }\" != \"$text\" ]; do text=${text# }; done\n    while [ \"${text% }\" != \"$text\" ]; do text=${text% }; done\n";
pub(super) const PAD_BROKEN: &str = "while [ \"${#text}\" -le \"$2\" ]";
pub(super) const PAD_MENDED: &str = "while [ \"${#text}\" -lt \"$2\" ]";

/// How long an agent of the first life waits for the crash. Longer than the demo waits for it, so that it is missed there.
const HOLD: Duration = Duration::from_secs(60);

/// How long the slow command may take to write its line before the crash is called off, and how often it is looked for.
const NOTED_MAX: Duration = Duration::from_secs(15);
const NOTED_LOOK: Duration = Duration::from_millis(10);

/// What a process of the demo has to know of the play.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Cue {
    /// The repository that the agents' worktrees are made from.
    pub(super) project: PathBuf,
    /// The first life: it kills itself once both agents have edited.
    pub(super) dies: bool,
    /// How long an answer takes, so that a person can read along.
    pub(super) pace_ms: u64,
}

impl Cue {
    /// As the environment says it.
    pub(super) fn words(&self) -> String {
        json!(self).to_string()
    }
}

/// The demo's model, in a process that `posse demo` has started. Nobody else can choose it.
pub(crate) fn model() -> Option<Arc<dyn Model>> {
    let cue: Cue = serde_json::from_str(&build::env(VARIABLE)?).ok()?;
    let facts = ModelFacts {
        name: MODEL.to_owned(),
        provider: "scripted".to_owned(),
        context: 200_000,
        output: 8_192,
        prices: Prices::default(),
        images: false,
    };
    let moment = Arc::new(Mutex::new(Moment::default()));
    Some(Arc::new(Scripted::with(move |seen| answer(seen, &cue, &moment)).with_facts(facts)))
}

fn answer(seen: &Seen, cue: &Cue, moment: &Arc<Mutex<Moment>>) -> ScriptedReply {
    let first = texts(seen).next().unwrap_or_default();
    let reply = if first.starts_with(TRIM_PROMPT) {
        if seen.position == TRIM_WAITS && cue.dies {
            Moment::comes(moment, |moment| moment.trimmer_waits = true);
            return trimmer(seen.position).after(HOLD);
        }
        trimmer(seen.position)
    } else if first.starts_with(PAD_PROMPT) {
        if seen.position == PAD_IS_SLOW && cue.dies {
            Moment::comes(moment, |moment| moment.padder_notes = folder(seen).map(|folder| folder.join(NOTES)));
        }
        padder(seen.position, &cue.project)
    } else {
        lead(seen)
    };
    reply.after(Duration::from_millis(cue.pace_ms))
}

/// The agent that the user talks to. Tasks end in any order, so it goes by what it has heard and not by its position.
fn lead(seen: &Seen) -> ScriptedReply {
    let tasks = started(seen);
    // Results of calls are blocks of another kind: an id in a text is a notice.
    let is_back = |task: &String| texts(seen).any(|text| text.contains(&format!("task_id: {task}")));
    match (&tasks[..], results(seen, "task_merge").last()) {
        ([], _) if seen.position == 0 => {
            let errand = |name: &str, what: &str, prompt: &str| {
                json!({"name": name, "description": what, "prompt": prompt, "subagent_type": "general",
                       "isolation": "worktree", "run_in_background": true})
            };
            ScriptedReply::text("trim and pad fail: an agent for each, in a worktree of its own.")
                .and_call("agent", errand(TRIM, "mend trim", TRIM_PROMPT))
                .and_call("agent", errand(PAD, "mend pad", PAD_PROMPT))
        }
        (_, Some((_, false))) => {
            ScriptedReply::text(format!("The trimmer's work is home. The padder's waits for you: posse tasks merge {PAD}"))
        }
        (_, Some((text, true))) => ScriptedReply::text(format!("The trimmer's work is not home: {text}")),
        ([trimmer, padder], None) if is_back(trimmer) && is_back(padder) => {
            ScriptedReply::text("Both are done. First the trimmer's work.").and_call("task_merge", json!({"task_id": trimmer}))
        }
        ([_, _], None) if tasks.iter().any(is_back) => ScriptedReply::text("One of two is done."),
        ([_, _], None) => ScriptedReply::text("Both are at work."),
        _ => ScriptedReply::text("The agents could not be started."),
    }
}

/// The position at which the trimmer has edited and tested, and is about to commit.
const TRIM_WAITS: usize = 3;

fn trimmer(position: usize) -> ScriptedReply {
    match position {
        0 => ScriptedReply::call("read", json!({"filePath": "text.sh"})),
        1 => edit(TRIM_BROKEN, TRIM_MENDED),
        2 => bash("sh tests.sh trim", "Test trim"),
        TRIM_WAITS => bash("git commit -qam 'trim both ends'", "Commit"),
        _ => ScriptedReply::text("trim takes spaces off both ends now; committed on my branch."),
    }
}

/// The position of the padder's slow command, in which it is killed.
const PAD_IS_SLOW: usize = 3;

fn padder(position: usize, project: &Path) -> ScriptedReply {
    match position {
        0 => ScriptedReply::call("read", json!({"filePath": "text.sh"})),
        1 => edit(PAD_BROKEN, PAD_MENDED),
        // Out of its worktree, over the user's file: that is asked.
        2 => bash(&way_out(project), "Copy it over the original"),
        PAD_IS_SLOW => bash(SLOW, "Note the change"),
        // It was told that nobody knows how the command ended: it looks, and does not run it again.
        4 => bash("cat CHANGES.txt && sh tests.sh pad", "Look what became of it"),
        _ => ScriptedReply::text("pad fills up to its width now; the note is there once. Nothing is committed."),
    }
}

fn edit(old: &str, new: &str) -> ScriptedReply {
    ScriptedReply::call("edit", json!({"filePath": "text.sh", "oldString": old, "newString": new}))
}

fn bash(command: &str, description: &str) -> ScriptedReply {
    ScriptedReply::call("bash", json!({"command": command, "description": description}))
}

/// What the padder would do to the user's own file.
pub(super) fn way_out(project: &Path) -> String {
    format!("cp text.sh '{}'", project.join("text.sh").display().to_string().replace('\'', "'\\''"))
}

fn texts(seen: &Seen) -> impl Iterator<Item = &str> {
    let said = seen.messages.iter().filter(|message| message.role == Role::User).flat_map(|message| &message.blocks);
    said.filter_map(|block| if let Block::Text { text } = block { Some(text.as_str()) } else { None })
}

/// What the calls of a tool came to, in order, and whether that is an error.
fn results<'a>(seen: &'a Seen, name: &'a str) -> impl Iterator<Item = (&'a str, bool)> {
    let blocks = || seen.messages.iter().flat_map(|message| &message.blocks);
    let calls = move |wanted: &str| {
        blocks().any(|block| matches!(block, Block::Call { id, tool, .. } if id == wanted && tool.eq_ignore_ascii_case(name)))
    };
    blocks().filter_map(move |block| match block {
        Block::Result { id, text, error, .. } if calls(id) => Some((text.as_str(), *error)),
        _ => None,
    })
}

/// The tasks that were started, in the order of their calls.
fn started(seen: &Seen) -> Vec<String> {
    let id = |text: &str| Some(text.rsplit_once("task_id: ")?.1.trim().to_owned());
    results(seen, "agent").filter(|(_, error)| !error).filter_map(|(text, _)| id(text)).collect()
}

/// The folder in which the agent works, as it was told.
fn folder(seen: &Seen) -> Option<PathBuf> {
    let lines = seen.head.system.iter().flat_map(|block| block.lines());
    lines.filter_map(|line| line.strip_prefix("Working directory: ")).next().map(PathBuf::from)
}

/// How far both agents are in the first life.
#[derive(Debug, Default)]
struct Moment {
    trimmer_waits: bool,
    /// The padder's slow command is about to begin: its first deed will be seen here.
    padder_notes: Option<PathBuf>,
}

impl Moment {
    /// One of the two has come so far. When both have, this process dies in the middle of the slow command.
    fn comes(moment: &Arc<Mutex<Self>>, so_far: impl FnOnce(&mut Self)) {
        let mut moment = moment.lock().unwrap_or_else(PoisonError::into_inner);
        so_far(&mut moment);
        if let (true, Some(notes)) = (moment.trimmer_waits, moment.padder_notes.take()) {
            std::thread::spawn(move || die_when_there(&notes));
        }
    }
}

/// `kill -9` to this very process, once the command has begun to act.
fn die_when_there(file: &Path) {
    let began = Instant::now();
    while began.elapsed() < NOTED_MAX {
        if std::fs::metadata(file).is_ok_and(|file| 0 < file.len()) {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        std::thread::sleep(NOTED_LOOK);
    }
}
