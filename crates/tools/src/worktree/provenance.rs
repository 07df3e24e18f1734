//! Who wrote what: each merge is a commit that nobody has to look at, with the state before and what came as its parents.
//!
//! The commit is made before the first file is written, so it is also what a killed merge is finished by. Its message says
//! the task, the agent and what for; what it changed says which lines.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
};

use super::{
    diff::{self, Changed, FileStatus},
    git::{Git, parts},
    lines,
    place::Place,
    refs,
};

/// A line of a message; what is longer is for a log to tell.
const LINE_CHARS_MAX: usize = 200;
/// Merges that are looked through, the newest first.
const MERGES_MAX: usize = 1000;
/// So many are asked about with one command: few programs are started, and what they say stays small.
const MERGES_AT_ONCE: usize = 50;

/// On whose behalf something is brought home.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    pub task: String,
    pub agent: String,
    pub description: String,
}

/// What one task wrote into one file, and where that is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub task: String,
    pub agent: String,
    pub description: String,
    /// Seconds since 1970.
    pub at: i64,
    pub path: String,
    pub status: FileStatus,
    /// First line and number of lines, in the file as it is now.
    pub hunks: Vec<(u64, u64)>,
    /// Lines of it that are not in the file now: somebody changed them since, or they went onto a branch only.
    pub gone: u64,
    /// The commit that holds the merge.
    pub commit: String,
}

/// The message of a merge; `home` says into which working tree it is written.
pub(super) fn message(provenance: &Provenance, home: &str) -> String {
    let line = |text: &str| {
        let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        text.chars().take(LINE_CHARS_MAX).collect::<String>()
    };
    let home = if home.is_empty() { String::new() } else { format!("Posse-Home: {}\n", line(home)) };
    format!(
        "Merge task {}: {}\n\nPosse-Task: {}\nPosse-Agent: {}\n{home}",
        line(&provenance.task),
        line(&provenance.description),
        line(&provenance.task),
        line(&provenance.agent)
    )
}

/// A merge as the repository keeps it.
pub(super) struct Kept {
    pub(super) name: String,
    pub(super) commit: String,
    pub(super) at: i64,
    message: String,
}

impl Kept {
    /// Below a name, the newest first.
    pub(super) fn all(git: &Git<'_>, below: &str) -> Result<Vec<Self>, String> {
        Self::listed(git, below, ["--sort=-version:refname", "--sort=-committerdate"], MERGES_MAX)
    }

    /// Below a name, the oldest first.
    pub(super) fn oldest(git: &Git<'_>, below: &str, most: usize) -> Result<Vec<Self>, String> {
        Self::listed(git, below, ["--sort=version:refname", "--sort=committerdate"], most)
    }

    fn listed(git: &Git<'_>, below: &str, sort: [&str; 2], most: usize) -> Result<Vec<Self>, String> {
        let format = "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(contents)%00";
        let said = git.ask(["for-each-ref", sort[0], sort[1], &format!("--count={most}"), format, below])?;
        let fields: Vec<String> = parts(&said).map(|field| String::from_utf8_lossy(field).trim_start_matches('\n').to_owned()).collect();
        let kept = |fields: &[String]| match fields {
            [name, commit, at, message] => {
                Some(Self { name: name.clone(), commit: commit.clone(), at: at.parse().unwrap_or(0), message: message.clone() })
            }
            _ => None,
        };
        Ok(fields.chunks(4).filter_map(kept).collect())
    }

    pub(super) fn says(&self, key: &str) -> Option<&str> {
        self.message.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "))
    }

    pub(super) fn slug(&self) -> &str {
        let rest = ["refs/posse/merges/", "refs/posse/merging/"].iter().find_map(|start| self.name.strip_prefix(start));
        rest.and_then(|rest| rest.split('/').next()).unwrap_or_default()
    }

    fn description(&self) -> &str {
        self.message.lines().next().and_then(|line| line.split_once(": ")).map(|(_, description)| description).unwrap_or_default()
    }
}

/// The mode of a link: what it leads to is no text of lines.
const LINK: &str = "120000";

/// The files of one working tree as they are now, and as merges wrote them.
struct Contents<'a> {
    place: &'a Place,
    now: HashMap<Vec<u8>, Option<Vec<u8>>>,
    written: HashMap<String, Vec<u8>>,
}

