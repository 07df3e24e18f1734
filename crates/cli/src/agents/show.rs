//! `posse agents show`: one agent as it would work here: its definition, the tools it would really be offered, its rules.
//!
//! Tools and rules are asked of the wardrobe that also dresses a run, so this says nothing else than what a run does.

use std::{sync::Arc, time::Duration};

use posse_api::words;
use posse_config::{RoundLimits, Skills, memory_dir};
use posse_engine::{Outfit, Outfits as _};
use posse_models::Explorer;
use posse_session::{Agent, AgentTools, Asking, Birth, Kind, Model as _, Rules, SessionId, format_duration};
use serde_json::{Map, Value, json};

use super::{mode_word, unusable_model};
use crate::{
    args::Listing,
    build,
    exit::{Exit, Failure},
    internal::Setting,
    print::{flat, safe, to_stdout},
    rules::table,
    wardrobe::{Circumstances, Wardrobe},
};

pub(super) fn show(name: &str, format: Listing) -> Result<Exit, Failure> {
    let setting = Setting::here()?;
    let agent = match setting.agents.get(name) {
        Some(agent) => agent.clone(),
        None => return Err(unknown(name, &setting)),
    };
    let skills = posse_config::skills(&setting.places, &setting.config);
    let unusable = unusable_model(&agent, &setting.config);
    let memory = agent.memory.map(|scope| memory_dir(&setting.places, scope, &agent.name).display().to_string());
    let shown = Shown { unusable, ..Shown::of(agent, setting, &skills, memory)? };
    if format == Listing::Json {
        to_stdout(&shown.json().to_string());
    } else {
        shown.lines().iter().for_each(|line| to_stdout(line));
    }
    Ok(Exit::Done)
}

fn unknown(name: &str, setting: &Setting) -> Failure {
    let near = setting.agents.near(name);
    let hint =
        if near.is_empty() { "`posse agents list` shows who there is".to_owned() } else { format!("did you mean {}?", near.join(" or ")) };
    Failure::usage(flat(&format!("there is no agent `{name}`; {hint}")))
}

struct Shown {
    agent: Agent,
    /// As the one a user talks to; nothing where nobody can.
    root: Option<Outfit>,
    /// As another agent's task.
    task: Option<Outfit>,
    /// Preloaded, and whether there is one of that name.
    skills: Vec<(String, bool)>,
    memory: Option<String>,
    /// What holds for it here, whatever it asks for.
    limits: RoundLimits,
    /// Who answers when its model is overloaded.
    fallback: Vec<String>,
    /// Why its model cannot be used here.
    unusable: Option<String>,
}

impl Shown {
    fn of(agent: Agent, setting: Setting, skills: &Skills, memory: Option<String>) -> Result<Self, Failure> {
        let dialect = build::dialect(&setting.config, None)?;
        let circumstances = Circumstances {
            asking: Asking::Open,
            forks: build::forks(&setting.config, None, dialect, true).0,
            dialect,
            shells: Default::default(),
            switches: false,
            speaker: String::new(),
            home: String::new(),
            quiet: false,
            answer: None,
        };
        let (limits, fallback) = (setting.config.limits_for(&agent), setting.config.fallbacks_for(&agent));
        // No model is called, so any will do.
        let any = Arc::new(Explorer::new());
        let model = any.facts().name.clone();
        let directory = setting.places.cwd.display().to_string();
        let wardrobe = Wardrobe::new(setting.places, setting.config, setting.agents, any, "", circumstances)?;
        let nobody = SessionId::new("ses_none");
        let outfit = |kind: Kind| {
            let parent = (kind == Kind::Task).then(|| nobody.clone());
            let depth = u64::from(parent.is_some());
            let recipe = wardrobe.recipe_of(&agent, model.clone());
            let (root, directory) = (nobody.clone(), directory.clone());
            let birth = Birth {
                kind,
                root,
                parent,
                directory,
                title: String::new(),
                recipe,
                ceiling: Vec::new(),
                depth,
                strict_shell: false,
                worktree: None,
                within: None,
            };
            wardrobe.outfit(&nobody, &birth).map_err(Failure::usage)
        };
        let root = agent.mode.is_primary().then(|| outfit(Kind::Root)).transpose()?;
        let task = agent.mode.is_subagent().then(|| outfit(Kind::Task)).transpose()?;
        let skills = agent.skills.iter().map(|name| (name.clone(), skills.find(name).is_some())).collect();
        Ok(Self { agent, root, task, skills, memory, limits, fallback, unusable: None })
    }

