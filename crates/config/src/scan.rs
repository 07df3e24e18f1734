//! What a project's folder holds besides configuration files and what would run if somebody ran it: plugins, tools,
//! hooks, MCP servers, and the powers that agents and commands give themselves.
//!
//! Only looks: nothing is executed, and no link is followed out of the project. Bounded, because whoever wrote the
//! folder may have filled it; what is beyond the bounds is named and can never be trusted for good.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use crate::{
    agent_fields::KEYS,
    command,
    config::Compat,
    definition::{self, CHOICES, POWERS, SHELL, commands_in},
    frontmatter::{Document, document, split, unified},
    layer::{FILE_BYTES_MAX, open_regular},
    schema::snake_case,
    skill,
    tree::{Entry, Held, Node},
};

/// Something that a folder holds and that does not count unless the folder is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// From the folder.
    pub(crate) file: String,
    pub(crate) key: String,
    pub(crate) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// A digest of what it says.
    Said(blake3::Hash),
    /// Beyond the bounds, or not readable: nobody can vouch for it.
    Unknown,
    /// We never do it, also for a folder that is trusted.
    Never,
}

/// Files of all these folders together; three times what anybody keeps.
const FILES_MAX: usize = 10_000;

/// Read at every start, so a second's worth at most.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Folders deeper than this are not looked into.
const DEPTH_MAX: usize = 12;

/// Whose folders they are; `None`: ours, or anybody's.
type Neighbour = Option<fn(&Compat) -> bool>;
const OPENCODE: Neighbour = Some(|compat| compat.opencode);
const CLAUDE: Neighbour = Some(|compat| compat.claude);

/// Every file in these is code.
const CODE: [(&str, &str, Neighbour); 8] = [
    (".posse/plugins", "plugin", None),
    (".posse/hooks", "hook", None),
    (".opencode/plugin", "plugin", OPENCODE),
    (".opencode/plugins", "plugin", OPENCODE),
    (".opencode/tool", "tool", OPENCODE),
    (".opencode/tools", "tool", OPENCODE),
    (".claude/hooks", "hook", CLAUDE),
    (".claude-plugin", "plugin", None),
];

/// Markdown with a head that may give powers and a text that may run commands.
const WORDS: [(&str, Neighbour); 15] = [
    (".posse/agents", None),
    (".posse/commands", None),
    (".posse/skills", None),
    (".opencode/agent", OPENCODE),
    (".opencode/agents", OPENCODE),
    (".opencode/mode", OPENCODE),
    (".opencode/modes", OPENCODE),
    (".opencode/command", OPENCODE),
    (".opencode/commands", OPENCODE),
    (".opencode/skill", OPENCODE),
    (".opencode/skills", OPENCODE),
    (".claude/agents", CLAUDE),
    (".claude/commands", CLAUDE),
    (".claude/skills", CLAUDE),
    (".agents/skills", None),
];

/// Files whose names begin so are named when they set what would lead us, or what we start, somewhere else. They are
/// never loaded.
const ENV_FILE: &str = ".env";

/// Names of one folder that are looked through. Who has more of them hides no power in doing so: of a folder with
/// definitions it is said that nobody can vouch for it.
const NAMES_MAX: usize = 20_000;

/// Where a scan is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) folder: &'a Path,
    /// The project's real path.
    pub(crate) project: &'a Path,
    /// Folders of the user's own, which may lie in the project.
    pub(crate) own: &'a [PathBuf],
}

/// Everything of one folder of a project, in a fixed order.
pub(crate) fn scan(place: Place<'_>, compat: Compat, left: &mut Left) -> Vec<Found> {
    let folder = place.folder;
    let mut scan = Scan { place, left, found: Vec::new() };
    let counts = |neighbour: &Neighbour| neighbour.is_none_or(|counts| counts(&compat));
    if compat.claude {
        scan.code(&folder.join(".mcp.json"), "mcpServers", 0);
    }
    for (name, key, _) in CODE.iter().filter(|(_, _, neighbour)| counts(neighbour)) {
        scan.code(&folder.join(name), key, 0);
    }
    for (name, _) in WORDS.iter().filter(|(_, neighbour)| counts(neighbour)) {
        scan.words(&folder.join(name), 0);
    }
    for path in env_files(folder) {
        scan.env_file(&path);
    }
    scan.found
}

