//! From what the user wrote to a world: places, configuration, store, model, tools, outfit.
//!
//! Start-up touches only what the command needs: no network, no process, no scan before the first prompt.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use posse_config::{ChosenModel, Config, KnownProvider, ModelChoice, Overrides, PermissionMode, Places, Rulebook, parse_rule_list};
use posse_context::Environment;
use posse_engine::{Hub, Lanes, Ulids, World};
use posse_models::{Explorer, FactsOverride, ProviderSpec, Scripted};
use posse_session::{Clock, Forks, Log, Model, Rule, Rules, SessionId, Timestamp, Verdict, key_of};
use posse_store::{Outputs, Sqlite};
use posse_tools::{Dialect, Keeper, LocalWorkspace};

use crate::{
    args::How,
    crash::{CrashPoint, CrashingLog},
    exit::Failure,
    print::to_stderr,
};

/// So many calls of one reply run at once.
pub(crate) const CALLS_MAX: usize = 10;

pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

pub(crate) fn env(name: &str) -> Option<String> {
    let said = std::env::var(name).ok();
    match name {
        // Ollama's own variable says where its server is, in fewer words.
        "OLLAMA_BASE_URL" => said.or_else(|| crate::local::ollama_base_url(&std::env::var("OLLAMA_HOST").ok()?)),
        // Azure's resource is the first part of its host.
        "AZURE_BASE_URL" => said.or_else(|| {
            let resource = std::env::var("AZURE_RESOURCE_NAME").ok().filter(|name| !name.is_empty())?;
            Some(format!("https://{resource}.openai.azure.com"))
        }),
        _ => said,
    }
}

/// Where everything is, for a command that works in `dir`.
pub(crate) fn places(dir: Option<&Path>) -> Result<Places, Failure> {
    // `env` cannot say it, and an unset variable would mean other files.
    if let Some(name) = posse_config::unreadable_variable(std::env::vars_os()) {
        return Err(Failure::usage(format!("the environment variable {name} is not Unicode text; name a path that is")));
    }
    let here = std::env::current_dir().map_err(|error| Failure::failed(format!("the working directory cannot be used: {error}")))?;
    let cwd = dir.map_or(here.clone(), |dir| here.join(dir));
    let cwd = cwd.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}; name a folder that exists", cwd.display())))?;
    if !cwd.is_dir() {
        return Err(Failure::usage(format!("{} is not a folder", cwd.display())));
    }
    let places = Places::find(&cwd, &env).map_err(|error| Failure::usage(error.to_string()))?;
    let places = places.seen_from(&here.canonicalize().unwrap_or(here));
    crate::trace::start(&places.data_dir)?;
    Ok(places)
}

pub(crate) fn configuration(places: &Places, how: &How) -> Result<Config, Failure> {
    let flags = [(&how.allow, Verdict::Allow), (&how.ask, Verdict::Ask), (&how.deny, Verdict::Deny)];
    let mut flags: Vec<_> = flags.into_iter().flat_map(|(list, action)| list.iter().map(move |placed| (placed, action))).collect();
    flags.sort_by_key(|(placed, _)| placed.at);
    let mut rules = Vec::new();
    for (placed, action) in flags {
        let parsed =
            parse_rule_list(&placed.text, action, &places.home, &places.project).map_err(|error| Failure::usage(error.to_string()))?;
        // An unset variable in a script must not silently change what is allowed.
        if parsed.is_empty() {
            return Err(Failure::usage("an empty rule was given; write something like `edit` or `bash(git diff*)`"));
        }
        rules.extend(parsed);
    }
    let permission_mode = if how.skip_permissions { Some(PermissionMode::Bypass) } else { how.permission_mode };
    let overrides = Overrides { model: how.model.clone(), rules, permission_mode, trust: how.trust };
    let config = posse_config::load(places, &env, &overrides).map_err(|error| Failure::usage(error.to_string()))?;
    let config = config.with_kept_keys(crate::auth::kept(&places.data_dir));
    // What the project wished for in vain is then in the line that `warn` prints.
    Ok(config.with_project_models(&known(), &env))
}

/// Says what the user should know before anything runs.
pub(crate) fn warn(config: &Config, quiet: bool) {
    if quiet {
        return;
    }
    for problem in config.warnings.iter().chain(&config.dead_denies) {
        to_stderr(&format!("posse: {problem}"));
    }
    if let Some(line) = config.ignored_line() {
        to_stderr(&format!("posse: {line}"));
    }
}

/// Where nothing can be written (a full disk, a read-only one) what is there can still be read; the first write says why.
pub(crate) fn open_store(places: &Places) -> Result<Arc<Sqlite>, Failure> {
    let opened = Sqlite::open_to_read(places.project_data_dir(), &std::env::temp_dir());
    let store = opened.map_err(|error| Failure::failed(posse_api::words::storage(&error.to_string())))?;
    if let Some(salvaged) = store.salvaged() {
        to_stderr(&format!("posse: {salvaged}"));
    }
    Ok(Arc::new(store))
}

