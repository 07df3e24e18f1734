//! The wardrobe: agents made ready to work. From a recipe to model, tools, rules and words, for roots and their tasks.
//!
//! Built once per process from what the user wrote, and asked by the engine whenever a session is opened or a task is
//! wanted. What two sessions of the same agent share is made once. It starts nothing and writes nothing.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use posse_config::{Agents, Config, ModelChoice, PermissionMode, Places, Problem, Rulebook, Skills};
use posse_context::Instruction;
use posse_engine::{Advising, Compacting, Outfit, Outfits};
use posse_models::Explorer;
use posse_session::{
    Agent, AgentMode, Asking, Birth, BoxFuture, FORK, Forks, Head, Isolation, Kind, Left, Limits, Mode, Model, Params, Recipe, Rule, Rules,
    SessionId, Tool, Touch, Verdict, Voice, Workspace, Worktree, judge, key_of,
};
use posse_tools::{
    Callable, Delegation, Dialect, FORK_DESCRIPTION, FoundSkill, Keeper, LocalWorkspace, Shells, SkillTool, Standing, Switches, merger,
    messengers,
};

use crate::{
    beside,
    build::{self, CALLS_MAX, needed_key, removed_by},
    crash::{CrashPoint, CrashingWorkspace},
    exit::Failure,
    expand::Typist,
    print::to_stderr,
    shape::Answer,
    tape::Tape,
    worktrees::Yard,
};

/// Who may be asked and what may run, for this process.
pub(crate) struct Circumstances {
    pub(crate) asking: Asking,
    pub(crate) dialect: Dialect,
    /// When a model may fork its session.
    pub(crate) forks: Forks,
    pub(crate) shells: Arc<Shells>,
    /// An agent that is named answers itself, for a turn.
    pub(crate) switches: bool,
    /// The agent of the session that is spoken to.
    pub(crate) speaker: String,
    /// Where the root of the tree began.
    pub(crate) home: String,
    /// What is only good to know is not said.
    pub(crate) quiet: bool,
    /// The shape of the final answer.
    pub(crate) answer: Option<Answer>,
}

pub(crate) struct Wardrobe {
    places: Places,
    config: Config,
    agents: Arc<Agents>,
    skills: Arc<Skills>,
    typist: Arc<Typist>,
    circumstances: Circumstances,
    keeper: Arc<Keeper>,
    workspace: Arc<dyn Workspace>,
    yard: Yard,
    instructions: Vec<Instruction>,
    /// Instruction files that are named and cannot be read.
    unread: Vec<Problem>,
    tools: Vec<Arc<dyn Tool>>,
    /// What the root runs on, and the name it was recorded with, if that was another.
    lead: Arc<dyn Model>,
    recorded: String,
    tape: Tape,
    models: Mutex<HashMap<String, Arc<dyn Model>>>,
    ready: Mutex<HashMap<Wanted, Outfit>>,
    /// Of putting notes in order: one for all its sessions, because the process is what lives or dies.
    notes_claim: beside::Claim,
    reported: Mutex<HashSet<String>>,
}

/// What two sessions have in common that can share an outfit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wanted {
    agent: String,
    definition: String,
    model: String,
    depth: u64,
    kind: Kind,
    directory: String,
    /// Who is listed depends on it.
    ceiling: Vec<Rules>,
}