impl Contents<'_> {
    /// What these merges wrote.
    fn read<'a>(&mut self, git: &Git<'_>, all: impl Iterator<Item = &'a Changed>) -> Result<(), String> {
        let objects: BTreeSet<&str> = all.filter_map(|changed| changed.new.as_ref()).map(|entry| entry.object.as_str()).collect();
        let input: String = objects.iter().map(|object| format!("{object}\n")).collect();
        let said = git.tell(["cat-file", "--batch"], input.as_bytes())?;
        self.written.clear();
        let mut rest = said.output.as_slice();
        // An object that is not here (a submodule's), or that was cut off, is told by none: its lines are as of the merge.
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let fields: Vec<&str> = header.split(' ').collect();
            let [object, "blob", size] = fields.as_slice() else { continue };
            let Some(content) = size.parse().ok().and_then(|size: usize| rest.get(..size)) else { break };
            self.written.insert((*object).to_owned(), content.to_vec());
            rest = rest.get(content.len() + 1..).unwrap_or_default();
        }
        Ok(())
    }

    /// Where lines that a merge wrote are now, and how many are not there.
    fn now(&mut self, changed: &Changed, hunks: &[(u64, u64)]) -> (Vec<(u64, u64)>, u64) {
        let as_written = (hunks.to_vec(), 0);
        let Some(entry) = changed.new.as_ref().filter(|entry| entry.mode != LINK) else { return as_written };
        let Some(written) = self.written.get(&entry.object) else { return as_written };
        let now = self.now.entry(changed.path.clone()).or_insert_with(|| {
            let path = self.place.top.join(OsStr::from_bytes(&changed.path));
            if path.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) { fs::read(path).ok() } else { None }
        });
        match now {
            Some(now) => lines::now(written, now, hunks).unwrap_or(as_written),
            None => (Vec::new(), hunks.iter().map(|(_, count)| count).sum()),
        }
    }
}

/// Every merge of every task, or those that wrote one path, or below it.
pub(super) fn read(place: &Place, path: Option<&str>) -> Result<Vec<Written>, String> {
    let git = place.repository();
    let mut written = Vec::new();
    let mut contents = Contents { place, now: HashMap::new(), written: HashMap::new() };
    let is_wanted = |written: &Written| {
        path.is_none_or(|path| written.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    for merges in Kept::all(&git, "refs/posse/merges")?.chunks(MERGES_AT_ONCE) {
        let commits: Vec<&str> = merges.iter().map(|kept| kept.commit.as_str()).collect();
        let of_commits = diff::of_commits(&git, &commits, path)?;
        contents.read(&git, of_commits.values().flatten().map(|(changed, _)| changed))?;
        for kept in merges {
            let of_file = |(changed, hunks): &(Changed, Vec<(u64, u64)>)| {
                let (hunks, gone) = contents.now(changed, hunks);
                Written {
                    task: kept.says("Posse-Task").unwrap_or_default().to_owned(),
                    agent: kept.says("Posse-Agent").unwrap_or_default().to_owned(),
                    description: kept.description().to_owned(),
                    at: kept.at,
                    path: changed.shown(),
                    status: changed.status,
                    hunks,
                    gone,
                    commit: kept.commit.clone(),
                }
            };
            let files = of_commits.get(&kept.commit).into_iter().flatten().map(of_file);
            written.extend(files.filter(is_wanted));
        }
    }
    Ok(written)
}

/// What a task has brought anywhere last.
pub(super) fn last(git: &Git<'_>, slug: &str) -> Result<Option<String>, String> {
    let said = git.ask_line(["for-each-ref", "--format=%(refname)", &refs::merges(slug)])?;
    let Some(number) = numbers(&said).max() else { return Ok(None) };
    let said = git.run(["rev-parse", "--quiet", "--verify", &format!("{}/{number}^2", refs::merges(slug))])?;
    Ok((said.code == 0).then(|| String::from_utf8_lossy(&said.output).trim_end().to_owned()))
}

/// The number of a task's next merge.
pub(super) fn next(git: &Git<'_>, slug: &str) -> Result<usize, String> {
    let said = git.ask_line(["for-each-ref", "--format=%(refname)", &refs::merges(slug)])?;
    Ok(numbers(&said).max().map_or(1, |last| last + 1))
}

fn numbers(names: &str) -> impl Iterator<Item = usize> {
    names.lines().filter_map(|name| name.rsplit('/').next().and_then(|number| number.parse().ok()))
}