fn env_files(folder: &Path) -> BTreeSet<PathBuf> {
    let names = fs::read_dir(folder).into_iter().flatten().take(NAMES_MAX).filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
    let others = names.filter(|name| name.to_string_lossy().starts_with(ENV_FILE)).map(|name| folder.join(name));
    // The usual one first of all, so that no crowd of others hides it.
    std::iter::once(folder.join(ENV_FILE)).chain(others).collect()
}

/// What may still be looked at.
#[derive(Debug)]
pub(crate) struct Left {
    files: usize,
    bytes: u64,
}

impl Default for Left {
    fn default() -> Self {
        Self { files: FILES_MAX, bytes: BYTES_MAX }
    }
}

struct Scan<'a> {
    place: Place<'a>,
    left: &'a mut Left,
    found: Vec<Found>,
}

/// What a folder holds that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Every file.
    Code,
    /// Markdown only.
    Words,
}

fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("md"))
}

/// What stands at a path.
enum Thing {
    Nothing,
    File,
    Folder(Vec<PathBuf>),
    /// A link out of the project, a pipe, something we may not read, or one too many.
    Strange,
}

impl Scan<'_> {
    fn code(&mut self, path: &Path, key: &str, depth: usize) {
        match self.look(path, depth, Kind::Code) {
            Thing::Nothing => {}
            Thing::Folder(entries) => entries.iter().for_each(|entry| self.code(entry, key, depth + 1)),
            Thing::File => {
                let what = self.read(path).map_or(What::Unknown, |bytes| What::Said(blake3::hash(&bytes)));
                self.add(path, key, what);
            }
            Thing::Strange => self.add(path, key, What::Unknown),
        }
    }

    fn words(&mut self, path: &Path, depth: usize) {
        match self.look(path, depth, Kind::Words) {
            Thing::Nothing => {}
            Thing::Folder(entries) => entries.iter().for_each(|entry| self.words(entry, depth + 1)),
            Thing::File if !is_markdown(path) => {}
            Thing::File => match self.read(path) {
                Some(bytes) => self.markdown(path, &String::from_utf8_lossy(&bytes)),
                None => self.add(path, "text", What::Unknown),
            },
            Thing::Strange => self.add(path, "text", What::Unknown),
        }
    }

    fn markdown(&mut self, path: &Path, text: &str) {
        // As the reader sees it: another way to end a line must not hide a key.
        let text = &*unified(text);
        let Heads { head, inside, body } = heads_of(text);
        // As its reader reads it, and as words before a colon: not every head is good YAML.
        let read = read_as(text, path);
        let of_reader = if is_agents(path) { agent_keys(&read.fields) } else { command_keys(&read.fields) };
        let named = powers(head).into_iter().chain(powers(inside)).map(str::to_owned).chain(of_reader);
        let named = named.chain([head, inside].into_iter().filter(|_| !is_agents(path)).flat_map(choices));
        // The whole head, so that no way of writing YAML changes what was trusted.
        let said = blake3::Hasher::new().update(head.as_bytes()).update(inside.as_bytes()).finalize();
        for power in named.collect::<BTreeSet<String>>() {
            self.add(path, &power, What::Said(said));
        }
        // Of the text by itself too: a head must not hide where in it a command begins.
        let mut commands = [commands_in(text), commands_in(&body)].concat();
        if !inside.is_empty() {
            // Letters that JSON writes as numbers too.
            commands.extend(commands_in(&read.body));
        }
        if !commands.is_empty() {
            self.add(path, SHELL, What::Said(blake3::hash(commands.join("\0").as_bytes())));
        }
        if !is_agents(path) && definition::chooses_agent(&read.fields) {
            self.add(path, definition::INLINE_AGENT, What::Said(said));
        }
    }

    fn env_file(&mut self, path: &Path) {
        if !matches!(self.look(path, 0, Kind::Code), Thing::File) {
            return;
        }
        let Some(bytes) = self.read(path) else { return };
        let text = String::from_utf8_lossy(&bytes);
        for name in text.lines().filter_map(steering_variable).collect::<BTreeSet<&str>>() {
            self.add(path, name, What::Never);
        }
    }

    fn look(&mut self, path: &Path, depth: usize, kind_of_folder: Kind) -> Thing {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Thing::Nothing };
        if self.place.own.iter().any(|own| path.starts_with(own)) {
            return Thing::Nothing;
        }
        if self.left.files == 0 || DEPTH_MAX < depth {
            return Thing::Strange;
        }
        self.left.files -= 1;
        // Also when a folder on the way is the link.
        let inside = path.canonicalize().is_ok_and(|real| real.starts_with(self.place.project));
        if !inside {
            return Thing::Strange;
        }
        let kind = if metadata.is_symlink() { fs::metadata(path).map(|metadata| metadata.file_type()) } else { Ok(metadata.file_type()) };
        match kind {
            Ok(kind) if kind.is_file() => Thing::File,
            Ok(kind) if kind.is_dir() => self.entries(path, kind_of_folder).map_or(Thing::Strange, Thing::Folder),
            _ => Thing::Strange,
        }
    }

    fn entries(&self, folder: &Path, kind: Kind) -> Option<Vec<PathBuf>> {
        let mut paths: Vec<PathBuf> = Vec::new();
        for (at, entry) in fs::read_dir(folder).ok()?.enumerate() {
            let entry = entry.ok()?;
            let is_beside = kind == Kind::Words && !is_markdown(&entry.path()) && entry.file_type().is_ok_and(|kind| kind.is_file());
            if NAMES_MAX <= at {
                return None;
            }
            // What lies beside skills is nobody's definition, and there may be much of it.
            if !is_beside {
                paths.push(entry.path());
            }
            // One more than may be looked at, so that there is one too many.
            if self.left.files < paths.len() {
                break;
            }
        }
        paths.sort();
        Some(paths)
    }

    fn read(&mut self, path: &Path) -> Option<Vec<u8>> {
        let most = FILE_BYTES_MAX.min(self.left.bytes);
        let mut bytes = Vec::new();
        open_regular(path).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
        if most < bytes.len() as u64 {
            return None;
        }
        self.left.bytes -= bytes.len() as u64;
        Some(bytes)
    }

    fn add(&mut self, path: &Path, key: &str, what: What) {
        let file = path.strip_prefix(self.place.folder).unwrap_or(path).to_string_lossy().into_owned();
        self.found.push(Found { file, key: key.to_owned(), what });
    }
}

