//! Patterns of a scout: where programs start, what manifests declare, names of tests, documents, public types.
//!
//! The dialect is that of the `regex` crate. Those that reach over lines have `\n` in them and are searched so. `(?-u)` stands
//! where it was measured to make a pattern cheaper to compile, which is most of the time in a small repository.

use crate::offline::{pattern::escaped, terms::Term};

/// Manifests that name a package, in the order in which one is chosen as the main one.
pub(super) const NAMED_MANIFESTS: &str = "{Cargo.toml,pyproject.toml,go.mod,package.json,setup.cfg,setup.py,pom.xml,composer.json,CMakeLists.txt,Gemfile,requirements.txt,deno.json}";

pub(super) const MANIFESTS_AND_READMES: &str = "{Cargo.toml,pyproject.toml,go.mod,package.json,setup.cfg,setup.py,pom.xml,composer.json,CMakeLists.txt,Gemfile,requirements.txt,README*}";

/// Where a manifest stands in that order; `None` for a file that is no such manifest.
pub(super) fn manifest_rank(path: &str) -> Option<usize> {
    let file = path.rsplit('/').next().unwrap_or(path);
    NAMED_MANIFESTS.trim_matches(['{', '}']).split(',').position(|name| name == file)
}

/// Where a program starts, and the shebang of a script.
pub(super) const MAINS: &str = r#"^\s*(?:pub\s+)?(?:async\s+)?fn main\(|^func main\(|^(?:static\s+)?(?:int|void|auto)\s+(?:wmain|main|WinMain)\s*\(|^\s*public\s+static\s+(?:async\s+)?(?:void|int|Task(?:<int>)?)\s+[mM]ain\(|^\s*(?:suspend\s+)?fun main\(|^if __name__ == |^@main\b|^main\s*::\s*IO|^\s*object\s+\w+\s+extends\s+App\b|^(?:export\s+)?(?:async\s+)?function main\(|^\s*\w+\.listen\(\s*(?:port|PORT|process\.env|\d)|\bcreateRoot\(\s*document|^\w+\s*=\s*(?:Flask|FastAPI)\(|^#!\s*/"#;

/// Binaries and scripts that manifests declare, each with the lines that belong to it.
pub(super) const SCRIPTS: &str = r#"^\[\[bin\]\]\n(?:[a-z][^\n]*\n)*|^\[(?:project\.scripts|project\.gui-scripts|tool\.poetry\.scripts)\]\n(?:[A-Za-z"][^\n]*\n)*|^\s*"(?:scripts|bin)"\s*:\s*(?:\{[^{}]*\}|"[^"\n]*")|^\s*"(?:main|module|exports)"\s*:\s*"[^"\n]*"|console_scripts[^\]]*\]|^add_executable\([^)]*\)"#;

pub(super) const TARGETS: &str = r"(?-u)^[A-Za-z@][\w./-]*(?:[ \t]+[\w.*'-]+)*[ \t]*:(?:[^=]|$)";

pub(super) const TARGET_FILES: &str = "{Makefile,makefile,GNUmakefile,*.mk,justfile,Justfile}";

pub(super) const CONTAINER_STARTS: &str = r"(?-u)^\s*(?:FROM|ENTRYPOINT|CMD)\b|^[a-z]\w*:\s+\S";

pub(super) const CONTAINER_FILES: &str = "{Dockerfile,Dockerfile.*,*.Dockerfile,Containerfile,Procfile}";

/// Files that start a program or stand for a library by their name.
pub(super) const ENTRY_FILES: &str =
    "**/{lib.rs,__init__.py,__main__.py,manage.py,wsgi.py,asgi.py,main.*,index.*,server.*,app.*,cli.*,doc.go,init.lua}";

/// Files that are source by their ending.
pub(super) const SOURCES: &str = "*.{rs,py,pyi,ts,tsx,mts,js,jsx,mjs,cjs,go,java,kt,kts,scala,c,h,cc,cpp,cxx,hpp,hh,cs,rb,php,swift,m,mm,ex,exs,erl,hs,ml,mli,lua,pl,pm,jl,dart,zig,vue,svelte,clj,sh}";

/// Files that stand for their package.
pub(super) const PACKAGE_FILES: &str = "{lib.rs,main.*,mod.rs,__init__.py,index.*,doc.go,app.*,package-info.java,init.lua}";

pub(super) const DOCUMENTS: &str = "*.{md,mdx,rst,txt,adoc,org}";

/// A heading with its sign before it, or a line drawn under it.
pub(super) const TITLES: &str = r"(?-u)^(?:#|=) +\S[^\n]*|^\w[^\n]*\n(?:={3,}|-{3,})[ \t]*$";

/// Lines of manifests that name or describe a package.
pub(super) const PACKAGE_NAMES: &str = r#"(?-u)^\s{0,8}(?:name|description)\s*=\s*\S|^module\s+\S|^\s{0,4}"(?:name|description)"\s*:|^\s{0,4}<(?:artifactId|name|description)>|^project\("#;

