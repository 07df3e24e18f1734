//! `task_merge` or `TaskMerge`: brings home what a task has changed in its worktree.
//!
//! Judged by every file that would change, like an edit of each, and by a key of its own that asks by default. Whole or
//! not at all: conflicts are told by file and place, and nothing is changed then.

use std::{
    collections::{BTreeSet, HashMap},
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use posse_session::{
    BoxFuture, Look, Outcome, Part, SessionId, TaskView, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace, Worktree, clip,
};
use serde_json::{Value, json};

use super::{Dialect, TASK, words};
use crate::{
    arguments::{Arguments, Parameter},
    change::{Before, patch},
    paths::Place,
    text::{small, title},
    worktree::{After, Conflict, MergeError, Merged, Onto, Provenance, Worktrees},
};

const ONTO: Parameter = Parameter::new("onto", &["branch"]);

/// The key of rules about bringing work home, in every dialect.
const KEY: &str = "task_merge";

/// How ids begin: what is no longer means everybody.
const PREFIX: &str = "ses_";

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
    /// What the verdict was about, by how the model named the task, until that is merged.
    judged: Mutex<HashMap<String, (String, Vec<Touch>)>>,
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
                "task_id": {"type": "string", "description": "The id or the name of a task that works in a worktree and has ended."},
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
        let worktree = self.worktrees.find(task)?.ok_or_else(|| nothing(task))?;
        if Path::new(&worktree.home) != workspace.root() {
            return Err(format!("The worktree of {task} was made from {}: only who works there can bring it home.", worktree.home));
        }
        Ok(worktree)
    }
}

/// The same words whether its folder is there, is being removed or is gone: which of them it is by now is nobody's concern.
fn nothing(task: &str) -> String {
    format!(
        "There is nothing to bring home of {task}: it changed nothing, or its work was brought home or thrown away before, or it was not started with `isolation: \"worktree\"`. Nothing was changed."
    )
}

/// What a merge would touch: this task, every file it has changed (so many), and every file that this changes where it is brought.
fn touches(
    worktrees: &Worktrees,
    task: &str,
    worktree: &Worktree,
    onto: &Onto,
    workspace: &dyn Workspace,
) -> Result<(Vec<Touch>, BTreeSet<String>, usize), String> {
    let files = worktrees.diff(worktree)?.files;
    let count = files.len();
    let mut paths: BTreeSet<String> = files.into_iter().flat_map(|file| std::iter::once(file.path).chain(file.from)).collect();
    // Where it cannot be foreseen (a conflict), the merge will say so and change nothing.
    paths.extend(worktrees.foreseen(worktree, onto).unwrap_or_default());
    let mut touches = vec![Touch::new(KEY, task)];
    for path in &paths {
        touches.extend(Place::of(workspace, &workspace.root().join(path).to_string_lossy())?.edit_touches());
    }
    touches.dedup();
    Ok((touches, paths, count))
}

/// The task that is meant: by its id, by the name it was given last, or by the start of an id that no other has.
fn meant<'a>(views: &'a [TaskView], wanted: &str) -> Option<&'a TaskView> {
    let by_id = || views.iter().find(|view| view.task.as_str() == wanted);
    let by_name = || views.iter().rfind(|view| view.name.as_deref() == Some(wanted));
    let by_start = || {
        let mut starting = views.iter().filter(|view| PREFIX.len() < wanted.len() && view.task.as_str().starts_with(wanted));
        starting.next().filter(|_| starting.next().is_none())
    };
    by_id().or_else(by_name).or_else(by_start)
}

impl Tool for TaskMerge {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let wanted = self.wanted(input)?;
        self.look_at_task(input, &SessionId::new(wanted.task), workspace)
    }

    fn task_meant(&self, input: &Value) -> Option<String> {
        self.wanted(input).ok().map(|wanted| wanted.task)
    }

    fn look_at_task(&self, input: &Value, task: &SessionId, workspace: &dyn Workspace) -> Result<Look, String> {
        let (wanted, task) = (self.wanted(input)?, task.as_str());
        let worktree = self.worktree(task, workspace)?;
        let touched = touches(&self.worktrees, task, &worktree, &wanted.onto, workspace);
        // Its folder may have been removed below our feet.
        let (touches, _, count) = match touched {
            Err(_) if self.worktrees.find(task)?.is_none() => return Err(nothing(task)),
            touched => touched?,
        };
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted.task, (task.to_owned(), touches.clone()));
        let title = title(&format!("{task}: {}", counted(count)));
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
        let branch = if let Onto::Branch(branch) = &wanted.onto { Some(branch.clone()) } else { None };
        let views = context.delegate.list().await?;
        let view = meant(&views, &wanted.task).cloned();
        let view = view.ok_or_else(|| format!("`{}` is no task of yours, so you cannot bring its work home.", wanted.task))?;
        if !words::is_over(view.status) {
            return Err(format!("The task {} is still at work. Wait for its end, or stop it, before you bring its work home.", view.task));
        }
        let worktree = self.worktree(view.task.as_str(), &*context.workspace)?;
        let judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner).remove(&wanted.task);
        let (workspace, task) = (context.workspace.clone(), view.task.to_string());
        let (worktrees, provenance) = (self.worktrees.clone(), provenance(&view));
        let merging = tokio::task::spawn_blocking(move || {
            // A message may wake it meanwhile.
            let alone = worktrees.alone(&worktree)?;
            if worktrees.find(&task)?.is_none() {
                alone.retire();
                return Err(MergeError::NothingNew);
            }
            let (touches, paths, _) = touches(&worktrees, &task, &worktree, &wanted.onto, &*workspace)?;
            let is_judged = |(judged, by): &(String, Vec<Touch>)| *judged == task && touches.iter().all(|touch| by.contains(touch));
            if judged.is_some_and(|judged| !is_judged(&judged)) {
                return Err(format!("What {task} would change is not what it was when this call was judged. Call again.").into());
            }
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
                output: done(&view, &merged, branch.as_deref()).into(),
                title: title(&format!("{} is {}", view.task, branch.map_or("home".to_owned(), |branch| format!("on {branch}")))),
                metadata: small(described(&merged), "files"),
                attachments,
            },
            Err(MergeError::NothingNew) => Outcome::done(nothing(view.task.as_str())),
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

fn done(view: &TaskView, merged: &Merged, branch: Option<&str>) -> String {
    let (task, files) = (&view.task, counted(merged.files.len()));
    let mut lines = vec![match branch {
        None => format!("The work of {task} is home ({files}):"),
        Some(branch) => format!("The work of {task} is a commit on the branch {branch} ({files}):"),
    }];
    for file in merged.files.iter().take(NAMED_MAX) {
        let places: Vec<String> = file.hunks.iter().take(NAMED_MAX).map(|(start, count)| format!("{start}+{count}")).collect();
        let places = if places.is_empty() { String::new() } else { format!(" (lines {})", places.join(", ")) };
        lines.push(format!("- {} {}{places}", file.status.word(), file.path));
    }
    lines.extend(more(merged.files.len()));
    lines.extend(merged.notes.iter().cloned());
    lines.push(match branch {
        None => "Read a file again before you change it.".to_owned(),
        Some(_) => "Your folder is as it was.".to_owned(),
    });
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
