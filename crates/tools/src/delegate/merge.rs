//! `task_merge` or `TaskMerge`: brings home what a task has changed in its worktree.
//!
//! Judged by every file that would change, like an edit of each, and by a key of its own that asks by default. Whole or
//! not at all: conflicts are told by file and place, and nothing is changed then.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use posse_session::{BoxFuture, Look, Outcome, Part, TaskView, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace, Worktree, clip};
use serde_json::{Value, json};

use super::{Dialect, TASK, words};
use crate::{
    arguments::{Arguments, Parameter},
    change::{Before, patch},
    paths::Place,
    text::{small, title},
    worktree::{After, Conflict, DiffFile, MergeError, Merged, Onto, Provenance, Worktrees},
};

const ONTO: Parameter = Parameter::new("onto", &["branch"]);

/// The key of rules about bringing work home, in every dialect.
const KEY: &str = "task_merge";

/// Conflicts and files that a result names; a person sees the rest with `posse tasks diff`.
const NAMED_MAX: usize = 30;

/// Files whose changes are part of the record; what is beyond can be undone with git.
const PATCHES_MAX: usize = 100;

/// What a result shows of one place that is in conflict.
const HUNK_BYTES_MAX: usize = 1_500;

/// And of all of them together.
const SHOWN_BYTES_MAX: usize = 16 * 1024;

pub(super) struct TaskMerge {
    name: &'static str,
    spec: ToolSpec,
    worktrees: Arc<Worktrees>,
    /// What the verdict on a task was about, until it is merged.
    judged: Mutex<HashMap<String, Vec<Touch>>>,
    /// Several calls of one reply are merged in the order in which they were written.
    order: tokio::sync::Mutex<()>,
}

/// What a call wants.
struct Wanted {
    task: String,
    onto: Onto,
}

impl TaskMerge {
    pub(super) fn new(dialect: Dialect, worktrees: &Arc<Worktrees>) -> Self {
        let name = if dialect == Dialect::Claude { "TaskMerge" } else { KEY };
        let description = "Bring home what a task has changed in its worktree: a three-way merge into your folder, as if its changes had been made here. \
            Whole or not at all: where it is in conflict with what is here, you are told the files and places, and nothing is changed. \
            Merge several tasks one after the other. The user is asked before anything changes.";
        let schema = json!({
            "type": "object",
            "properties": {
                "task_id": {"type": "string", "description": "The id of a task that works in a worktree and has ended."},
                "onto": {"type": "string", "description": "A branch that is checked out nowhere: the changes become a commit there instead."},
            },
            "required": ["task_id"]
        });
        let spec = ToolSpec { name: name.into(), description: description.into(), schema };
        Self { name, spec, worktrees: worktrees.clone(), judged: Mutex::default(), order: Default::default() }
    }

    fn wanted(&self, input: &Value) -> Result<Wanted, String> {
        let arguments = Arguments::new(self.name, input)?;
        let task = arguments.filled_text(TASK)?.trim().to_owned();
        let onto = arguments.maybe_text(ONTO)?.map(str::trim).filter(|onto| !onto.is_empty());
        Ok(Wanted { task, onto: onto.map_or(Onto::Home, |branch| Onto::Branch(branch.to_owned())) })
    }

    fn worktree(&self, task: &str, workspace: &dyn Workspace) -> Result<Worktree, String> {
        let none = || {
            format!(
                "There is no worktree of a task `{task}`. Give the id (ses_…) of a task that was started with `isolation: \"worktree\"` and has changed something."
            )
        };
        let worktree = self.worktrees.find(task)?.ok_or_else(none)?;
        if Path::new(&worktree.home) != workspace.root() {
            return Err(format!("The worktree of {task} was made from {}: only who works there can bring it home.", worktree.home));
        }
        Ok(worktree)
    }
}

/// What a merge would touch: this task, and every file it has changed.
fn touches(
    worktrees: &Worktrees,
    task: &str,
    worktree: &Worktree,
    workspace: &dyn Workspace,
) -> Result<(Vec<Touch>, Vec<DiffFile>), String> {
    let files = worktrees.diff(worktree)?.files;
    let mut touches = vec![Touch::new(KEY, task)];
    for file in files.iter().flat_map(|file| std::iter::once(&file.path).chain(&file.from)) {
        touches.extend(Place::of(workspace, &workspace.root().join(file).to_string_lossy())?.edit_touches());
    }
    touches.dedup();
    Ok((touches, files))
}

impl Tool for TaskMerge {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = self.wanted(input)?;
        let worktree = self.worktree(&wanted.task, workspace)?;
        let (touches, files) = touches(&self.worktrees, &wanted.task, &worktree, workspace)?;
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.task.clone(), touches.clone());
        let title = title(&format!("{}: {}", wanted.task, counted(files.len())));
        Ok(Look { touches, repeatable: false, title, ..Look::default() })
    }

    fn looks_slowly(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.merge(&call.input, context).await.unwrap_or_else(Outcome::failed) })
    }
}

