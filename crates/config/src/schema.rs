//! The keys of a file, as a table: what each is called, what may stand there, and whose word counts.
//!
//! Only data. A new key is a row here and a field in `config.rs`; a key whose meaning is built later is a `Later` row:
//! it is accepted and kept as written.

pub(crate) enum Shape {
    Text,
    /// Starts with `http://` or `https://`.
    Url,
    /// A text that is never shown; a missing `{env:NAME}` is remembered, not an error.
    Secret,
    Flag,
    Count {
        least: u64,
    },
    /// A number that is not negative.
    Money,
    /// A duration in words, or seconds.
    Time,
    /// The same, or `false` and `"off"` for none.
    TimeOrOff,
    Texts,
    /// The name of a model or an alias, or a list of them.
    Models,
    /// A number, which means `{"default": number}`, or numbers by name.
    Counts,
    Choice(&'static [&'static str]),
    Fields(&'static [Field]),
    /// The same, where other programs keep keys of their own: only what looks like a typo is named.
    OpenFields(&'static [Field]),
    /// Any names, kept as written.
    Named(&'static Shape),
    /// Rules; see `permission.rs`.
    Permission,
    /// A permission mode; see `mode.rs`. Whose word counts depends on the mode.
    Mode,
    /// Its meaning is built later; kept as written.
    Later,
    /// The same with `{env:NAME}` and `{file:path}` put in: agents and commands by name.
    Definitions,
    /// Known, without meaning for us.
    Nothing,
}

/// Whose word counts for a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Anyone,
    /// The user's own files, `POSSE_CONFIG`, `POSSE_CONFIG_CONTENT`, and a folder that the user trusts. In another folder
    /// the key is ignored and named.
    User,
    /// The user's own files and nobody else's.
    Owner,
}

pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// Other spellings, besides the camelCase of `name`.
    pub(crate) also: &'static [&'static str],
    pub(crate) who: Who,
    pub(crate) shape: Shape,
}

const fn field(name: &'static str, shape: Shape) -> Field {
    Field { name, also: &[], who: Who::Anyone, shape }
}

const fn user(name: &'static str, shape: Shape) -> Field {
    Field { name, also: &[], who: Who::User, shape }
}

impl Field {
    const fn or(mut self, also: &'static [&'static str]) -> Self {
        self.also = also;
        self
    }
}

pub(crate) static TOP: &[Field] = &[
    field("$schema", Shape::Nothing),
    field("model", Shape::Text),
    field("small_model", Shape::Text),
    field("models", Shape::Named(&Shape::Text)),
    user("provider", Shape::Named(&Shape::Fields(PROVIDER))).or(&["providers"]),
    user("default_agent", Shape::Text),
    field("permission", Shape::Permission).or(&["permissions"]),
    field("permission_order", Shape::Choice(&["last", "first"])),
    field("tools", Shape::Permission),
    user("limits", Shape::Fields(LIMITS)),
    user("concurrency", Shape::Counts),
    user("fallback", Shape::Models).or(&["fallback_models", "fallback_model"]),
    user("background", Shape::Flag),
    user("auto_background_after", Shape::TimeOrOff),
    user("compaction", Shape::Fields(COMPACTION)),
    field("instructions", Shape::Texts),
    Field { name: "compat", also: &[], who: Who::Owner, shape: Shape::Fields(COMPAT) },
    field("agent", Shape::Definitions).or(&["agents"]),
    // What OpenCode called agents before.
    field("mode", Shape::Definitions).or(&["modes"]),
    field("command", Shape::Definitions).or(&["commands"]),
    field("categories", Shape::Later),
    field("experimental", Shape::Later),
    user("dialect", Shape::Later),
    user("fork", Shape::Choice(&["off", "explicit", "implicit"])),
    user("worktree", Shape::Fields(WORKTREE)).or(&["worktrees"]),
    user("internal", Shape::Fields(INTERNAL)),
    user("mention", Shape::Later),
    user("retention", Shape::Later),
    user("skills", Shape::Later),
    user("mcp", Shape::Later).or(&["mcp_servers"]),
    user("hooks", Shape::Later),
    user("plugins", Shape::Later).or(&["plugin"]),
    user("sandbox", Shape::Later),
    user("schedule", Shape::Later),
    field("permission_mode", Shape::Mode),
];

static INTERNAL: &[Field] = &[
    user("memory", Shape::Flag),
    user("consolidate", Shape::Flag),
    user("suggest", Shape::Flag),
    user("speculate", Shape::Flag),
    user("summaries", Shape::TimeOrOff),
    user("model", Shape::Text),
];

static WORKTREE: &[Field] = &[user("changes", Shape::Flag), user("create", Shape::Text)];

static COMPACTION: &[Field] = &[user("auto", Shape::Flag), user("prune", Shape::Flag)];

