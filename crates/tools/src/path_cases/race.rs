//! What a path case does between the check and the deed, and whether the deed then still happens.
//!
//! A race is a sentence: `when: step and step`. The steps are those of the table in `Race::parse`; another one is an error.
//! The deed is tried twice, as a run that had already checked and as one that checks now: one refusal is enough, because
//! a tool does both.

use std::{fs, io, io::Read as _, os::unix::fs::symlink, path::Path};

use posse_session::Workspace;
use serde_json::Value;

use super::scene::Scene;
use crate::{
    files::{open_regular, write_whole},
    judged::Judged,
    path_verdict::{PathOp, PathVerdict, Whereabouts, judge},
    private::Private,
};

pub(super) struct Race(Vec<Step>);

enum Step {
    Rename { from: String, to: String },
    Link { at: String, target: String },
    ReplaceRoot,
}

impl Race {
    pub(super) fn parse(words: &str) -> Result<Self, String> {
        let steps = words.rsplit_once(": ").map_or(words, |(_, steps)| steps);
        let parse = |step: &str| {
            let words: Vec<&str> = step.split_whitespace().collect();
            match words[..] {
                ["rename", from, "to", to] => Some(Step::Rename { from: from.into(), to: to.into() }),
                ["symlink", at, "->", target] | [at, "replaced", "by", "symlink", "to", target] => {
                    Some(Step::Link { at: at.into(), target: target.into() })
                }
                ["root", "directory", "replaced", ..] => Some(Step::ReplaceRoot),
                _ => None,
            }
        };
        let steps: Option<Vec<Step>> = steps.split(" and ").map(parse).collect();
        steps.map(Self).ok_or_else(|| format!("this race is not understood: {words}"))
    }

    pub(super) fn judge(&self, scene: &Scene, workspace: &dyn Workspace, path: &str, op: PathOp) -> Result<PathVerdict, String> {
        let (before, place) = judge(workspace, path, op);
        let Some(place) = place.filter(|_| before.verdict == Whereabouts::Inside) else { return Ok(before) };
        let touches = |place: &crate::paths::Place| match op {
            PathOp::Read => place.read_touches("read"),
            PathOp::Write => place.edit_touches(),
        };
        let (judged, private, input) = (Judged::default(), Private::of(workspace), Value::from(path));
        judged.note_file(&input, &touches(&place), &place);
        for step in &self.0 {
            step.happen(scene, workspace.root())?;
        }
        let deed = match op {
            PathOp::Write => write_whole(&place.real, b"raced\n", &private),
            PathOp::Read => open_regular(&place.real, &private).and_then(|(mut file, _)| file.read(&mut [0; 1]).map(drop)),
        };
        let (after, again) = judge(workspace, path, op);
        let check = match again {
            Some(again) if after.verdict == Whereabouts::Inside => judged.check(&input, &touches(&again), &again),
            _ => Err(after.why.clone()),
        };
        let deed = deed.map_err(|error| format!("{}: {error}.", place.name));
        Ok(match deed.and(check) {
            Err(why) => PathVerdict { verdict: Whereabouts::Refuse, why, real: place.real },
            Ok(()) => after,
        })
    }
}

impl Step {
    fn happen(&self, scene: &Scene, root: &Path) -> Result<(), String> {
        let done = |error: io::Error| format!("the race could not be run: {error}");
        let own = |name: &str| match Path::new(name).components().all(|part| matches!(part, std::path::Component::Normal(_))) {
            true => Ok(root.join(name)),
            false => Err(format!("the race is about {name}, which is no plain name in the root")),
        };
        match self {
            Self::Rename { from, to } => fs::rename(own(from)?, own(to)?).map_err(done),
            Self::Link { at, target } => {
                let at = own(at)?;
                let was_file = at.symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
                if was_file {
                    fs::remove_file(&at).map_err(done)?;
                }
                symlink(scene.stand_in(target, !was_file)?, at).map_err(done)
            }
            Self::ReplaceRoot => {
                let moved = root.with_extension("replaced");
                fs::rename(root, &moved).and_then(|()| fs::create_dir(root)).map_err(done)?;
                let files = fs::read_dir(moved).map_err(done)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
                files.into_iter().try_for_each(|entry| fs::copy(entry.path(), root.join(entry.file_name())).map(drop)).map_err(done)
            }
        }
    }
}