pub(crate) fn world(store: Arc<Sqlite>, places: &Places, config: &Config) -> Arc<World> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let mut limits: HashMap<String, usize> =
        config.concurrency.named.iter().map(|(name, count)| (name.clone(), usize::try_from(*count).unwrap_or(1))).collect();
    limits.insert("default".into(), usize::try_from(config.concurrency.default).unwrap_or(1));
    let log: Arc<dyn Log> = match CrashPoint::from_env() {
        Some(point) => Arc::new(CrashingLog { log: store.clone(), point }),
        None => store.clone(),
    };
    Arc::new(World {
        log,
        lease: store.clone(),
        inbox: store,
        ids: Arc::new(Ulids::new(clock.clone())),
        clock,
        lanes: Arc::new(Lanes::new(limits)),
        live: Default::default(),
        outputs: Arc::new(Outputs::new(spool_root(places))),
    })
}

pub(crate) fn hub(places: &Places, config: &Config) -> Result<Hub, Failure> {
    Ok(Hub::new(world(open_store(places)?, places, config)))
}

/// The providers the world knows, as the configuration wants them.
pub(crate) fn known() -> Vec<KnownProvider> {
    let known = posse_models::known_providers().iter();
    known
        .map(|known| KnownProvider {
            name: known.name,
            api: match known.api {
                posse_models::Api::Anthropic => posse_config::Api::Anthropic,
                posse_models::Api::OpenAi => posse_config::Api::OpenaiChat,
                posse_models::Api::OpenAiResponses => posse_config::Api::OpenaiResponses,
                posse_models::Api::Gemini => posse_config::Api::Gemini,
            },
            base_url: known.base_url,
            key_env: known.key_env,
            base_url_env: known.base_url_env,
            default_model: default_model(known.name),
        })
        .collect()
}

fn default_model(provider: &str) -> &'static str {
    match provider {
        "anthropic" => "claude-sonnet-4-5",
        "openai" => "gpt-5.1",
        "gemini" => "gemini-2.5-pro",
        "openrouter" => "anthropic/claude-sonnet-4.5",
        "deepseek" => "deepseek-chat",
        "groq" => "openai/gpt-oss-120b",
        "mistral" => "mistral-large-latest",
        "xai" => "grok-4",
        "together" => "moonshotai/Kimi-K2.6",
        "fireworks" => "accounts/fireworks/models/kimi-k2p6",
        "cerebras" => "gpt-oss-120b",
        "moonshot" => "kimi-k2.6",
        _ => "",
    }
}

/// The model a run uses; says so when it is the offline one by default.
pub(crate) fn model(config: &Config, how: &How) -> Result<Arc<dyn Model>, Failure> {
    if how.model.as_deref() == Some(crate::demo::script::MODEL)
        && let Some(scripted) = crate::demo::script::model()
    {
        return Ok(scripted);
    }
    // A file of replies instead of a model: for tests and demonstrations.
    if let Some(path) = how.model.as_deref().and_then(|name| name.strip_prefix("scripted/")) {
        let scripted = Scripted::load(Path::new(path)).map_err(|error| Failure::usage(error.to_string()))?;
        return Ok(Arc::new(scripted));
    }
    let choice = config.choose_model(how.model.as_deref(), &known(), &env);
    match choice.map_err(|error| Failure::usage(format!("{error}; `posse doctor` shows how to add a model")))? {
        ModelChoice::Offline => {
            if how.model.is_none() && config.model.is_none() && !how.quiet {
                to_stderr(
                    "posse: no model configured, using offline/explorer: rules and search, not an LLM. `posse doctor` shows how to add one.",
                );
            }
            Ok(Arc::new(Explorer::new()))
        }
        ModelChoice::Remote(chosen) => {
            let spec = provider(config, &chosen)?;
            Ok(posse_models::build(&spec, &chosen.model))
        }
    }
}

pub(crate) fn provider(config: &Config, chosen: &ChosenModel) -> Result<ProviderSpec, Failure> {
    let api = match chosen.api {
        posse_config::Api::Anthropic => posse_models::Api::Anthropic,
        posse_config::Api::OpenaiChat => posse_models::Api::OpenAi,
        posse_config::Api::OpenaiResponses => posse_models::Api::OpenAiResponses,
        posse_config::Api::Gemini => posse_models::Api::Gemini,
    };
    let facts = FactsOverride {
        id: chosen.spec.id.clone(),
        context: chosen.spec.context,
        output: chosen.spec.output,
        cost: chosen.spec.prices,
        images: chosen.spec.images,
    };
    Ok(ProviderSpec {
        name: chosen.provider.clone(),
        api,
        base_url: chosen.base_url.clone(),
        api_key: chosen.key.as_ref().map(|key| key.expose().to_owned()),
        key_place: crate::auth::refused_key_words(config, &chosen.provider),
        headers: chosen.headers.iter().map(|(name, value)| (name.clone(), value.expose().to_owned())).collect(),
        models: BTreeMap::from([(chosen.model.clone(), facts)]),
    })
}