impl Wardrobe {
    pub(crate) fn new(
        places: Places,
        config: Config,
        agents: Agents,
        lead: Arc<dyn Model>,
        recorded: &str,
        circumstances: Circumstances,
    ) -> Result<Self, Failure> {
        let (agents, skills) = (Arc::new(agents), Arc::new(posse_config::skills(&places, &config)));
        let keeper = Arc::new(Keeper::new());
        let workspace = guarded(build::workspace_with(&places, &keeper, skills.folders())?);
        let typist = Arc::new(Typist {
            commands: posse_config::commands(&places, &config, &skills),
            places: places.clone(),
            agents: agents.clone(),
            dialect: circumstances.dialect,
            switches: circumstances.switches,
            speaker: circumstances.speaker.clone(),
        });
        let posse_config::Instructions { files, warnings: unread } = posse_config::instructions(&places, &config);
        let instructions = files.into_iter().map(|file| Instruction { path: file.path.display().to_string(), text: file.text }).collect();
        let tools = posse_tools::builtin_with(&circumstances.shells);
        let yard = Yard::new(&places, &config.worktree, &keeper);
        let recorded = if recorded.is_empty() { lead.facts().name.clone() } else { recorded.to_owned() };
        let (models, ready, reported) = (Mutex::default(), Mutex::default(), Mutex::default());
        Ok(Self {
            places,
            config,
            agents,
            skills,
            typist,
            circumstances,
            keeper,
            workspace,
            yard,
            instructions,
            unread,
            tools,
            lead,
            recorded,
            tape: Tape::default(),
            models,
            ready,
            notes_claim: beside::Claim::default(),
            reported,
        })
    }

    /// Every model it makes is recorded, or is a recorded one.
    pub(crate) fn with_tape(self, tape: Tape) -> Self {
        Self { tape, ..self }
    }

    /// What the user should know of instructions, commands and skills before anything runs.
    pub(crate) fn announced(&self) -> Vec<String> {
        let of_commands = self.typist.commands.announced.iter().chain(&self.skills.announced);
        self.unread.iter().chain(of_commands).map(ToString::to_string).collect()
    }

    /// The first command in a prompt that nobody knows, in words.
    pub(crate) fn unknown_command(&self, prompt: &str, voice: &Voice) -> Option<String> {
        self.typist.unknown(prompt, voice)
    }

    /// Says which commands of a prompt want a model that cannot be used.
    pub(crate) fn report_models(&self, prompt: &str, voice: &Voice) {
        for command in self.typist.commands_in(prompt, voice) {
            if let Some(Err(words)) = command.model.as_deref().filter(|model| *model != "inherit").map(|model| self.usable(model)) {
                self.report(&format!("posse: {}: model of /{}: {words}", command.origin, command.name));
            }
        }
    }

    /// The recipe of a session that begins with this agent.
    pub(crate) fn recipe_of(&self, agent: &Agent, model: String) -> Recipe {
        let definition = serde_json::to_string(agent).unwrap_or_default();
        Recipe {
            agent: agent.name.clone(),
            model,
            steps_max: agent.steps,
            background: agent.background,
            definition: definition.into(),
            ..Recipe::default()
        }
    }