/// Claude's settings. What is not here is that program's own business.
pub(crate) static CLAUDE: &[Field] = &[
    field("permissions", Shape::Permission),
    user("hooks", Shape::Later),
    // What runs something or leads somewhere else. We do none of it; a folder that nobody trusts is told so.
    user("env", Shape::Nothing),
    user("api_key_helper", Shape::Nothing),
    user("aws_auth_refresh", Shape::Nothing),
    user("aws_credential_export", Shape::Nothing),
    user("gcp_auth_refresh", Shape::Nothing),
    user("otel_headers_helper", Shape::Nothing),
    user("status_line", Shape::Nothing),
    user("subagent_status_line", Shape::Nothing),
    user("file_suggestion", Shape::Nothing),
    user("enable_all_project_mcp_servers", Shape::Nothing),
    user("enabled_mcpjson_servers", Shape::Nothing),
    user("enabled_plugins", Shape::Nothing),
    user("extra_known_marketplaces", Shape::Nothing),
    user("sandbox", Shape::Nothing),
];

static PROVIDER: &[Field] = &[
    field("api", Shape::Text),
    field("npm", Shape::Text),
    field("name", Shape::Text),
    field("id", Shape::Text),
    field("base_url", Shape::Url),
    field("api_key", Shape::Secret),
    field("env", Shape::Texts),
    field("headers", Shape::Named(&Shape::Secret)),
    field("options", Shape::OpenFields(OPTIONS)),
    field("models", Shape::Named(&Shape::OpenFields(MODEL))),
    field("whitelist", Shape::Nothing),
    field("blacklist", Shape::Nothing),
];

static OPTIONS: &[Field] = &[
    field("base_url", Shape::Url),
    field("api_key", Shape::Secret),
    field("headers", Shape::Named(&Shape::Secret)),
    field("timeout", Shape::Nothing),
];

static MODEL: &[Field] = &[
    field("id", Shape::Text),
    field("context", Shape::Count { least: 1 }),
    field("output", Shape::Count { least: 1 }),
    field("limit", Shape::OpenFields(LIMIT)),
    field("cost", Shape::OpenFields(COST)),
    field("attachment", Shape::Flag).or(&["images"]),
    field("options", Shape::Nothing),
    field("variants", Shape::Nothing),
    field("modalities", Shape::Nothing),
];

// Zero is how the neighbours write "not known".
static LIMIT: &[Field] =
    &[field("context", Shape::Count { least: 0 }), field("output", Shape::Count { least: 0 }), field("input", Shape::Nothing)];

static COST: &[Field] =
    &[field("input", Shape::Money), field("output", Shape::Money), field("cache_read", Shape::Money), field("cache_write", Shape::Money)];

static LIMITS: &[Field] = &[
    field("depth", Shape::Count { least: 0 }),
    field("children", Shape::Count { least: 0 }),
    field("tree", Shape::Count { least: 0 }),
    field("stream_idle", Shape::Time),
    field("step", Shape::Time),
    field("idle", Shape::Time),
    field("wall", Shape::Time),
    field("steps", Shape::Count { least: 1 }),
    field("cost", Shape::Money),
    field("tokens", Shape::Count { least: 1 }),
];

static COMPAT: &[Field] = &[field("opencode", Shape::Flag), field("claude", Shape::Flag)];

/// `baseURL`, `base-url` and `BaseUrl` as `base_url`.
pub(crate) fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 4);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let after = letters.get(at + 1);
        // A word begins at a capital after a small letter, and at the last of several capitals.
        let begins = before.is_some_and(|before| {
            before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || before.is_ascii_uppercase() && after.is_some_and(char::is_ascii_lowercase)
        });
        if letter.is_ascii_uppercase() && begins {
            snake.push('_');
        }
        snake.push(if *letter == '-' { '_' } else { letter.to_ascii_lowercase() });
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_key_is_the_same_key() {
        let table = [
            ("baseURL", "base_url"),
            ("base_url", "base_url"),
            ("base-url", "base_url"),
            ("apiKey", "api_key"),
            ("cacheRead", "cache_read"),
            ("autoBackgroundAfter", "auto_background_after"),
            ("URLPath", "url_path"),
            ("mcpServers", "mcp_servers"),
            ("enabledMcpjsonServers", "enabled_mcpjson_servers"),
            ("apiKeyHelper", "api_key_helper"),
            ("$schema", "$schema"),
            ("model", "model"),
        ];
        for (written, name) in table {
            assert_eq!(snake_case(written), name);
        }
    }

    #[test]
    fn no_key_is_in_the_table_twice() {
        for table in [TOP, CLAUDE, PROVIDER, OPTIONS, MODEL, LIMIT, COST, LIMITS, COMPAT] {
            let mut names: Vec<&str> = table.iter().flat_map(|field| std::iter::once(&field.name).chain(field.also)).copied().collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }
}