/// Which delegation tools the model is shown.
pub(crate) fn dialect(config: &Config, flag: Option<&str>) -> Result<Dialect, Failure> {
    let configured = config.later.iter().rev().find(|later| later.key == "dialect" && later.trusted);
    let (name, place) = match (flag, configured) {
        (Some(flag), _) => (flag.to_owned(), "--dialect".to_owned()),
        (None, Some(later)) => (later.value.as_str().unwrap_or_default().to_owned(), format!("{}: dialect", later.origin)),
        (None, None) => return Ok(Dialect::default()),
    };
    match name.as_str() {
        "posse" => Ok(Dialect::Posse),
        "opencode" => Ok(Dialect::OpenCode),
        "claude" => Ok(Dialect::Claude),
        _ => Err(Failure::usage(format!("{place}: `{name}` is not a dialect of this version; choose posse, opencode or claude"))),
    }
}

/// Whether a model may fork its session, and why. Where nobody looks on, only who has said so gets it.
pub(crate) fn forks(config: &Config, flag: Option<Forks>, dialect: Dialect, attended: bool) -> (Forks, &'static str) {
    match (flag, config.forks) {
        (Some(forks), _) => (forks, "--fork says so"),
        (None, Some(forks)) => (forks, "`fork` in the configuration says so"),
        (None, None) if dialect == Dialect::Claude => (Forks::Off, "that is the default of the claude dialect"),
        (None, None) if !attended => (Forks::Off, "nobody looks on: without a terminal `fork` or --fork must say so"),
        (None, None) => (Forks::Explicit, "that is the default"),
    }
}

/// The rule key that a task's definition must speak of for it to be offered a tool; nothing where every task has it.
pub(crate) fn needed_key(tool: &str, dialect: Dialect) -> Option<&'static str> {
    match key_of(tool) {
        "task" => Some("task"),
        "todowrite" | "todoread" => Some("todowrite"),
        "question" => Some("question"),
        key if dialect.tools().iter().any(|speaks| key_of(speaks) == key) => Some("task"),
        _ => None,
    }
}

/// Whether a named agent answers itself, in the session it was named in.
pub(crate) fn mention_switches(config: &Config) -> Result<bool, Failure> {
    let Some(later) = config.later.iter().rev().find(|later| later.key == "mention" && later.trusted) else { return Ok(false) };
    match later.value.as_str() {
        Some("hint") => Ok(false),
        Some("switch") => Ok(true),
        _ => Err(Failure::usage(format!("{}: mention: expected \"hint\" or \"switch\"", later.origin))),
    }
}

/// Where the tools of this folder act, and what they keep off.
pub(crate) fn workspace(places: &Places) -> Result<LocalWorkspace, Failure> {
    workspace_with(places, &Arc::new(Keeper::new()), Vec::new())
}

/// The same, with folders that may be read besides.
pub(crate) fn workspace_with(places: &Places, keeper: &Arc<Keeper>, readable: Vec<PathBuf>) -> Result<LocalWorkspace, Failure> {
    let local = LocalWorkspace::new(&places.project, &places.cwd, keeper.clone())
        .map_err(|error| Failure::failed(format!("{}: {error}", places.cwd.display())))?;
    Ok(local
        .with_readable_roots(std::iter::once(spool_root(places)).chain(readable))
        .with_private_roots([places.data_dir.clone()])
        .with_guarded_roots([places.data_dir.clone(), places.config_dir.clone()])
        // A worktree is its task's own, wherever worktrees lie.
        .with_ground(Some(places.project.clone()).filter(|project| project.starts_with(places.worktrees_dir()))))
}

/// The rule by which a tool is denied altogether: then it is not shown to the model.
pub(crate) fn removed_by<'a>(book: &'a Rulebook, tool: &str) -> Option<&'a Rule> {
    // What looks after background shells is of no use without a shell.
    let with = if matches!(tool, "bash_output" | "kill_shell") { "bash" } else { tool };
    let removing = |rules: &'a Rules| rules.disabling(key_of(tool)).or_else(|| rules.disabling(key_of(with)));
    std::iter::once(&book.rules).chain(&book.ceiling).find_map(removing)
}

pub(crate) fn spool(places: &Places, session: &SessionId) -> PathBuf {
    spool_root(places).join(session.as_str())
}

/// One folder per session, which every session may read.
fn spool_root(places: &Places) -> PathBuf {
    places.project_data_dir().join("spool")
}

pub(crate) fn environment(places: &Places, model: &str) -> Environment {
    Environment {
        model: model.to_owned(),
        cwd: places.cwd.display().to_string(),
        project: places.project.display().to_string(),
        git: places.project.join(".git").exists(),
        platform: std::env::consts::OS.to_owned(),
        date: jiff::Zoned::now().strftime("%Y-%m-%d").to_string(),
    }
}