    /// The model of a name that was recorded or resolved.
    fn model(&self, name: &str) -> Result<Arc<dyn Model>, String> {
        if name == self.recorded || name == self.lead.facts().name {
            return Ok(self.lead.clone());
        }
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = models.get(name) {
            return Ok(known.clone());
        }
        let model = self.tape.model_named(name, || {
            Ok(match self.config.choose_model(Some(name), &build::known(), &build::env).map_err(|error| error.to_string())? {
                ModelChoice::Offline => Arc::new(Explorer::new()),
                ModelChoice::Remote(chosen) => {
                    let spec = build::provider(&self.config, &chosen).map_err(Failure::into_words)?;
                    posse_models::build(&spec, &chosen.model)
                }
            })
        })?;
        models.insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// The full name of what a call or a definition names as its model.
    fn resolve(&self, name: &str) -> Result<String, String> {
        self.tape.resolve(name, || match self.config.choose_model(Some(name), &build::known(), &build::env) {
            Ok(ModelChoice::Offline) => Ok(Explorer::NAME.to_owned()),
            Ok(ModelChoice::Remote(chosen)) => Ok(chosen.name()),
            Err(error) => Err(error.to_string()),
        })
    }

    /// The same for a model that can be talked to.
    fn usable(&self, name: &str) -> Result<String, String> {
        let name = self.resolve(name)?;
        self.model(&name).map(|_| name)
    }

    /// Says what is wrong in a definition, the first time that it matters.
    fn report(&self, line: &str) {
        let is_new = self.reported.lock().unwrap_or_else(PoisonError::into_inner).insert(line.to_owned());
        if is_new && !self.circumstances.quiet {
            to_stderr(line);
        }
    }

    /// The agent a session was born with. Its definition was recorded, so that it stays who it was.
    fn agent(&self, recipe: &Recipe) -> Result<Agent, String> {
        let recorded = recipe.definition.inline().filter(|text| !text.is_empty());
        if let Some(agent) = recorded.and_then(|text| serde_json::from_str(text).ok()) {
            return Ok(agent);
        }
        self.agents
            .get(&recipe.agent)
            .cloned()
            .ok_or_else(|| format!("there is no agent {} any more; `posse agents list` shows who there is", recipe.agent))
    }

    /// How much an agent is asked about. A definition may tighten; it widens only where the user has not said more.
    fn mode_of(&self, agent: &Agent, is_child: bool) -> PermissionMode {
        let wished = agent.permission_mode.as_deref().and_then(|mode| mode.parse::<PermissionMode>().ok());
        match (self.config.permission_mode, wished) {
            (_, Some(PermissionMode::Plan)) | (PermissionMode::Plan, _) => PermissionMode::Plan,
            // What the user asks to be asked about holds for whoever works below: only the one the user talks to answers it.
            (PermissionMode::Default, Some(PermissionMode::AcceptEdits)) if !is_child => PermissionMode::AcceptEdits,
            (user, _) => user,
        }
    }

    /// Today's rules. Where the definition has changed since the session began, both count.
    fn rulebook(&self, agent: &Agent, mode: PermissionMode) -> Rulebook {
        let mut book = self.config.rulebook_for(agent, mode);
        if let Some(today) = self.agents.get(&agent.name).filter(|today| *today != agent) {
            let Rulebook { rules, ceiling } = self.config.rulebook_for(today, self.mode_of(today, true));
            book.ceiling.push(rules);
            book.ceiling.extend(ceiling);
        }
        book
    }

    fn make(&self, birth: &Birth) -> Result<Outfit, String> {
        let agent = self.agent(&birth.recipe)?;
        let model = self.model(&birth.recipe.model)?;
        // A fork is its caller once more.
        let is_child = if birth.kind.is_fork() { 1 < birth.depth } else { birth.parent.is_some() };
        let mode = self.mode_of(&agent, is_child);
        let mut book = self.rulebook(&agent, mode);
        if is_child {
            book.ceiling.extend(self.primary_tools());
        }
        // What an ancestor may not do, its tasks may not.
        let whole = Rulebook { rules: book.rules.clone(), ceiling: book.ceiling.iter().chain(&birth.ceiling).cloned().collect() };
        let limits = self.config.limits_for(&agent);
        let depth_max = limits.depth.map_or(self.depth_max(), |own| own.min(self.depth_max()));
        let mut tools = self.tools.clone();
        let delegation = self.delegation(&book, &birth.ceiling);
        let delegates = delegation.has_agents() && birth.depth < depth_max;
        tools.push(Arc::new(delegation));
        tools.extend(messengers(self.circumstances.dialect, &self.circumstances.shells));
        tools.extend(self.has_worktrees().then(|| merger(self.circumstances.dialect, self.yard.worktrees())).flatten());
        tools.extend(self.skill_tool(&book, &birth.ceiling));
        tools.sort_by(|one, other| one.spec().name.cmp(&other.spec().name));
        let offered = |name: &str| {
            let needed = needed_key(name, self.circumstances.dialect);
            let makes_sense = match needed {
                Some("task") => delegates,
                // Where nobody can answer, a question is not offered.
                Some("question") => self.circumstances.asking == Asking::Open,
                _ => !matches!(name, "bash_output" | "kill_shell") || self.circumstances.shells.background(),
            };
            let is_its = !is_child || needed.is_none_or(|key| agent.speaks_of(key));
            makes_sense && is_its && agent.offers(name) && removed_by(&whole, name).is_none()
        };
        let specs = tools.iter().map(|tool| tool.spec()).filter(|spec| offered(&spec.name)).cloned().collect();
        let build_prompt = || self.agents.get("build").and_then(|build| build.prompt.as_deref());
        let prompt = agent.prompt.as_deref().or_else(build_prompt).unwrap_or_default();
        let mut elsewhere = self.elsewhere(birth);
        // Who only answers, or only hears of something, may do so when its folder is gone; it does nothing else then.
        let is_gone = elsewhere.as_ref().is_some_and(|places| !places.cwd.is_dir());
        if is_gone {
            elsewhere = None;
        }
        let places = elsewhere.as_ref().unwrap_or(&self.places);
        let mut system = posse_context::system(prompt, &build::environment(places, &model.facts().name), &self.instructions);
        let lacks = birth.worktree.as_ref().and_then(|worktree| self.yard.lacks(worktree));
        system.extend(lacks.clone());
        if !agent.skills.is_empty() {
            let (text, missing) = self.skills.preload(&agent.skills);
            system.extend(Some(text).filter(|text| !text.trim().is_empty()));
            if !missing.is_empty() {
                system.push(format!("These skills were to be loaded and were not found: {}.", missing.join(", ")));
            }
        }
        let mut workspace = self.workspace.clone();
        if elsewhere.is_some() {
            let local = build::workspace_with(places, &self.keeper, self.skills.folders()).map_err(Failure::into_words)?;
            workspace = guarded(local);
        }
        if let Some(scope) = agent.memory {
            let memory = posse_config::memory(&self.places, scope, &agent.name);
            if memory.own.is_none() {
                let words = "there is a link on the way, so it may not write there unasked; put a folder in its place";
                self.report(&format!("posse: the notes of {}, {}: {words}", agent.name, memory.dir.display()));
            }
            system.push(memory.text);
            let local = build::workspace_with(places, &self.keeper, self.skills.folders()).map_err(Failure::into_words)?;
            workspace = guarded(local.with_own_roots(memory.own));
        }
        system.extend(beside::notes_for(&self.places, &self.config, birth));
        // Only the one the user talks to answers the user.
        let answer = self.circumstances.answer.as_ref().filter(|_| birth.kind == Kind::Root);
        system.extend(answer.map(Answer::instruction));
        if is_gone {
            book.ceiling.push(Rules::denying_all());
        }
        let options = (!agent.options.is_empty()).then(|| serde_json::Value::Object(agent.options.clone()));
        let params = Params { temperature: agent.temperature, top_p: agent.top_p, options };
        let reads_only = agent.native && agent.name == "explore";
        Ok(Outfit {
            head: Arc::new(Head { system, tools: specs, params, answer: answer.map(|answer| answer.schema.as_ref().clone()) }),
            model,
            tools,
            hooks: Vec::new(),
            workspace,
            rules: book.rules,
            ceiling: book.ceiling,
            asking: self.circumstances.asking,
            mode: match mode {
                // Plan is rules, and they are in the book.
                PermissionMode::Default | PermissionMode::Plan => Mode::Default,
                PermissionMode::AcceptEdits => Mode::AcceptEdits,
                PermissionMode::Bypass => Mode::Bypass,
            },
            strict_shell: reads_only || (mode == PermissionMode::Bypass && agent.native && agent.name == "plan"),
            spool: std::path::PathBuf::new(),
            stream_idle: limits.stream_idle,
            step_max: limits.step,
            wall: limits.wall,
            idle: limits.idle,
            detach_after: self.config.auto_background_after(),
            background: self.config.background(),
            own_limits: Limits { cost_usd: limits.cost_usd, tokens: limits.tokens, ..Limits::default() },
            fallbacks: self.fallbacks(&agent),
            compaction: self.compaction(),
            advice: self.advising(birth),
            shape: answer.map(Answer::shape),
            calls_max: CALLS_MAX,
            depth_max,
            children_max: limits.children,
            presence: None,
            lacks,
            unready: None,
            initial: agent.initial_prompt.clone(),
            delegation: self.circumstances.dialect.tool().to_owned(),
            expander: Some(self.typist.clone()),
        })
    }

    /// When conversations are summed up, and how: as the agent `compaction` says. Where it is disabled, not by themselves.
    fn compaction(&self) -> Compacting {
        let agent = self.agents.get("compaction");
        let named = agent.and_then(|agent| agent.model.as_deref()).filter(|name| *name != "inherit");
        let model = named.and_then(|name| match self.usable(name) {
            Ok(model) => Some(model),
            Err(words) => {
                self.report(&format!("posse: model of compaction: {words}; using the session's own model"));
                None
            }
        });
        let prompt = agent.and_then(|agent| agent.prompt.as_deref()).unwrap_or_default();
        let posse_config::Compaction { auto, prune } = self.config.compaction;
        Compacting { auto: auto && agent.is_some(), prune, prompt: prompt.into(), model }
    }

    /// What is done beside a session's conversation.
    fn advising(&self, birth: &Birth) -> Advising {
        beside::advising(&self.places, &self.config, birth, &self.notes_claim, |name| self.usable(name), |line| self.report(line))
    }

    /// Who answers when an agent's own model is overloaded; what cannot be used is named and passed over.
    fn fallbacks(&self, agent: &Agent) -> Vec<String> {
        let mut models: Vec<String> = Vec::new();
        for named in self.config.fallbacks_for(agent) {
            match self.usable(&named) {
                Ok(model) if models.contains(&model) => {}
                Ok(model) => models.push(model),
                Err(words) if agent.fallback.is_none() => self.report(&format!("posse: fallback `{named}`: {words}; it is passed over")),
                Err(words) => self.report(&format!("posse: {}: fallback of {}: {words}", agent.origin, agent.name)),
            }
        }
        models
    }

    /// The tool that loads skills, as an agent with these rights sees it; none where there are none.
    fn skill_tool(&self, book: &Rulebook, above: &[Rules]) -> Option<Arc<dyn Tool>> {
        let ceiling: Vec<&Rules> = book.ceiling.iter().chain(above).collect();
        let allowed =
            |name: &str| judge("skill", &[Touch::new("skill", name)], None, &book.rules, &ceiling).decision.verdict != Verdict::Deny;
        let listing = self.skills.listing(&allowed);
        let skills = self.skills.clone();
        let find = move |name: &str| {
            skills.called_for(name).map(|skill| FoundSkill { name: skill.name.clone(), content: posse_config::skill_content(skill) })
        };
        (!self.skills.list().is_empty()).then(|| Arc::new(SkillTool::new(listing, Arc::new(find))) as Arc<dyn Tool>)
    }

    /// OpenCode's `experimental.primary_tools`: what only the agent that the user talks to may use.
    fn primary_tools(&self) -> Option<Rules> {
        let said = self.config.later.iter().filter(|later| later.key == "experimental");
        let names: Vec<&str> =
            said.filter_map(|later| later.value["primary_tools"].as_array()).flatten().filter_map(|name| name.as_str()).collect();
        let rule = |key: &str, action: Verdict| Rule {
            key: key.to_owned(),
            pattern: "*".into(),
            action,
            origin: "experimental.primary_tools".into(),
        };
        let denied = names.iter().map(|name| rule(key_of(name), Verdict::Deny));
        (!names.is_empty()).then(|| Rules(std::iter::once(rule("*", Verdict::Allow)).chain(denied).collect()))
    }

    /// What the user set, or what the dialect is used to.
    fn depth_max(&self) -> u64 {
        if self.config.says("limits.depth") { self.config.limits.depth } else { self.circumstances.dialect.depth() }
    }

    /// The delegation tool as a caller with these rights sees it.
    fn delegation(&self, book: &Rulebook, above: &[Rules]) -> Delegation {
        let ceiling: Vec<&Rules> = book.ceiling.iter().chain(above).collect();
        let tool = self.circumstances.dialect.tool();
        let callable = |agent: &Agent| {
            let touch = [Touch::new(key_of(tool), &agent.name)];
            let denied = || judge(tool, &touch, None, &book.rules, &ceiling).decision.verdict == Verdict::Deny;
            let standing = match () {
                () if !agent.mode.is_subagent() => Standing::Primary,
                () if denied() => Standing::Denied,
                () => Standing::Listed,
            };
            let (name, description) = (agent.name.clone(), agent.description.clone());
            Callable { name, description, aliases: agent.aliases.clone(), standing, forks: false }
        };
        let switches = Switches {
            background: self.config.background(),
            forks: self.circumstances.forks,
            worktrees: self.config.worktree.create.is_some() || self.has_worktrees(),
        };
        let fork = (switches.forks != Forks::Off && self.agents.get(FORK).is_none()).then(|| Agent {
            name: FORK.to_owned(),
            description: Some(FORK_DESCRIPTION.to_owned()),
            mode: AgentMode::Subagent,
            ..Agent::default()
        });
        let fork = fork.iter().map(|fork| Callable { forks: true, ..callable(fork) });
        Delegation::new(self.circumstances.dialect, self.agents.list().iter().map(callable).chain(fork), switches)
    }
}

impl Wardrobe {
    /// Who takes notes opens one folder and asks nobody, whatever the session it is about may do.
    fn for_notes(&self, birth: &Birth, mut outfit: Outfit) -> Result<Outfit, String> {
        // Notes are taken with the tools that the conversation has: its head is theirs.
        if !outfit.head.tools.iter().any(|tool| key_of(&tool.name) == "edit") {
            (outfit.advice.remember, outfit.advice.consolidate) = (None, None);
        }
        let Some(folder) = beside::only_folder(&self.places, birth) else { return Ok(outfit) };
        let folder = folder?;
        let local = LocalWorkspace::new(&folder, &folder, self.keeper.clone()).map_err(|error| format!("{}: {error}", folder.display()))?;
        let workspace = guarded(local.with_own_roots([folder]));
        let (rules, ceiling, asking) = (beside::notes_rules(), Vec::new(), Asking::Nobody);
        Ok(Outfit { workspace, rules, ceiling, asking, mode: Mode::Default, strict_shell: true, ..outfit })
    }

