//! Path cases: a folder made as a case describes it, and the verdict on a path in it. For `posse rules test`.
//!
//! A case is `{root, setup, path, op}`. What it puts in the first folder of its root (`/w` of `/w/proj`) is made in a private
//! temporary folder; nothing is ever made elsewhere, whatever a case says. What happens between a check and the deed
//! (`race`) is done for real. A kind of setup that is not known is an error, never passed over.

mod race;
mod scene;

use serde_json::Value;

use self::{race::Race, scene::Scene};
use crate::path_verdict::{Bare, PathOp, PathVerdict, Whereabouts, judge};

/// Makes what a case describes, judges its path, and removes it all again. An error says what is wrong with the case, or
/// what this machine does not permit.
pub fn test_path_case(case: &Value) -> Result<PathVerdict, String> {
    let text = |field: &str| case[field].as_str().ok_or_else(|| format!("a path case needs `{field}`, a string"));
    let op = match text("op")? {
        "read" => PathOp::Read,
        "write" => PathOp::Write,
        other => return Err(format!("`op` must be read or write, not {other}")),
    };
    let scene = Scene::new(text("root")?)?;
    let (mut race, mut way) = (None, Way::Tool);
    for entry in case["setup"].as_array().ok_or("a path case needs `setup`, a list")? {
        if let Some(words) = entry["race"].as_str() {
            race = Some(Race::parse(words)?);
        } else if let Some(words) = entry["via"].as_str() {
            way = Way::parse(words, entry)?;
        } else {
            scene.make(entry)?;
        }
    }
    let root = scene.make_root()?;
    let path = match way {
        Way::Address => decoded(text("path")?.trim_start_matches("file://")),
        _ => text("path")?.to_owned(),
    };
    let workspace = Bare::open(&root).map_err(|error| format!("the root cannot be opened: {error}"))?;
    let mapped = scene.mapped(&path);
    let found = match (race, way) {
        (Some(race), _) => race.judge(&scene, &workspace, &mapped, op)?,
        (None, Way::Archive { links }) => in_archive(&path, links, judge(&workspace, &mapped, op).0),
        (None, _) => judge(&workspace, &mapped, op).0,
    };
    Ok(PathVerdict { why: scene.unmapped(&found.why), real: scene.unmapped(&found.real.to_string_lossy()).into(), ..found })
}

/// How a path came to us.
enum Way {
    Tool,
    /// In an address, where letters may be written as `%2e`; that is read once.
    Address,
    /// As the name of a member; `links`: some member is no ordinary file.
    Archive {
        links: bool,
    },
}

impl Way {
    fn parse(words: &str, entry: &Value) -> Result<Self, String> {
        let words = words.to_lowercase();
        let says = |names: &[&str]| names.iter().any(|name| words.contains(name));
        if says(&["tar", "zip", "archive"]) {
            let members = entry["members"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_link = |member: &str| member.contains(" -> ") || ["link)", "device)", "fifo)"].iter().any(|kind| member.ends_with(kind));
            return Ok(Self::Archive { links: members.iter().filter_map(Value::as_str).any(is_link) });
        }
        if says(&["http", "url", "uri", "query", "route"]) {
            return Ok(Self::Address);
        }
        if says(&["tool", "mention", "patch"]) {
            return Ok(Self::Tool);
        }
        Err(format!("how a path comes here by `{words}` is not known"))
    }
}

/// Nobody is asked about the members of an archive: one that leads out, or that could, stops the whole.
fn in_archive(name: &str, links: bool, found: PathVerdict) -> PathVerdict {
    let leads_out = name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..") || name.contains(':');
    let why = match found.verdict {
        _ if links => "An archive with links or devices in it is not unpacked.",
        _ if leads_out => "A member of an archive must have a plain name below the folder it is unpacked in.",
        Whereabouts::Outside => "A member of an archive would be put outside.",
        _ => return found,
    };
    PathVerdict { verdict: Whereabouts::Refuse, why: why.into(), ..found }
}

/// Without `%xx`, read once; what is no letter afterwards stays as it was.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = (*first == b'%').then(|| after.get(..2)).flatten().and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
