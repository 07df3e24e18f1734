//! `apply_patch`: changes to several files as one patch, all of them or none.
//!
//! `apply_patch/parse.rs` reads the patch, `locate.rs` finds the places. Here the whole patch is played on texts in memory
//! first; only when every part of it fits are files written, and if a write fails, those before it are put back.

mod locate;
mod parse;

use std::sync::Arc;

use posse_session::{BoxFuture, Look, Outcome, Part, Tool, ToolCall, ToolContext, ToolSpec, Touch, Workspace};
use serde_json::{Value, json};

use self::{
    locate::{How, Placed, patched},
    parse::{Action, Hunk, Section, parse},
};
use crate::{
    arguments::{Arguments, Parameter},
    blocking::blocking,
    change::{self, Before},
    edit::unified,
    files::{self, Loaded, Memory},
    judged::Judged,
    paths::{Place, trouble},
    private::Private,
    text::{count, small, title},
};

const PATCH_TEXT: Parameter = Parameter::new("patchText", &["patch", "input", "diff"]);

/// The names of all files together: a record of each must fit into one event of the log.
const NAMES_BYTES_MAX: usize = 6 * 1024;
/// All files of a patch are in memory at once, as they are and as they will be.
const FILES_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Lines named for one file.
const PLACES_MAX: usize = 20;

pub(crate) struct ApplyPatch {
    spec: ToolSpec,
    judged: Judged,
}

/// What a patch wants of one file.
struct Step {
    place: Place,
    wants: Wants,
}

enum Wants {
    Add(Vec<String>),
    Delete,
    Update { hunks: Vec<Hunk>, to: Option<Place> },
}

/// A file that the patch touches: as it is on the disk, and as it is with the patch.
struct Touched {
    place: Place,
    was: Option<Loaded>,
    now: Option<Vec<u8>>,
    /// The mode of a new file that was moved here.
    mode: Option<u32>,
    /// What was done to it, for the model.
    words: String,
}

impl ApplyPatch {
    pub(crate) fn new() -> Self {
        let spec = ToolSpec {
            name: "apply_patch".into(),
            description: "Change, create, delete and move files by one patch: all of it is applied, or nothing if a part does not fit. Between \
                `*** Begin Patch` and `*** End Patch` stand sections: `*** Update File: path` (optionally followed by `*** Move to: path`), \
                `*** Add File: path`, `*** Delete File: path`. An update has hunks; each begins with `@@`, which may be followed by a line that \
                stands above the change (a class, a function), and has lines that begin with a blank (context), `-` (removed) or `+` (added). \
                Give about three lines of context around a change, exactly as they stand in the file, and hunks in the order of the file. \
                `*** End of File` after a hunk says that it ends the file. Every line of a new file begins with `+`. Paths are relative to the \
                working directory, or absolute."
                .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "patchText": {"type": "string", "description": "The whole patch, from `*** Begin Patch` to `*** End Patch`."}
                },
                "required": ["patchText"]
            }),
        };
        Self { spec, judged: Judged::default() }
    }
}

impl Tool for ApplyPatch {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn look(&self, input: &Value, workspace: &dyn Workspace) -> Result<Look, String> {
        let steps = wanted(input, workspace)?;
        for (nth, place) in places(&steps).enumerate() {
            self.judged.note_file(&part(input, nth), &place.edit_touches(), place);
        }
        let touches = touches(&steps);
        let others = steps.len().saturating_sub(1);
        let more = if others == 0 { String::new() } else { format!(" and {others} more") };
        let first = steps.first().map_or("", |step| step.place.name.as_str());
        Ok(Look { touches, repeatable: false, title: title(&format!("{first}{more}")), ..Look::default() })
    }

    fn run<'a>(&'a self, call: &'a ToolCall, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let workspace = &*context.workspace;
            let steps = wanted(&call.input, workspace).and_then(|steps| {
                for (nth, place) in places(&steps).enumerate() {
                    self.judged.check(&part(&call.input, nth), &place.edit_touches(), place)?;
                }
                Ok(steps)
            });
            let (private, memory) = (Private::of(workspace), Arc::clone(&context.memory));
            blocking("apply_patch", context, move |stopped| apply(steps?, &private, &memory, stopped)).await
        })
    }
}

impl Step {
    fn places(&self) -> impl Iterator<Item = &Place> {
        let to = match &self.wants {
            Wants::Update { to, .. } => to.as_ref(),
            Wants::Add(_) | Wants::Delete => None,
        };
        std::iter::once(&self.place).chain(to)
    }
}