    /// Rules are those of the agent, whoever it works for; a caller's come on top.
    fn rules(&self) -> (&Rules, &[Rules]) {
        static NONE: Rules = Rules(Vec::new());
        self.root.as_ref().or(self.task.as_ref()).map_or((&NONE, &[]), |outfit| (&outfit.rules, &outfit.ceiling))
    }

    fn json(&self) -> Value {
        let (rules, ceiling) = self.rules();
        let skills: Vec<Value> = self.skills.iter().map(|(name, found)| json!({"name": name, "found": found})).collect();
        json!({
            "agent": self.agent,
            "tools": {"root": self.root.as_ref().map(tools), "task": self.task.as_ref().map(tools)},
            "rules": rules,
            "ceiling": ceiling,
            "skills": skills,
            "memory": self.memory,
            "limits": Value::Object(limits(&self.agent, &self.limits).into_iter().map(|(key, _, value)| (key.to_owned(), json!(value))).collect()),
            "fallback": self.fallback,
            "unusable_model": self.unusable,
            "later": later(&self.agent),
        })
    }

    fn lines(&self) -> Vec<String> {
        let agent = &self.agent;
        let mut lines = vec![format!("{}  {}", safe(&agent.name), standing(agent))];
        let mut field = |key: &str, value: &str| lines.push(format!("  {key:11} {}", flat(value)));
        field("defined in", &agent.origin);
        field("description", agent.description.as_deref().unwrap_or("none"));
        if !agent.aliases.is_empty() {
            field("also called", &agent.aliases.join(", "));
        }
        let model = agent.model.as_deref().unwrap_or("the caller's, or the configured one");
        let unusable = self.unusable.as_ref().map(|words| format!(" (cannot be used here, so the caller's is: {words})"));
        field("model", &format!("{model}{}", unusable.unwrap_or_default()));
        for (key, value) in settings(agent) {
            field(key, &value);
        }
        for (key, asked, counts) in limits(agent, &self.limits) {
            let note = if asked == counts { String::new() } else { format!(" (it asks for {asked}; the configured limit counts)") };
            field("limit", &format!("{key} {counts}{note}"));
        }
        if !self.fallback.is_empty() {
            field("fallback", &format!("{} when its model is overloaded", self.fallback.join(", then ")));
        }
        for (key, outfit) in [("tools", &self.root), ("as a task", &self.task)] {
            if let Some(outfit) = outfit {
                let names = tools(outfit).join(", ");
                field(key, if names.is_empty() { "none" } else { &names });
            }
        }
        for (name, found) in &self.skills {
            field("skill", &format!("{name}{}", if *found { "" } else { ": there is no such skill" }));
        }
        if let Some(memory) = &self.memory {
            field("memory", memory);
        }
        if let Some(isolation) = &agent.isolation {
            field("isolation", isolation);
        }
        for (key, value) in later(agent) {
            field("not yet", &format!("{key}: {value} (kept, and without effect in this version)"));
        }
        let (rules, ceiling) = self.rules();
        lines.push("rules, the last one that matches wins; a caller's count as well".to_owned());
        lines.extend(table(rules));
        for list in ceiling {
            lines.push("and this list by itself: the strictest counts".to_owned());
            lines.extend(table(list));
        }
        lines.push("prompt".to_owned());
        let outfit = self.root.as_ref().or(self.task.as_ref());
        let prompt = outfit.and_then(|outfit| outfit.head.system.first()).map_or("", String::as_str);
        lines.extend(safe(prompt.trim_end()).lines().map(|line| format!("  {line}").trim_end().to_owned()));
        lines
    }
}

