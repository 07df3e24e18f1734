//! The environment of every tool process: built from an allow list, never inherited.
//!
//! What is not named here stays outside: provider keys, `GIT_*`, `LD_*`, `BASH_ENV`, agents' sockets. A variable that a
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

    #[test]
    fn only_what_is_named_passes() {
        let outside = [
            ("PATH", "/bin"),
            ("HOME", "/h"),
            ("LC_ALL", "C"),
            ("XDG_RUNTIME_DIR", "/r"),
            ("ANTHROPIC_API_KEY", "secret"),
            ("OPENAI_API_KEY", "secret"),
            ("GIT_SSH_COMMAND", "evil"),
            ("GIT_PAGER", "evil"),
            ("LD_PRELOAD", "evil"),
            ("BASH_ENV", "evil"),
            ("ENV", "evil"),
            ("PAGER", "less"),
            ("EDITOR", "vi"),
            ("NODE_OPTIONS", "evil"),
            ("SSH_AUTH_SOCK", "/s"),
            ("POSSE_CALL", "outer"),
            ("PROMPT_COMMAND", "evil"),
            ("BASH_FUNC_ls%%", "() { evil; }"),
        ];
        let inside = from_variables(outside.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        let shown: Vec<String> = inside.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            shown,
            [
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
            ]
        );
    }

    #[test]
    fn there_is_always_a_path() {
        assert!(from_variables(std::iter::empty()).contains(&("PATH".into(), PATH_DEFAULT.into())));
    }
}