    /// Whether an agent's definition gives it a folder of its own.
    fn isolation_of(&self, agent: &Agent) -> Option<Isolation> {
        match agent.isolation.as_deref()?.trim() {
            "" | "none" => None,
            "worktree" => Some(Isolation::Worktree),
            "worktree+changes" => Some(Isolation::WorktreeWithChanges),
            other => {
                let words = "there is no such isolation, so the agent works in the folder of its caller; there are worktree, worktree+changes and none";
                self.report(&format!("posse: {}: `isolation: {other}` of {}: {words}", agent.origin, agent.name));
                None
            }
        }
    }

    /// Whether git can make folders of their own here.
    fn has_worktrees(&self) -> bool {
        self.places.project.join(".git").exists()
    }

    /// The same tools for one session alone: they remember what its calls were judged by and where its shell stands.
    fn own_tools(&self, tools: &[Arc<dyn Tool>]) -> Vec<Arc<dyn Tool>> {
        let own = posse_tools::builtin_with(&self.circumstances.shells);
        let own_of = |tool: &Arc<dyn Tool>| own.iter().find(|own| own.spec().name == tool.spec().name).cloned();
        tools.iter().map(|tool| own_of(tool).unwrap_or_else(|| tool.clone())).collect()
    }

    /// Where a session works, if not where this process does.
    fn elsewhere(&self, birth: &Birth) -> Option<Places> {
        // A root works where this process was told to.
        birth.parent.as_ref()?;
        let cwd = match &birth.worktree {
            // One that git does not know of is gone with a worktree that was removed and made again.
            Some(worktree) => self.yard.worktrees().folder_in(worktree, birth.directory.as_ref()),
            None => PathBuf::from(&birth.directory),
        };
        let within = |project: PathBuf| Places { project, cwd: cwd.clone(), ..self.places.clone() };
        let own = birth.worktree.as_ref().map(|worktree| &worktree.path);
        if let Some(path) = own.or(birth.within.as_ref()) {
            return Some(within(PathBuf::from(path)));
        }
        // Its caller gave it another folder of the project.
        let given = birth.directory != self.circumstances.home && cwd != self.places.cwd;
        (given && cwd.starts_with(&self.places.project) && cwd.is_dir()).then(|| within(self.places.project.clone()))
    }
}

/// Tests may want a process to die in the middle of its tools.
fn guarded(local: LocalWorkspace) -> Arc<dyn Workspace> {
    match CrashPoint::from_env() {
        Some(point) => Arc::new(CrashingWorkspace { workspace: Arc::new(local), point }),
        None => Arc::new(local),
    }
}

impl Outfits for Wardrobe {
    fn recipe(&self, parent: &Recipe, agent: &str, model: Option<&str>) -> Result<Recipe, String> {
        let Some(agent) = self.agents.get(agent) else {
            let near = self.agents.near(agent);
            let hint = if near.is_empty() { String::new() } else { format!(" Did you mean {}?", near.join(" or ")) };
            return Err(format!("There is no agent named `{agent}`.{hint}"));
        };
        let name = match (model, agent.model.as_deref()) {
            (Some(named), _) if named != "inherit" => self.resolve(named)?,
            (None, Some(named)) if named != "inherit" => self.usable(named).unwrap_or_else(|words| {
                self.report(&format!("posse: {}: model of {}: {words}; using the caller's model", agent.origin, agent.name));
                parent.model.clone()
            }),
            _ => parent.model.clone(),
        };
        self.model(&name)?;
        Ok(Recipe { isolation: self.isolation_of(agent), ..self.recipe_of(agent, name) })
    }