fn tools(outfit: &Outfit) -> Vec<&str> {
    outfit.head.tools.iter().map(|spec| spec.name.as_str()).collect()
}

/// `subagent, built-in, hidden`.
fn standing(agent: &Agent) -> String {
    let words = [
        (true, mode_word(agent.mode)),
        (agent.default, "default"),
        (agent.hidden, "hidden"),
        (!agent.trusted, "from a folder that is not trusted: its words and stricter rules count, nothing else"),
    ];
    words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
}

/// What the definition says that a run heeds, beside tools and rules.
fn settings(agent: &Agent) -> Vec<(&'static str, String)> {
    let number = |value: Option<f64>| value.map(|value| value.to_string());
    let options = (!agent.options.is_empty()).then(|| Value::Object(agent.options.clone()).to_string());
    let names = |names: &[String]| (!names.is_empty()).then(|| names.join(", "));
    let listed = match &agent.tools {
        AgentTools::All => None,
        AgentTools::Listed(names) => Some(if names.is_empty() { "none".to_owned() } else { names.join(", ") }),
        AgentTools::Map(flags) => {
            Some(flags.iter().map(|(name, on)| format!("{name}: {}", if *on { "on" } else { "off" })).collect::<Vec<_>>().join(", "))
        }
    };
    let all = [
        ("steps", agent.steps.map(|steps| format!("at most {}", words::count(steps, "model call")))),
        ("temperature", number(agent.temperature)),
        ("top_p", number(agent.top_p)),
        ("options", options),
        ("mode", agent.permission_mode.clone().map(|mode| format!("permissionMode {mode}"))),
        ("lists", listed),
        ("without", names(&agent.disallowed_tools)),
        ("background", agent.background.then(|| "always".to_owned())),
        ("first hears", agent.initial_prompt.clone()),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// The limits that the definition asks for: by name, what it asks for, and what counts.
fn limits(agent: &Agent, counts: &RoundLimits) -> Vec<(&'static str, String, String)> {
    let time = |asked: Option<Duration>, counts: Duration| Some((format_duration(asked?), format_duration(counts)));
    let number = |asked: Option<u64>, counts: Option<u64>| Some((asked?.to_string(), counts?.to_string()));
    let cost = agent.budget.cost_usd.zip(counts.cost_usd).map(|(asked, counts)| (format!("${asked}"), format!("${counts}")));
    let all = [
        ("wall", time(agent.timeout, counts.wall)),
        ("idle", time(agent.limits.idle, counts.idle)),
        ("stream_idle", time(agent.limits.stream_idle, counts.stream_idle)),
        ("step", time(agent.limits.step, counts.step)),
        ("cost", cost),
        ("tokens", number(agent.budget.tokens, counts.tokens)),
        ("depth", number(agent.limits.depth, counts.depth)),
        ("children", number(agent.limits.children, Some(counts.children))),
    ];
    all.into_iter().filter_map(|(key, said)| said.map(|(asked, counts)| (key, asked, counts))).collect()
}

/// What the definition says and no run heeds yet.
fn later(agent: &Agent) -> Map<String, Value> {
    let all = [
        ("variant", json!(agent.variant)),
        ("effort", json!(agent.effort)),
        ("mcpServers", agent.mcp_servers.clone()),
        ("requiredMcpServers", if agent.required_mcp_servers.is_empty() { Value::Null } else { json!(agent.required_mcp_servers) }),
        ("hooks", agent.hooks.clone()),
        ("color", json!(agent.color)),
    ];
    all.into_iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| (key.to_owned(), value)).collect()
}