fn wanted(input: &Value, workspace: &dyn Workspace) -> Result<Vec<Step>, String> {
    let sections = parse(Arguments::new("apply_patch", input)?.filled_text(PATCH_TEXT)?)?;
    let place = |path: &str| {
        let place = Place::of(workspace, path)?;
        place.writable().map(|()| place)
    };
    let step = |section: Section| {
        let wants = match section.action {
            Action::Add { lines } => Wants::Add(lines),
            Action::Delete => Wants::Delete,
            Action::Update { to, hunks } => Wants::Update { hunks, to: to.map(|to| place(&to)).transpose()? },
        };
        Ok(Step { place: place(&section.path)?, wants })
    };
    let steps: Vec<Step> = sections.into_iter().map(step).collect::<Result<_, String>>()?;
    let names: usize = places(&steps).map(|place| place.name.len()).sum();
    if NAMES_BYTES_MAX < names {
        return Err(format!(
            "apply_patch: the names of the files have {names} bytes together; at most {NAMES_BYTES_MAX} in one call. Send it in parts."
        ));
    }
    Ok(steps)
}

/// Every file the patch names, in its order.
fn places(steps: &[Step]) -> impl Iterator<Item = &Place> {
    steps.iter().flat_map(Step::places)
}

/// Each file of a patch is judged for itself.
fn part(input: &Value, nth: usize) -> Value {
    json!([input, nth])
}

fn touches(steps: &[Step]) -> Vec<Touch> {
    let mut touches: Vec<Touch> = Vec::new();
    for touch in places(steps).flat_map(Place::edit_touches) {
        if !touches.contains(&touch) {
            touches.push(touch);
        }
    }
    touches
}

fn apply(steps: Vec<Step>, private: &Private, memory: &Memory, stopped: &dyn Fn() -> bool) -> Result<Outcome, String> {
    let _only = files::one_writer();
    let mut desk = Desk { private, memory, touched: Vec::new() };
    for step in &steps {
        desk.play(step).map_err(|words| format!("The patch was not applied, and nothing was changed: {words}"))?;
    }
    let mut touched = desk.touched;
    touched.retain(|file| file.was.as_ref().map(|was| &was.bytes) != file.now.as_ref());
    if touched.is_empty() {
        return Err("The patch leaves every file as it is, so nothing was written.".into());
    }
    if stopped() {
        return Ok(Outcome::cancelled("Stopped before anything was written."));
    }
    // Nothing is removed before what was moved is safely written.
    touched.sort_by_key(|file| file.now.is_none());
    write_all(&touched, private)?;
    for file in &touched {
        files::remember(memory, &file.place, file.now.as_deref());
    }
    Ok(done(&touched))
}

/// Plays a patch on texts in memory.
struct Desk<'a> {
    private: &'a Private,
    memory: &'a Memory,
    touched: Vec<Touched>,
}

impl Desk<'_> {
    fn play(&mut self, step: &Step) -> Result<(), String> {
        let name = &step.place.name;
        let index = self.take(&step.place)?;
        let file = &mut self.touched[index];
        match &step.wants {
            Wants::Add(_) if file.now.is_some() => Err(format!(
                "{name} exists already. Change it with `*** Update File:`, or replace it by `*** Delete File:` followed by `*** Add File:`."
            )),
            Wants::Add(lines) => {
                file.now = Some(lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>().into_bytes());
                file.words = format!("Added {name} ({})", count(lines.len() as u64, "line"));
                Ok(())
            }
            _ if file.now.is_none() => Err(trouble(&step.place, &std::io::ErrorKind::NotFound.into())),
            Wants::Delete => {
                file.now = None;
                file.words = format!("Deleted {name}");
                Ok(())
            }
            Wants::Update { hunks, to } => {
                file.update(hunks)?;
                to.as_ref().map_or(Ok(()), |to| self.rename(index, to))
            }
        }
    }

    /// The file as the patch has left it so far.
    fn take(&mut self, place: &Place) -> Result<usize, String> {
        if let Some(known) = self.touched.iter().position(|file| file.place.real == place.real) {
            return Ok(known);
        }
        let was = files::load(place, self.private)?;
        if let Some(Ok(text)) = was.as_ref().map(|was| str::from_utf8(&was.bytes))
            && files::is_stale(self.memory, place, text)
        {
            return Err(files::stale_words(place));
        }
        let bytes = |was: Option<&Loaded>| was.map_or(0, |was| was.bytes.len());
        let all = bytes(was.as_ref()) + self.touched.iter().map(|file| bytes(file.was.as_ref())).sum::<usize>();
        if FILES_BYTES_MAX < all {
            return Err(format!(
                "its files have {all} bytes together; at most {FILES_BYTES_MAX} can be changed in one call. Send it in parts."
            ));
        }
        let now = was.as_ref().map(|was| was.bytes.clone());
        self.touched.push(Touched { place: place.clone(), was, now, mode: None, words: String::new() });
        Ok(self.touched.len() - 1)
    }

    fn rename(&mut self, from: usize, to: &Place) -> Result<(), String> {
        let index = self.take(to)?;
        if index == from {
            return Ok(());
        }
        if self.touched[index].now.is_some() {
            return Err(format!("{} exists already, so {} cannot be moved there.", to.name, self.touched[from].place.name));
        }
        let source = &mut self.touched[from];
        let (text, mode) = (source.now.take(), source.was.as_ref().map(|was| was.mode).or(source.mode));
        let changed = std::mem::take(&mut source.words);
        let changed = changed.strip_prefix(&format!("Updated {}", source.place.name)).unwrap_or_default();
        let words = format!("Moved {} to {}{changed}", source.place.name, to.name);
        let target = &mut self.touched[index];
        (target.now, target.mode, target.words) = (text, mode, words);
        Ok(())
    }
}

