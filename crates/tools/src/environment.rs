//! The environment of every tool process: built from an allow list, never inherited.
//!
//! What is not named here stays outside: provider keys, `GIT_*` but for who makes commits, `LD_*`, `BASH_ENV`, agents' sockets. A variable that a
//! build really needs is added to the list, with the program that reads it in mind.

/// Variables that say who and where the user is, and where toolchains live.
const ALLOWED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "HOSTNAME",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "TMPDIR",
    "CI",
    // Who makes commits. Of git's own variables only these: they start and lead to nothing.
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    // Toolchains.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "GOFLAGS",
    "JAVA_HOME",
    "JDK_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "MAVEN_HOME",
    "GRADLE_USER_HOME",
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "UV_CACHE_DIR",
    "PIP_CACHE_DIR",
    "POETRY_HOME",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "DOTNET_ROOT",
    "HOMEBREW_PREFIX",
    "SDKROOT",
    "PKG_CONFIG_PATH",
    "CC",
    "CXX",
    "NIX_PATH",
    "NIX_SSL_CERT_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // The way out to the network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

const ALLOWED_PREFIXES: &[&str] = &["LC_", "XDG_"];

/// Nobody is there to page, to type or to be asked.
const SET: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "true"),
    ("PAGER", "cat"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("POSSE", "1"),
];

/// What POSIX systems start with; only for a posse that was itself started without a path.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The complete environment for a tool process, sorted by name.
pub fn child_env() -> Vec<(String, String)> {
    from_variables(std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))))
}

fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let allowed = |name: &str| ALLOWED.contains(&name) || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let mut environment: Vec<(String, String)> = variables.filter(|(name, _)| allowed(name)).collect();
    if !environment.iter().any(|(name, _)| name == "PATH") {
        environment.push(("PATH".into(), PATH_DEFAULT.into()));
    }
    environment.extend(SET.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    environment.sort();
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What must never reach a command, by the reason why.
    const OUTSIDE: &[(&str, &[&str])] = &[
        (
            "keys of providers and clouds",
            &[
                "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN",
                "OPENAI_API_KEY",
                "GEMINI_API_KEY",
                "GOOGLE_API_KEY",
                "OPENROUTER_API_KEY",
                "DEEPSEEK_API_KEY",
                "GROQ_API_KEY",
                "MISTRAL_API_KEY",
                "XAI_API_KEY",
                "AZURE_OPENAI_API_KEY",
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY",
                "AWS_SESSION_TOKEN",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "GITHUB_TOKEN",
                "GH_TOKEN",
                "NPM_TOKEN",
                "CARGO_REGISTRY_TOKEN",
                "HF_TOKEN",
                "DATABASE_URL",
                "MY_SECRET",
            ],
        ),
        ("code for the loader", &["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "LD_DEBUG_OUTPUT", "DYLD_INSERT_LIBRARIES", "GCONV_PATH"]),
        ("code for shells", &["BASH_ENV", "ENV", "PROMPT_COMMAND", "PS4", "SHELLOPTS", "BASHOPTS", "CDPATH", "IFS", "BASH_FUNC_ls%%"]),
        (
            "code for git",
            &[
                "GIT_SSH_COMMAND",
                "GIT_SSH",
                "GIT_EXEC_PATH",
                "GIT_EXTERNAL_DIFF",
                "GIT_PROXY_COMMAND",
                "GIT_ASKPASS",
                "GIT_DIR",
                "GIT_WORK_TREE",
                "GIT_CONFIG",
                "GIT_CONFIG_GLOBAL",
                "GIT_CONFIG_COUNT",
                "GIT_CONFIG_KEY_0",
                "GIT_CONFIG_VALUE_0",
                "GIT_TEMPLATE_DIR",
                "GIT_TRACE",
                "GIT_SEQUENCE_EDITOR",
            ],
        ),
        (
            "pagers and editors",
            &["EDITOR", "VISUAL", "LESS", "LESSOPEN", "LESSCLOSE", "MANPAGER", "BROWSER", "SSH_ASKPASS", "SUDO_ASKPASS"],
        ),
        (
            "code for interpreters and tools",
            &[
                "NODE_OPTIONS",
                "NODE_PATH",
                "PYTHONSTARTUP",
                "PYTHONPATH",
                "PYTHONHOME",
                "PERL5OPT",
                "PERL5LIB",
                "RUBYOPT",
                "RUBYLIB",
                "JAVA_TOOL_OPTIONS",
                "_JAVA_OPTIONS",
                "RUSTC_WRAPPER",
                "RUSTFLAGS",
                "MAKEFLAGS",
                "RIPGREP_CONFIG_PATH",
                "npm_config_script_shell",
            ],
        ),
        (
            "ways to other programs",
            &["SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "DISPLAY", "TMUX"],
        ),
        ("ours", &["POSSE_CALL", "POSSE_HOME", "POSSE_CONFIG", "POSSE_CONFIG_CONTENT", "POSSE_CRASH_AT", "POSSE_LOG"]),
    ];

    fn inside(outside: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        from_variables(outside.into_iter()).iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn only_what_is_named_passes() {
        let named = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let expected = [
            "DEBIAN_FRONTEND=noninteractive",
            "GIT_EDITOR=true",
            "GIT_PAGER=cat",
            "GIT_TERMINAL_PROMPT=0",
            "HOME=/h",
            "LC_ALL=C",
            "PAGER=cat",
            "PATH=/bin",
            "POSSE=1",
            "XDG_RUNTIME_DIR=/r",
        ];
        let wanted = [("PATH", "/bin"), ("HOME", "/h"), ("LC_ALL", "C"), ("XDG_RUNTIME_DIR", "/r")];
        let wanted = wanted.map(|(name, value)| named(name, value));
        // What we set ourselves is ours, whatever it was outside.
        let replaced = SET.iter().map(|(name, _)| named(name, "evil"));
        assert_eq!(inside(wanted.clone().into_iter().chain(replaced)), expected);
        for (why, names) in OUTSIDE {
            for name in *names {
                assert_eq!(inside(wanted.clone().into_iter().chain([named(name, "evil")])), expected, "{why}: {name}");
            }
        }
    }

    #[test]
    fn who_makes_commits_is_known_inside() {
        for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
            assert!(from_variables([(name.to_owned(), "t".to_owned())].into_iter()).contains(&(name.into(), "t".into())), "{name}");
        }
    }

    #[test]
    fn there_is_always_a_path() {
        assert!(from_variables(std::iter::empty()).contains(&("PATH".into(), PATH_DEFAULT.into())));
    }
}