/// A definition as its reader finds it.
struct Heads<'a> {
    head: &'a str,
    /// A text that is one JSON object, which is a head too: nothing is believed that trust was not bound to.
    inside: &'a str,
    body: Cow<'a, str>,
}

fn heads_of(text: &str) -> Heads<'_> {
    // Who knows more keys finds more of a head.
    static KNOWN: LazyLock<Vec<&str>> = LazyLock::new(|| [&KEYS[..], &command::KEYS, &skill::KEYS].concat());
    let parts = split(text, &KNOWN);
    let body = parts.body.trim();
    let inside = if body.starts_with('{') && body.ends_with('}') { body } else { "" };
    let body = if parts.before.trim().is_empty() { Cow::Borrowed(body) } else { format!("{}\n\n{body}", parts.before.trim()).into() };
    Heads { head: parts.head.unwrap_or_default(), inside, body }
}

fn choices(head: &str) -> Vec<String> {
    let keys = head.match_indices(':').map(|(at, _)| word_before(&head[..at]));
    keys.map(snake_case).filter(|name| CHOICES.contains(&name.as_str())).collect()
}

fn is_agents(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("agent" | "agents" | "mode" | "modes")))
}

/// The keys of an agent that do not count unless its folder is trusted, found as its reader finds them.
fn agent_keys(fields: &Node) -> Vec<String> {
    let names = fields.entries().iter().map(|entry| snake_case(&entry.name));
    let counting = names.filter(|name| !definition::WORDS.contains(&name.as_str()));
    // Whatever nobody knows is for the provider.
    let mut keys: Vec<String> = counting.map(|name| if KEYS.contains(&name.as_str()) { name } else { "options".to_owned() }).collect();
    let is_rules = |entry: &&Entry| matches!(snake_case(&entry.name).as_str(), "permission" | "permissions" | "tools");
    if fields.entries().iter().filter(is_rules).any(|entry| gives(&entry.node)) {
        keys.push("permission (allow)".to_owned());
    }
    keys
}