impl Touched {
    fn update(&mut self, hunks: &[Hunk]) -> Result<(), String> {
        if hunks.is_empty() {
            return Ok(());
        }
        let name = &self.place.name;
        let not_text = || format!("{name} is not UTF-8 text, so it cannot be changed by a patch. Use bash with a suitable program.");
        let text = str::from_utf8(self.now.as_deref().unwrap_or_default()).map_err(|_| not_text())?;
        let done = patched(name, text, hunks)?;
        let places: Vec<String> = done.places.iter().take(PLACES_MAX).map(said).collect();
        let more = if PLACES_MAX < done.places.len() { ", …" } else { "" };
        self.words = format!("Updated {name}: {}{more}", places.join(", "));
        self.now = Some(done.text.into_bytes());
        Ok(())
    }
}

fn said(placed: &Placed) -> String {
    let forgiven = match placed.how {
        How::Exactly => "",
        How::WithoutTrailingBlanks => " (matched except for blanks at the ends of lines)",
        How::WithoutIndentation => " (matched except for indentation; added lines were moved to that of the file)",
        How::WithPlainPunctuation => " (matched except for typographic punctuation)",
    };
    let also = placed.also.map_or(String::new(), |line| format!(" (the same lines stand at line {line} too; the first place was taken)"));
    format!("line {}{forgiven}{also}", placed.line)
}

/// Writes every file; if one cannot be written, those before it are put back.
fn write_all(touched: &[Touched], private: &Private) -> Result<(), String> {
    for (count, file) in touched.iter().enumerate() {
        let written = match &file.now {
            Some(now) => files::write_with_mode(&file.place.real, now, file.mode, private).map(drop),
            None => files::remove_whole(&file.place.real, private),
        };
        let Err(error) = written else { continue };
        let words = trouble(&file.place, &error);
        let stuck: Vec<&str> =
            touched[..count].iter().rev().filter(|file| !put_back(file, private)).map(|file| file.place.name.as_str()).collect();
        return Err(if stuck.is_empty() {
            format!("The patch was not applied; what was written already was put back, so nothing is changed: {words}")
        } else {
            format!("The patch was applied only in part; {} could not be put back: {words}", stuck.join(", "))
        });
    }
    Ok(())
}

fn put_back(file: &Touched, private: &Private) -> bool {
    match &file.was {
        Some(was) => files::write_with_mode(&file.place.real, &was.bytes, Some(was.mode), private).is_ok(),
        None => files::remove_whole(&file.place.real, private).is_ok(),
    }
}

fn done(touched: &[Touched]) -> Outcome {
    let lines: Vec<&str> = touched.iter().map(|file| file.words.as_str()).filter(|words| !words.is_empty()).collect();
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let was = |file: &Touched| file.was.as_ref().map(|was| was.bytes.clone());
    let diff: String =
        touched.iter().filter_map(|file| unified(&file.place.name, &text(was(file).as_deref()), &text(file.now.as_deref()))).collect();
    let names: Vec<&str> = touched.iter().map(|file| file.place.name.as_str()).collect();
    let attachments: Vec<Part> = touched
        .iter()
        .map(|file| {
            let before = file.was.as_ref().map_or(Before::Absent, |was| Before::Content(&was.bytes));
            change::patch(&file.place.name, before, file.now.as_deref(), file.was.as_ref().map(|was| was.mode))
        })
        .collect();
    Outcome::Done {
        output: format!("{}.", lines.join(".\n")).into(),
        title: title(&names.join(", ")),
        metadata: small(json!({"files": names, "diff": diff}), "diff"),
        attachments,
    }
}
