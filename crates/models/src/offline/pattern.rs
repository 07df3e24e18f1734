//! Patterns for `grep` and `glob`, as strings: definitions of a name in many languages, a name's spellings, test markers.
//!
//! The dialect is that of the `regex` crate. Nothing here runs a pattern; `define` reads the lines that come back.

use super::{
    intent::Kind,
    terms::{Term, last_segment, stem},
};

/// Words that may stand before the keyword of a definition.
const MODIFIERS: &str = r#"(?:pub(?:\([^)]*\))?|async|unsafe|extern(?:\s+"[^"]*")?|export|default|declare|public|private|protected|internal|static|abstract|final|const|inline|override|virtual|sealed|open|data|case|partial|readonly|typedef)"#;

const KEYWORDS: &str = "fn|struct|enum|union|trait|type|const|static|mod|macro_rules!|macro|class|def|function|func|fun|interface|namespace|module|record|protocol|object|extension|defmodule|defp|define";

/// More words than this in any order would be a pattern nobody reads.
const WORDS_IN_ANY_ORDER_MAX: usize = 3;

/// The term as written, as a whole word.
pub(super) fn exact(term: &Term) -> String {
    match term {
        Term::Phrase(_) => together(term),
        Term::Literal(text) | Term::File(text) => escaped(text),
        Term::Name(text) => bounded(&escaped(text), text),
    }
}

/// Its parts joined by any convention, in any case: `tool_choice`, `ToolChoice`, `tool-choice`, `tool choice`.
pub(super) fn together(term: &Term) -> String {
    let parts: Vec<String> = term.parts().iter().map(|part| escaped(part)).collect();
    format!("(?i){}", parts.join(r"[\s_.-]*"))
}

/// All its parts in one line, in any order, each by its stem. `None` when that says no more than `together`.
pub(super) fn all_parts(term: &Term) -> Option<String> {
    let stems = stems(term);
    match stems.as_slice() {
        [] => None,
        [one] => (term.parts().first() != Some(one)).then(|| format!("(?i){}", escaped(one))),
        several if several.len() <= WORDS_IN_ANY_ORDER_MAX => {
            let orders: Vec<String> = orders(several).iter().map(|order| order.join(".*")).collect();
            Some(format!("(?i)(?:{})", orders.join("|")))
        }
        several => Some(format!("(?i){}", several.iter().map(|stem| escaped(stem)).collect::<Vec<_>>().join(".*"))),
    }
}

/// Any of its parts at the start of a word.
pub(super) fn any_part(term: &Term) -> Option<String> {
    let stems = stems(term);
    (stems.len() > 1).then(|| format!(r"(?i)(?:\b|_)(?:{})", stems.iter().map(|stem| escaped(stem)).collect::<Vec<_>>().join("|")))
}

pub(super) fn stems(term: &Term) -> Vec<String> {
    let mut stems: Vec<String> = term.parts().iter().map(|part| stem(part)).filter(|stem| stem.len() > 1).collect();
    stems.dedup();
    stems
}

/// Lines that define exactly this name.
pub(super) fn definition(name: &str) -> String {
    let name = last_segment(name);
    definition_of(&bounded(&escaped(name), name), "")
}

/// Lines that define a name with these parts in it, in any convention and case.
pub(super) fn definition_like(term: &Term) -> String {
    let parts: Vec<String> = term.parts().iter().map(|part| escaped(part)).collect();
    definition_of(&format!(r"\w*{}\w*", parts.join("[_-]?")), "(?i)")
}

/// Lines that define a name with any of these parts in it, each by its stem.
pub(super) fn definition_of_any_part(term: &Term) -> Option<String> {
    let stems = stems(term);
    (stems.len() > 1 || stems != term.parts())
        .then(|| definition_of(&format!(r"\w*(?:{})\w*", stems.iter().map(|stem| escaped(stem)).collect::<Vec<_>>().join("|")), "(?i)"))
}

/// Lines that begin the type or module that others are defined in.
pub(super) fn owner(name: &str) -> String {
    format!(
        r"\b(?:struct|enum|union|trait|type|class|interface|impl|mod|module|namespace|object|func)\b.*{}",
        bounded(&escaped(name), name)
    )
}

fn definition_of(name: &str, flags: &str) -> String {
    let shapes = [
        // A keyword; a Go method; a C macro.
        format!(r"\b(?:{KEYWORDS})\s+(?:mut\s+|self\.|\*\s*|\([^)]*\)\s*)?{name}"),
        // A function by its shape: C at the left edge, Java, JavaScript and shell with a brace.
        format!(r"^(?:[\w:<>,*&\[\]~]+\s+)*[*&]*(?:\w+::)*{name}\s*\([^;]*$"),
        format!(r"^\s+[\w\s:<>,*&\[\]]*{name}\s*\([^;]*\{{\s*$"),
        // A public field; the end of a C typedef; a variable or a target at the left edge; a markdown heading.
        format!(r"^\s*pub\b.*{name}\s*:"),
        format!(r"^\}}\s*{name}\s*;"),
        format!(r"^(?:export\s+)?{name}\s*(?:[:?+]?=|:)(?:[^=:]|$)"),
        format!(r"^#{{1,6}}\s.*{name}"),
    ];
    format!("{flags}{}", shapes.join("|"))
}

