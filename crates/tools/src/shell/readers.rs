//! Programs that are known not to change the files their words name. Data.
//!
//! Whoever is not here may write what it is given, so a protected file among its words asks, and a rule that denies
//! editing a file denies it. Languages and builders are here: they run code of the project, and what that writes stands
//! in no word. Outputs named by an option (`files::outputs`) count for everybody.

struct Reader {
    names: &'static str,
    /// Options or words that make it write after all.
    writes: &'static [&'static str],
    /// If there are any, it reads only with one of them.
    reads: &'static [&'static str],
}

const fn reader(names: &'static str) -> Reader {
    Reader { names, writes: &[], reads: &[] }
}

const fn unless(names: &'static str, writes: &'static [&'static str]) -> Reader {
    Reader { names, writes, reads: &[] }
}

const fn only_with(names: &'static str, reads: &'static [&'static str]) -> Reader {
    Reader { names, writes: &[], reads }
}

const READERS: &[Reader] = &[
    // Show, search, compare, count.
    reader("cat tac head tail more most bat batcat nl od hexdump hd strings wc cksum sum base64 base32 md5sum sha1sum sha224sum sha256sum"),
    reader("sha384sum sha512sum b2sum b3sum shasum grep egrep fgrep zgrep rgrep rg ag ack ugrep cmp comm diff3 colordiff delta difft"),
    reader("ls ll dir vdir exa eza lsd du stat file fd fdfind locate realpath readlink namei test [ pwd cd pushd popd lsof fuser pgrep ps"),
    reader("cut paste join column fold fmt pr expand unexpand rev tsort jq gojq jaq cloc tokei scc man info tldr which type"),
    reader("shellcheck yamllint actionlint hadolint pylint flake8 mypy pyright vale mdl check-jsonschema code cursor subl open xdg-open"),
    unless("less zless", &["-o", "-O", "--log-file", "--LOG-FILE"]),
    unless("diff sdiff", &["-o", "--output"]),
    unless("yq", &["-i", "--inplace", "--in-place"]),
    unless("awk gawk mawk nawk original-awk", &["-i"]),
    unless("eslint stylelint tslint oxlint markdownlint markdownlint-cli2", &["--fix"]),
    unless("biome", &["--write", "--fix", "--apply", "--apply-unsafe"]),
    unless("prettier gofmt goimports shfmt codespell typos", &["-w", "-i", "--write", "--write-changes"]),
    unless("ruff", &["--fix", "format"]),
    unless("openssl", &["-out", "-keyout", "-writerand"]),
    unless("jsonlint", &["-i", "--in-place"]),
    unless("gh glab", &["-O", "-D", "--output", "--dir", "download", "clone"]),
    only_with("rustfmt black isort yapf autopep8 taplo dprint", &["--check", "--diff", "-c", "check", "lint"]),
    only_with("gzip bzip2 xz zstd lz4 gunzip bunzip2 unxz unzstd", &["-c", "--stdout", "-t", "-l", "--list", "--test"]),
    only_with("unzip", &["-l", "-t", "-p", "-v", "-Z"]),
    only_with("7z 7za 7zz", &["l", "t"]),
    only_with("vim vi nvim nano emacs", &["-R", "-v", "--version"]),
    reader("view"),
    // Languages and builders.
    unless("sed gsed perl ruby", &["-i", "--in-place"]),
    reader("python python2 python3 pypy pypy3 node nodejs php lua luajit julia rscript java javac kotlin scala tclsh ghc"),
    reader(
        "source . bash sh dash zsh ksh fish make gmake bmake ninja ctest meson scons just task rake bundle gradle gradlew mvn mvnw ant bazel",
    ),
    reader(
        "gcc g++ cc c++ clang clang++ ld rustc tsc tsx ts-node pytest py.test tox nox jest vitest mocha ava karma playwright cypress rspec",
    ),
    reader("phpunit ember ng vite webpack rollup esbuild pandoc cmake posse"),
    reader(
        "uvicorn gunicorn flask django-admin rails alembic flyway dbmate prisma nodemon turbo nx lerna next nuxt astro mkdocs hugo jekyll",
    ),
    reader("psql mysql mariadb redis-cli mongosh aws gcloud az ansible ansible-playbook tofu pulumi systemctl journalctl ffprobe"),
    unless("npm pnpm yarn", &["--write", "--fix", "-w", "-i", "--in-place"]),
    unless("sass postcss tailwindcss babel swc protoc buf", &["-o", "-w", "--write", "--replace"]),
    unless("cargo", &["fix", "fmt", "new", "init"]),
    unless("go zig deno dotnet mix dart terraform bun", &["fmt", "format", "create", "init"]),
    unless("docker podman kubectl oc nerdctl helm", &["cp"]),
];

/// Git's subcommands that change nothing but its index, its history and what they print.
const GIT: &str = "
    add annotate blame branch cat-file check-attr check-ignore cherry commit describe diff diff-files diff-index diff-tree fetch
    for-each-ref grep hash-object help log ls-files ls-remote ls-tree merge-base name-rev notes push range-diff reflog remote reset
    rev-list rev-parse shortlog show show-branch show-ref stage status tag update-index var verify-commit verify-tag version
    whatchanged
";

/// Programs that run the program their words name, in the project's own environment: `npx prettier --write x`.
const RUNNERS: &[(&str, usize)] =
    &[("npx bunx pnpx uvx pipx cross-env dotenv dotenvx retry", 0), ("uv poetry pdm hatch rye pipenv", 1), ("mise asdf direnv", 2)];

/// Whether the program leaves alone every file that its words name.
pub(super) fn only_reads(program: &str, texts: &[String]) -> bool {
    if program == "git" {
        let subcommand = super::git::subcommand(texts).unwrap_or_default();
        return GIT.split_ascii_whitespace().any(|name| name == subcommand);
    }
    if let Some((_, skip)) = RUNNERS.iter().find(|(names, _)| has(names, program)) {
        let mut operands =
            texts.iter().enumerate().filter(|(_, text)| !text.starts_with('-') && !super::wrappers::is_assignment(text)).skip(*skip);
        return operands.next().is_none_or(|(at, inner)| only_reads(super::wrappers::basename(inner), &texts[at + 1..]));
    }
    let bare = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    READERS.iter().filter(|reader| has(reader.names, program) || has(reader.names, bare)).any(|reader| {
        let given = |option: &&str| texts.iter().any(|text| is_given(text, option));
        !reader.writes.iter().any(&given) && (reader.reads.is_empty() || reader.reads.iter().any(given))
    })
}

/// Whether something is known of the program here.
pub(super) fn is_known(program: &str) -> bool {
    READERS.iter().any(|reader| has(reader.names, program)) || RUNNERS.iter().any(|(names, _)| has(names, program))
}

fn has(names: &str, program: &str) -> bool {
    !program.is_empty() && names.split(' ').any(|name| name == program)
}

/// `-i` also in a cluster or with its value, `--fix` also as `--fix=all`; longer words with one dash only as they are.
fn is_given(text: &str, option: &str) -> bool {
    match option.strip_prefix('-').map(str::as_bytes) {
        Some([letter]) => text.starts_with('-') && !text.starts_with("--") && text.as_bytes().contains(letter),
        _ => text.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')),
    }
}