/// The comment or text that a file begins with: up to three lines of it.
pub(super) const FIRST_WORDS: &str = r##"(?-u)\A(?:#![^\n]*\n)?\s*(?:(?:r?"""|'''|/\*)[^\n]*(?:\n[ \t]*(?:\*[ \t]*)?\w[^\n]*){0,2}|(?://|#[^!\[dipe]|--|;;)[^\n]*(?:\n[ \t]*(?://|#[^!\[dipe]|--|;;)[^\n]*){0,2})"##;

/// Types and functions that others may use, at the left edge.
pub(super) const PUBLIC: &str = r"(?-u)^pub (?:unsafe )?(?:struct|enum|trait|union|type|fn|async fn)\s+\w+|^export (?:default )?(?:abstract )?(?:async )?(?:class|function|interface|type|enum|const)\s+\w+|^(?:abstract )?class\s+\w+|^(?:async )?def [a-z]\w*\(|^type [A-Z]\w* |^func (?:\([^)]*\) )?[A-Z]\w*\(|^\s*public (?:(?:static|final|abstract|sealed|partial) )*(?:class|interface|enum|record|struct)\s+\w+|^(?:data |sealed |open )*(?:class|interface|object|module|defmodule|protocol)\s+[A-Z][\w.]*|^(?:typedef )?(?:struct|enum|union)\s+\w*\s*\{|^module\.exports\b|^final class\s+\w+|^pub const \w+ = struct";

/// Whether a line begins a type rather than a function.
pub(super) fn is_type(line: &str) -> bool {
    let names_type =
        ["struct ", "enum ", "trait ", "class ", "interface ", "type ", "union ", "record ", "protocol ", "object ", "module "]
            .iter()
            .any(|word| line.contains(word));
    names_type && !["fn ", "def ", "func "].iter().any(|word| line.contains(word))
}

/// How people run tests.
pub(super) const TEST_COMMANDS: &str = r#"\b(?:cargo (?:\+\S+ )?(?:nextest|test)\b|(?:python3? -m )?pytest(?:[ `"']|$)|python3? -m unittest|tox(?: -|$)|nox(?: -|$)|(?:npm|pnpm|yarn|bun|deno) (?:run )?(?:test|check)\b|go test\b|make (?:test|check)\b|just test\b|ctest\b|mvn (?:\S+ )*(?:test|verify)\b|gradlew? (?:\S+ )*(?:test|check)\b|(?:bundle exec )?(?:rspec|rake test)\b|mix test\b|dotnet test\b|swift test\b|phpunit\b|zig build test\b|sbt test\b)|^\s*"(?:test|tests|check|lint)(?::[\w-]+)?"\s*:\s*"|^(?:test|tests|check)[\w-]*\s*:"#;

pub(super) const TEST_COMMAND_FILES: &str = "{*.md,*.rst,README*,Makefile,makefile,GNUmakefile,justfile,Justfile,package.json,pyproject.toml,tox.ini,noxfile.py,.gitlab-ci.yml,.travis.yml,Jenkinsfile,.github/workflows/*,.circleci/*,.ci/*,ci/*,scripts/*}";

/// Settings of test runners and of CI by their name.
pub(super) const TEST_SETTINGS: &str = "**/{.github/workflows/*,.gitlab-ci.yml,.travis.yml,.circleci/config.yml,azure-pipelines.yml,Jenkinsfile,.ci/*,tox.ini,noxfile.py,pytest.ini,conftest.py,jest.config.*,vitest.config.*,playwright.config.*,phpunit.xml,nextest.toml,.rspec}";

/// The names of tests, with the marker above them where there is one.
pub(super) const TEST_NAMES: &str = r#"^\s*#\[(?:\w+::)*test\b[^\n]*\n(?:\s*#\[[^\n]*\n)*[^\n]*\bfn \w+[^\n]*|^\s*(?:async )?def test_\w+[^\n]*|^func Test\w+\([^\n]*|^\s*(?:it|test|describe)(?:\.\w+)?\(\s*["'`][^\n]*|^\s*@Test\b[^\n]*\n[^\n]*|^\s*(?:TEST|TEST_F|TEST_P)\([^\n]*"#;

/// Names of tests with a term in them.
pub(super) fn tests_named(terms: &[Term]) -> String {
    let any = joined(terms);
    format!(
        r#"(?i)^\s*#\[(?:\w+::)*test\b[^\n]*\n(?:\s*#\[[^\n]*\n)*[^\n]*\bfn \w*(?:{any})[^\n]*|^\s*(?:async )?def test_\w*(?:{any})[^\n]*|^func Test\w*(?:{any})[^\n]*|^\s*(?:it|test|describe)(?:\.\w+)?\(\s*["'`][^\n]*(?:{any})[^\n]*"#
    )
}

/// Any of the terms, each joined by any convention and in any case.
pub(super) fn any_of(terms: &[Term]) -> String {
    format!("(?i)(?:{})", joined(terms))
}

fn joined(terms: &[Term]) -> String {
    let spelled = |term: &Term| match term {
        Term::Literal(text) => escaped(text),
        // Over several lines `\s` would reach into the next, so only blanks count as a gap.
        _ => term.parts().iter().map(|part| escaped(part)).collect::<Vec<_>>().join(r"[ \t_.-]*"),
    };
    terms.iter().map(spelled).filter(|spelled| !spelled.is_empty()).collect::<Vec<_>>().join("|")
}