/// The same of a command or a skill.
fn command_keys(fields: &Node) -> Vec<String> {
    let names = fields.entries().iter().map(|entry| snake_case(&entry.name));
    names.filter(|name| POWERS.contains(&name.as_str()) || CHOICES.contains(&name.as_str())).collect()
}

/// A file as its reader reads it.
fn read_as(text: &str, path: &Path) -> Document {
    let is_skill = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case("SKILL.md"));
    let keys: &[&str] = match (is_agents(path), is_skill) {
        (true, _) => &KEYS,
        (false, true) => &skill::KEYS,
        (false, false) => &command::KEYS,
    };
    document(text, &Arc::from(""), keys)
}

/// Whether rules allow something or a map turns a tool on, in whatever words.
fn gives(node: &Node) -> bool {
    match &node.held {
        Held::Flag(flag) => *flag,
        Held::Number(_) => false,
        Held::Map(entries) => entries.iter().any(|entry| gives(&entry.node)),
        Held::List(items) => items.iter().any(gives),
        Held::Text(text) => {
            text.split(|letter: char| !letter.is_alphanumeric()).any(|word| GIVING.iter().any(|giving| word.eq_ignore_ascii_case(giving)))
        }
        Held::Null | Held::Secret(_) | Held::Missing(_) => false,
    }
}

/// How rules allow and maps of tools turn on.
const GIVING: [&str; 4] = ["allow", "true", "yes", "on"];

/// The keys of a head that give powers, looked for as words before a colon, because not every head is good YAML.
fn powers(head: &str) -> Vec<&'static str> {
    let mut powers: Vec<&'static str> = Vec::new();
    let mut add = |power| {
        if !powers.contains(&power) {
            powers.push(power);
        }
    };
    for (at, _) in head.match_indices(':') {
        let name = snake_case(word_before(&head[..at]));
        if let Some(power) = POWERS.iter().find(|power| **power == name) {
            add(power);
        }
    }
    powers
}

fn word_before(text: &str) -> &str {
    let text = text.trim_end_matches([' ', '\t', '"', '\'']);
    text.rsplit(|letter: char| !letter.is_alphanumeric() && !matches!(letter, '_' | '-')).next().unwrap_or_default()
}