/// Lines that begin a thing of this kind.
pub(super) fn of_kind(kind: Kind) -> String {
    let keywords = match kind {
        Kind::Todo => return r"\b(?:TODO|FIXME|XXX|HACK)\b".into(),
        Kind::Macro => return r"^\s*(?:macro_rules!\s*\w+|#\s*define\s+\w+)".into(),
        Kind::Function => r"fn|def|function|func|fun",
        Kind::Struct => "struct",
        Kind::Enum => "enum",
        Kind::Trait => "trait|interface|protocol",
        Kind::Class => "class",
        Kind::Type => "type|struct|enum|class|interface|trait|union",
        Kind::Module => "mod|module|namespace|package",
        Kind::Constant => "const|static",
    };
    format!(r"^\s*(?:{MODIFIERS}\s+)*(?:{keywords})\s+(?:\([^)]*\)\s*)?\w+")
}

/// The keywords by which a definition is known to be of this kind.
pub(super) fn keywords_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Function => &["fn", "def", "function", "func", "fun", "defp", "()"],
        Kind::Struct => &["struct", "record"],
        Kind::Enum => &["enum"],
        Kind::Trait => &["trait", "interface", "protocol"],
        Kind::Class => &["class"],
        Kind::Type => &["type", "struct", "enum", "class", "interface", "trait", "union", "typedef"],
        Kind::Module => &["mod", "module", "namespace", "package"],
        Kind::Constant => &["const", "static", "="],
        Kind::Macro => &["macro_rules!", "macro", "#define"],
        Kind::Todo => &[],
    }
}

/// Where a test begins, in the usual frameworks.
pub(super) const TEST_MARKERS: &str = r#"^\s*#\[(?:\w+::)*test\b|^\s*(?:async\s+)?def test_|^func Test\w+\(|^\s*(?:it|test|describe)(?:\.\w+)?\(\s*["'`]|^\s*@Test\b|^\s*(?:TEST|TEST_F|TEST_P)\("#;

/// Files that are tests by their name or folder.
pub(super) const TEST_FILES: &str =
    "**/{test_*.*,*_test.*,*.test.*,*.spec.*,*_spec.*,*Test.java,*Tests.cs,tests.rs,tests/**/*.*,__tests__/**/*.*}";

pub(super) const MANIFESTS: &str = "**/{Cargo.toml,package.json,pyproject.toml,setup.py,requirements.txt,go.mod,pom.xml,build.gradle,build.gradle.kts,Gemfile,composer.json,CMakeLists.txt,Makefile,justfile,flake.nix,Package.swift,mix.exs,deno.json}";

pub(super) const MANIFEST_NAMES: &str = r#"^(?:name|description|module)\s*=|^module\s+\S|^\s{0,4}"(?:name|description)"\s*:"#;

pub(super) const ENTRY_POINTS: &str = r#"^\s*(?:pub\s+)?(?:async\s+)?fn main\(|^func main\(|^(?:int|void|auto)\s+main\(|^\s*public static void main\(|^if __name__ == |^\[\[bin\]\]|^\s*"(?:bin|main)"\s*:"#;

/// A glob for files whose name has the parts in any convention.
pub(super) fn file_names(term: &Term) -> Option<String> {
    let parts = term.parts();
    if parts.is_empty() || parts.iter().any(|part| !part.chars().all(char::is_alphanumeric)) || matches!(term, Term::Literal(_)) {
        return None;
    }
    let humps: Vec<String> = parts.iter().map(|part| capital(part)).collect();
    let mut spellings = vec![parts.join("_"), parts.join("-"), parts.join(""), humps.join("")];
    spellings.dedup();
    let mut seen: Vec<String> = Vec::new();
    for spelling in spellings {
        if !seen.contains(&spelling) {
            seen.push(spelling);
        }
    }
    Some(format!("**/*{{{}}}*", seen.join(",")))
}

fn capital(word: &str) -> String {
    let mut signs = word.chars();
    signs.next().map(|first| first.to_uppercase().chain(signs).collect()).unwrap_or_default()
}

/// Word boundaries where the name has word characters at its ends.
fn bounded(pattern: &str, name: &str) -> String {
    let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
    let before = if name.starts_with(is_word) { r"\b" } else { "" };
    let after = if name.ends_with(is_word) { r"\b" } else { "" };
    format!("{before}{pattern}{after}")
}

pub(super) fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for sign in text.chars() {
        if r"\.+*?()|[]{}^$#&~".contains(sign) {
            pattern.push('\\');
        }
        pattern.push(sign);
    }
    pattern
}

fn orders(stems: &[String]) -> Vec<Vec<String>> {
    if let [one] = stems {
        return vec![vec![escaped(one)]];
    }
    let mut found = Vec::new();
    for at in 0..stems.len() {
        let mut others = stems.to_vec();
        let first = others.remove(at);
        for mut order in orders(&others) {
            order.insert(0, escaped(&first));
            found.push(order);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_term() {
        let name = Term::Name("tool_choice".into());
        let phrase = Term::Phrase(vec!["rate".into(), "limits".into()]);
        assert_eq!(exact(&name), r"\btool_choice\b");
        assert_eq!(exact(&Term::Name("--format".into())), r"--format\b");
        assert_eq!(exact(&Term::Literal("a.b (c)".into())), r"a\.b \(c\)");
        assert_eq!(together(&name), r"(?i)tool[\s_.-]*choice");
        assert_eq!(all_parts(&phrase).as_deref(), Some("(?i)(?:rate.*limit|limit.*rate)"));
        assert_eq!(any_part(&phrase).as_deref(), Some(r"(?i)(?:\b|_)(?:rate|limit)"));
        assert_eq!(all_parts(&Term::Name("retries".into())).as_deref(), Some("(?i)retry"));
        assert_eq!(all_parts(&Term::Name("retry".into())), None);
        assert_eq!(file_names(&name).as_deref(), Some("**/*{tool_choice,tool-choice,toolchoice,ToolChoice}*"));
        assert_eq!(file_names(&Term::Name("main".into())).as_deref(), Some("**/*{main,Main}*"));
    }
}