impl TaskMerge {
    async fn merge(&self, input: &Value, context: &ToolContext) -> Result<Outcome, String> {
        let _order = self.order.lock().await;
        let wanted = self.wanted(input)?;
        let view = context.delegate.list().await?.into_iter().find(|view| view.task.as_str() == wanted.task);
        let view = view.ok_or_else(|| format!("`{}` is no task of yours, so you cannot bring its work home.", wanted.task))?;
        if !words::is_over(view.status) {
            return Err(format!("The task {} is still at work. Wait for its end, or stop it, before you bring its work home.", view.task));
        }
        let worktree = self.worktree(&wanted.task, &*context.workspace)?;
        let judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner).remove(&wanted.task);
        let (workspace, task) = (context.workspace.clone(), wanted.task.clone());
        let (worktrees, provenance) = (self.worktrees.clone(), provenance(&view));
        let merging = tokio::task::spawn_blocking(move || {
            // A message may wake it meanwhile.
            let alone = worktrees.alone(&worktree)?;
            let (touches, files) = touches(&worktrees, &task, &worktree, &*workspace)?;
            if judged.is_some_and(|judged| judged != touches) {
                return Err(format!("What {task} has changed is not what it was when this call was judged. Call again.").into());
            }
            let paths: BTreeSet<String> = files.into_iter().flat_map(|file| std::iter::once(file.path).chain(file.from)).collect();
            let merged = worktrees.merge(&worktree, &wanted.onto, &provenance, After::Release, Some(&paths))?;
            let patches = if wanted.onto == Onto::Home { patches(&worktrees, &worktree, &merged) } else { Vec::new() };
            if merged.released {
                alone.retire();
            }
            Ok((merged, patches))
        });
        let merged: Result<_, MergeError> = merging.await.map_err(|error| format!("the merge broke off: {error}"))?;
        Ok(match merged {
            Ok((merged, attachments)) => Outcome::Done {
                output: done(&view, &merged).into(),
                title: title(&format!("{} is home", view.task)),
                metadata: small(described(&merged), "files"),
                attachments,
            },
            Err(MergeError::NothingNew) => {
                Outcome::done(format!("There is nothing new in the worktree of {}: nothing was changed.", view.task))
            }
            Err(MergeError::Conflicts(conflicts)) => Outcome::failed(in_conflict(&view, &conflicts)),
            Err(other) => Outcome::failed(other.to_string()),
        })
    }
}

/// What the merge did to each file, so that it can be told and undone like any other edit.
fn patches(worktrees: &Worktrees, worktree: &Worktree, merged: &Merged) -> Vec<Part> {
    let mut patches = Vec::new();
    for file in merged.files.iter().take(PATCHES_MAX) {
        let Ok((before, after)) = worktrees.contents(worktree, merged, &file.path) else { continue };
        let old = before.as_deref().map_or(Before::Absent, Before::Content);
        patches.push(patch(&file.path, old, after.as_deref(), None));
    }
    patches
}

fn described(merged: &Merged) -> Value {
    let files: Vec<Value> =
        merged.files.iter().map(|file| json!({"path": file.path, "status": file.status.word(), "hunks": file.hunks})).collect();
    json!({"commit": merged.commit, "files": files})
}

/// Who wrote what is merged.
fn provenance(view: &TaskView) -> Provenance {
    Provenance { task: view.task.to_string(), agent: view.agent.clone(), description: view.description.clone() }
}

fn done(view: &TaskView, merged: &Merged) -> String {
    let mut lines = vec![format!("The work of {} is home ({}):", view.task, counted(merged.files.len()))];
    for file in merged.files.iter().take(NAMED_MAX) {
        let places: Vec<String> = file.hunks.iter().take(NAMED_MAX).map(|(start, count)| format!("{start}+{count}")).collect();
        let places = if places.is_empty() { String::new() } else { format!(" (lines {})", places.join(", ")) };
        lines.push(format!("- {} {}{places}", file.status.word(), file.path));
    }
    lines.extend(more(merged.files.len()));
    lines.extend(merged.notes.iter().cloned());
    lines.push("Read a file again before you change it.".to_owned());
    lines.join("\n")
}

/// Every file that is in conflict, with both versions of its places.
fn in_conflict(view: &TaskView, conflicts: &[Conflict]) -> String {
    let mut text = format!(
        "The work of {} is in conflict with what is here in {}. Nothing was changed. Bring your files and its changes together yourself, or tell the task (by its id) what to change and merge again.",
        view.task,
        counted(conflicts.len())
    );
    for conflict in conflicts.iter().take(NAMED_MAX) {
        text.push_str(&format!("\n\n{}: {}", conflict.path, conflict.words));
        for hunk in &conflict.hunks {
            if SHOWN_BYTES_MAX < text.len() {
                break;
            }
            text.push_str(&format!("\nline {}:\n{}", hunk.ours_line, clip(hunk.text.clone(), HUNK_BYTES_MAX)));
        }
    }
    text.extend(more(conflicts.len()).map(|more| format!("\n\n{more}")));
    text
}

fn counted(files: usize) -> String {
    format!("{files} {}", if files == 1 { "file" } else { "files" })
}

fn more(count: usize) -> Option<String> {
    count.checked_sub(NAMED_MAX).filter(|more| 0 < *more).map(|more| format!("(and {more} more)"))
}