    fn outfit(&self, session: &SessionId, birth: &Birth) -> Result<Outfit, String> {
        let wanted = Wanted {
            agent: birth.recipe.agent.clone(),
            definition: birth.recipe.definition.inline().unwrap_or_default().to_owned(),
            model: birth.recipe.model.clone(),
            depth: birth.depth,
            kind: birth.kind,
            directory: birth.directory.clone(),
            ceiling: birth.ceiling.clone(),
        };
        // A folder of its own may have been removed and made again: what was opened before is not there any more.
        let lasts = self.elsewhere(birth).is_none_or(|places| places.project == self.places.project);
        let known = self.ready.lock().unwrap_or_else(PoisonError::into_inner).get(&wanted).filter(|_| lasts).cloned();
        let outfit = match known {
            Some(outfit) => outfit,
            None => {
                let outfit = self.for_notes(birth, self.make(birth)?)?;
                if lasts {
                    self.ready.lock().unwrap_or_else(PoisonError::into_inner).insert(wanted, outfit.clone());
                }
                outfit
            }
        };
        let tools = self.own_tools(&outfit.tools);
        Ok(Outfit { spool: build::spool(&self.places, session), tools, ..outfit })
    }

    fn price_is_unknown(&self, model: &str) {
        let (provider, name) = model.split_once('/').unwrap_or((model, ""));
        self.report(&format!(
            "posse: nobody knows what {model} costs, so a budget in money does not count it; set `provider.{provider}.models.{name}.cost` \
             in posse.json, or give --max-tokens"
        ));
    }

    fn make_worktree<'a>(
        &'a self,
        task: &'a SessionId,
        directory: &'a str,
        isolation: Isolation,
        title: &'a str,
    ) -> BoxFuture<'a, Result<(Worktree, String), String>> {
        Box::pin(self.yard.make(task, directory, isolation, title))
    }

    fn ensure_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<Box<dyn Send + Sync>, String>> {
        Box::pin(self.yard.ensure(worktree))
    }

    fn look_at_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Left> {
        Box::pin(self.yard.look(worktree))
    }

    fn release_worktree<'a>(&'a self, worktree: &'a Worktree) -> BoxFuture<'a, Result<bool, String>> {
        Box::pin(self.yard.release(worktree))
    }
}
