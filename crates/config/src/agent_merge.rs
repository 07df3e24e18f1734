//! One definition put over what is known of an agent: what it does not say stays, options and rules are merged.
//!
//! Knows nothing of files. What a folder that is not trusted may say was sifted before; here its rules are only kept
//! apart, so that they never lift another's.

use posse_session::{Agent, AgentMode, AgentTools, Rule, Verdict};
use serde_json::{Map, Value};

use crate::{agent_fields::Draft, origin::Origin, permission, rule_key::RuleKey};

/// How far a definition is believed, and what it means where it says nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) trusted: bool,
    /// It replaces what others said, except what is native.
    pub(crate) whole: bool,
    pub(crate) default_mode: AgentMode,
    pub(crate) forced: Option<AgentMode>,
}

pub(crate) fn apply(agent: &mut Agent, draft: Draft, standing: Standing, origin: &Origin) {
    if standing.whole && !agent.native {
        let fresh = Agent { name: std::mem::take(&mut agent.name), mode: standing.default_mode, trusted: true, ..Agent::default() };
        // What somebody nobody trusts has tightened stays tight.
        let ceiling = std::mem::take(&mut agent.ceiling);
        *agent = Agent { ceiling, ..fresh };
    }
    let was_trusted = agent.trusted && !agent.origin.is_empty();
    agent.origin = origin.to_string();
    agent.trusted &= standing.trusted;
    rename(agent, draft.name, draft.aliases);
    // Who is not trusted may not take away whom the user starts with.
    if standing.trusted || !was_trusted {
        agent.mode = standing.forced.or(draft.mode).unwrap_or(agent.mode);
        agent.hidden = draft.hidden.unwrap_or(agent.hidden);
    }
    agent.background = draft.background.unwrap_or(agent.background);
    over(&mut agent.description, draft.description);
    over(&mut agent.model, draft.model);
    over(&mut agent.variant, draft.variant);
    over(&mut agent.effort, draft.effort);
    over(&mut agent.temperature, draft.temperature);
    over(&mut agent.top_p, draft.top_p);
    over(&mut agent.color, draft.color);
    over(&mut agent.prompt, draft.prompt);
    over(&mut agent.steps, draft.steps);
    over(&mut agent.permission_mode, draft.permission_mode);
    over(&mut agent.isolation, draft.isolation);
    over(&mut agent.memory, draft.memory);
    over(&mut agent.initial_prompt, draft.initial_prompt);
    over(&mut agent.timeout, draft.timeout);
    over(&mut agent.limits.idle, draft.limits.idle);
    over(&mut agent.limits.stream_idle, draft.limits.stream_idle);
    over(&mut agent.limits.step, draft.limits.step);
    over(&mut agent.limits.depth, draft.limits.depth);
    over(&mut agent.limits.children, draft.limits.children);
    over(&mut agent.fallback, draft.fallback);
    over(&mut agent.budget.cost_usd, draft.budget.cost_usd);
    over(&mut agent.budget.tokens, draft.budget.tokens);
    if let Some(words) = draft.append {
        agent.prompt = Some(agent.prompt.take().map_or_else(|| words.clone(), |prompt| format!("{prompt}\n\n{words}")));
    }
    if let Some(tools) = draft.tools {
        if standing.trusted { offer(agent, tools) } else { withhold(agent, tools) }
    }
    if standing.trusted && draft.disallowed_tools.is_some() {
        agent.disallowed_tools.clear();
    }
    agent.disallowed_tools.extend(draft.disallowed_tools.unwrap_or_default());
    agent.skills = draft.skills.unwrap_or_else(|| std::mem::take(&mut agent.skills));
    agent.required_mcp_servers = draft.required_mcp_servers.unwrap_or_else(|| std::mem::take(&mut agent.required_mcp_servers));
    if !draft.mcp_servers.is_null() {
        agent.mcp_servers = draft.mcp_servers;
    }
    if !draft.hooks.is_null() {
        agent.hooks = draft.hooks;
    }
    deepen(&mut agent.options, draft.options);
    permit(agent, &draft.permission, standing.trusted);
}

fn over<T>(known: &mut Option<T>, said: Option<T>) {
    if said.is_some() {
        *known = said;
    }
}

/// An agent keeps the name it is looked up by as an alias; a native keeps its name, which others rely on.
fn rename(agent: &mut Agent, name: Option<String>, aliases: Option<Vec<String>>) {
    if let Some(name) = name
        && Agent::key(&name) != Agent::key(&agent.name)
        && !agent.native
        && !agent.name.contains(':')
    {
        let before = std::mem::replace(&mut agent.name, name);
        agent.aliases.push(before);
    }
    for alias in aliases.unwrap_or_default() {
        if !agent.is_named(&alias) {
            agent.aliases.push(alias);
        }
    }
}

/// A map is put over a map key by key, and what it turns on again is no longer denied by what is native.
fn offer(agent: &mut Agent, said: AgentTools) {
    let AgentTools::Map(said) = said else {
        agent.tools = said;
        return;
    };
    let mut flags = if let AgentTools::Map(flags) = std::mem::take(&mut agent.tools) { flags } else { Vec::new() };
    for (name, offered) in said {
        if offered {
            let key = RuleKey::of(&name).unwrap_or_else(|_| RuleKey::literal(&name)).key;
            agent.own_rules.retain(|rule| rule.key != key || rule.pattern != "*" || rule.action != Verdict::Deny);
        }
        flags.retain(|(known, _)| *known != name);
        flags.push((name, offered));
    }
    agent.tools = AgentTools::Map(flags);
}

/// Who is not trusted may take tools away and give none: a list counts only where nobody has said anything.
fn withhold(agent: &mut Agent, said: AgentTools) {
    match said {
        AgentTools::Listed(names) if agent.tools == AgentTools::All => agent.tools = AgentTools::Listed(names),
        AgentTools::All | AgentTools::Listed(_) => {}
        AgentTools::Map(flags) => agent.disallowed_tools.extend(flags.into_iter().filter(|(_, offered)| !offered).map(|(name, _)| name)),
    }
}

/// Rules of somebody who is not trusted: judged by themselves, and nothing else changes.
pub(crate) fn tighten(agent: &mut Agent, rules: &[Rule]) {
    permit(agent, rules, false);
}

fn permit(agent: &mut Agent, rules: &[Rule], trusted: bool) {
    let known = if trusted { &mut agent.permission } else { &mut agent.ceiling };
    *known = permission::merged(known, rules);
}

fn deepen(known: &mut Map<String, Value>, said: Map<String, Value>) {
    for (key, value) in said {
        match (known.get_mut(&key), value) {
            (Some(Value::Object(inside)), Value::Object(value)) => deepen(inside, value),
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}