/// Variables that lead a program like this one, or what it starts, somewhere else.
fn steering_variable(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (name, _) = line.strip_prefix("export ").unwrap_or(line).split_once('=')?;
    let name = name.trim();
    let starts = ["POSSE_", "CLAUDE_", "CODEX_", "OPENCODE_", "ANTHROPIC_", "OPENAI_", "XDG_", "LD_", "GIT_", "DYLD_"];
    let ends = ["_BASE_URL", "_API_BASE", "_API_KEY", "_TOKEN", "_PROXY", "_proxy"];
    let whole = ["HOME", "PATH", "ENV", "BASH_ENV", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "PAGER", "EDITOR", "SHELL"];
    let plain = !name.is_empty() && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let steers = starts.iter().any(|start| name.starts_with(start)) || ends.iter().any(|end| name.ends_with(end)) || whole.contains(&name);
    (plain && steers).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(files: &[(&str, &str)]) -> Self {
            let folder = Self(tempfile::tempdir().unwrap());
            for (name, text) in files {
                folder.write(name, text);
            }
            folder
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn scan(&self, compat: Compat) -> Vec<Found> {
            self.scan_within(compat, &mut Left::default())
        }

        fn scan_within(&self, compat: Compat, left: &mut Left) -> Vec<Found> {
            let folder = self.0.path().canonicalize().unwrap();
            scan(Place { folder: &folder, project: &folder, own: &[folder.join(".mine")] }, compat, left)
        }

        fn names(&self) -> Vec<String> {
            self.scan(ALL).iter().map(|found| format!("{}: {}", found.file, found.key)).collect()
        }
    }

    const ALL: Compat = Compat { opencode: true, claude: true };

    #[test]
    fn whatever_would_run_or_widen_is_found() {
        let folder = Folder::with(&[
            (".mcp.json", "{}"),
            (".posse/plugins/a/b.js", "x"),
            (".opencode/plugin/evil.ts", "x"),
            (".opencode/plugins/more.js", "x"),
            (".opencode/tool/t.ts", "x"),
            (".claude-plugin/plugin.json", "{}"),
            (".claude/hooks/h.sh", "x"),
            (".claude/agents/plain.md", "---\nname: plain\ndescription: talks about hooks and tools\n---\nhooks: are prose here"),
            (
                ".claude/agents/hooked.md",
                "---\nname: x\nhooks:\n  PreToolUse: []\nmcpServers: [a]\npermissionMode: bypassPermissions\n---\n",
            ),
            (".claude/commands/c.md", "---\nallowed-tools: Bash(rm:*)\n---\nlook: !`touch x`"),
            (".posse/commands/no-head.md", "run !`id`"),
            (".opencode/agent/wide.md", "---\npermission:\n  bash: allow\n---\n"),
            (".opencode/agent/narrow.md", "---\npermission:\n  edit: deny\ntools:\n  write: false\n---\n"),
            (".agents/skills/s/SKILL.md", "---\n{\"hooks\": 1}\n---\n"),
            (".agents/skills/s/run.sh", "!`not read`"),
            (".claude/agents/odd.md", "---\n\"ho\\x6fks\": 1\n---\n"),
            (".env", "TOKEN=1\nexport POSSE_HOME=./evil\n ANTHROPIC_BASE_URL = http://x\n# GIT_DIR=1\n"),
            (
                ".env.production",
                "export OPENAI_ORG=x\nCLAUDE_X=1\nCODEX_HOME=1\nOPENCODE_X=1\nANTHROPIC_MODEL=x\nMY_API_KEY=1\nA_TOKEN=1\nPORT=1\n",
            ),
            (".env.d/x", "POSSE_HOME=1"),
            (".envrc", "echo hi"),
            ("a.env", "POSSE_HOME=1"),
            ("AGENTS.md", "!`words`"),
        ]);
        assert_eq!(
            folder.names(),
            [
                ".mcp.json: mcpServers",
                ".posse/plugins/a/b.js: plugin",
                ".opencode/plugin/evil.ts: plugin",
                ".opencode/plugins/more.js: plugin",
                ".opencode/tool/t.ts: tool",
                ".claude/hooks/h.sh: hook",
                ".claude-plugin/plugin.json: plugin",
                ".posse/commands/no-head.md: !`cmd`",
                ".opencode/agent/wide.md: permission (allow)",
                ".claude/agents/hooked.md: hooks",
                ".claude/agents/hooked.md: mcp_servers",
                ".claude/agents/hooked.md: permission_mode",
                ".claude/agents/odd.md: hooks",
                ".claude/commands/c.md: allowed_tools",
                ".claude/commands/c.md: !`cmd`",
                ".agents/skills/s/SKILL.md: hooks",
                ".env: ANTHROPIC_BASE_URL",
                ".env: POSSE_HOME",
                ".env.production: ANTHROPIC_MODEL",
                ".env.production: A_TOKEN",
                ".env.production: CLAUDE_X",
                ".env.production: CODEX_HOME",
                ".env.production: MY_API_KEY",
                ".env.production: OPENAI_ORG",
                ".env.production: OPENCODE_X",
            ]
        );
        let quiet: Vec<String> = folder.scan(Compat { opencode: false, claude: false }).into_iter().map(|found| found.file).collect();
        assert!(
            !quiet.iter().any(|file| file.starts_with(".opencode") || file.starts_with(".claude/") || file == ".mcp.json"),
            "{quiet:?}"
        );
    }

    #[test]
    fn prose_changes_nothing_and_a_power_does() {
        let table = [
            (
                ".claude/commands/c.md",
                "---\nallowed-tools: Read\n---\nwords !`id`",
                "---\nallowed-tools: Read\n---\nother words !`id`",
                true,
            ),
            (".claude/commands/c.md", "---\nallowed-tools: Read\n---\n", "---\nallowed-tools: Read, Bash\n---\n", false),
            (".claude/commands/c.md", "words !`id`", "words !`id -u`", false),
            (".claude/agents/a.md", "---\nname: a\n---\nold", "---\nname: b\n---\nnew", true),
            (".opencode/plugin/p.js", "old", "new", false),
            (".mcp.json", "{}", "{\"mcpServers\": {}}", false),
        ];
        for (name, before, after, same) in table {
            let folder = Folder::with(&[(name, before)]);
            let old = folder.scan(ALL);
            folder.write(name, after);
            assert_eq!(folder.scan(ALL) == old, same, "{name}: {after}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_pipes_and_floods_are_named_and_not_followed() {
        use std::os::unix::fs::symlink;
        let outside = Folder::with(&[("secret.js", "x"), ("sub/a.md", "!`id`")]);
        let folder =
            Folder::with(&[(".opencode/plugin/real.js", "x"), (".opencode/agent/real.md", "---\nhooks: 1\n---\n"), ("src/in.js", "x")]);
        let at = |name: &str| folder.0.path().join(name);
        symlink(outside.0.path().join("secret.js"), at(".opencode/plugin/out.js")).unwrap();
        symlink(outside.0.path(), at(".opencode/tool")).unwrap();
        symlink("../../src", at(".opencode/plugin/in")).unwrap();
        symlink("loop", at(".opencode/plugin/loop")).unwrap();
        symlink(at(".opencode"), at(".opencode/plugin/up")).unwrap();
        fs::create_dir_all(at(".posse/plugins")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at(".posse/plugins/pipe")).status().unwrap().success());
        fs::write(at(".opencode/agent/large.md"), vec![b'x'; 1024 * 1024 + 1]).unwrap();
        let found = folder.scan(ALL);
        let of = |file: &str| found.iter().find(|found| found.file == file).map(|found| found.what.clone());
        for file in
            [".opencode/plugin/out.js", ".opencode/tool", ".opencode/plugin/loop", ".posse/plugins/pipe", ".opencode/agent/large.md"]
        {
            assert_eq!(of(file), Some(What::Unknown), "{file}");
        }
        for file in [".opencode/plugin/real.js", ".opencode/plugin/in/in.js"] {
            assert!(matches!(of(file), Some(What::Said(_))), "{file}");
        }
        assert!(found.len() < FILES_MAX, "a loop of folders ends");

        let many = Folder::with(&[]);
        for number in 0..55 {
            many.write(&format!(".opencode/plugin/{number}.js"), "x");
        }
        let found = many.scan_within(ALL, &mut Left { files: 50, bytes: BYTES_MAX });
        assert!(found.len() <= 51 && found.iter().any(|found| found.what == What::Unknown), "{}", found.len());
    }

    #[test]
    fn thousands_of_definitions_can_be_trusted_whatever_lies_beside_them() {
        // A skill is a folder and a file, and the issue promises three thousand of a few kilobytes.
        const { assert!(3_000 * 2 + 100 < FILES_MAX && 3_000 * 10 * 1024 < BYTES_MAX) };
        let folder = Folder::with(&[(".posse/skills/s/SKILL.md", "---\nmodel: x/y\n---\np")]);
        for number in 0..60 {
            folder.write(&format!(".posse/skills/s/data/{number}.txt"), "x");
        }
        let found = folder.scan_within(ALL, &mut Left { files: 20, bytes: BYTES_MAX });
        assert!(found.iter().all(|found| found.what != What::Unknown) && found.len() == 1, "{found:?}");
        // And they hide none.
        folder.write(".posse/skills/s/data/zzz.md", "!`id`");
        let found = folder.scan_within(ALL, &mut Left { files: 20, bytes: BYTES_MAX });
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
