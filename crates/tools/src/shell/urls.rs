//! Patterns with an address in them: `curl http://127.0.0.1*` means that host, not every text that begins so.

use super::word::Word;

/// Why a wildcard after the pattern's address must not stand for what these words say.
pub(super) fn hazard(pattern: &str, arguments: &[Word]) -> Option<&'static str> {
    let start = pattern.find("://")?;
    let scheme_at = pattern[..start].rfind(' ').map_or(0, |blank| blank + 1);
    let prefix = pattern[scheme_at..].split(['*', '?', ' ']).next().unwrap_or_default();
    if arguments.iter().any(Word::splits) {
        return Some("words beside the allowed address are not known before it runs");
    }
    let texts: Vec<String> = arguments.iter().map(Word::text).collect();
    let operands = operands(&texts);
    if 1 < operands.len() {
        return Some("another operand beside the allowed address");
    }
    let Some(address) = operands.iter().find(|text| text.starts_with(prefix)) else {
        return Some("the address is not the allowed one");
    };
    let wanted = authority(prefix);
    let given = authority(address);
    if given.contains('@') || given.contains('\\') || given.contains(['$', '`', '{', '[']) {
        return Some("the address names another host");
    }
    let whole = prefix[start.saturating_sub(scheme_at) + 3..].contains('/');
    let rest = given.strip_prefix(wanted).unwrap_or("?");
    let port = rest.is_empty() || (rest.starts_with(':') && rest[1..].bytes().all(|byte| byte.is_ascii_digit()));
    if !whole && !port && !wanted.ends_with([':', '.']) {
        return Some("the address names another host");
    }
    if address.split('/').any(|part| part == "..") {
        return Some("the address climbs");
    }
    None
}

/// The words that are no options, without the values of curl's plainest options. One option that is not known here may
/// take the next word, whatever that looks like, so then every word counts.
fn operands(texts: &[String]) -> Vec<&String> {
    let has_value = |text: &str| matches!(text, "-X" | "-H" | "-d" | "-A" | "-m" | "--request" | "--header" | "--data" | "--max-time");
    let is_flag = |text: &str| text.strip_prefix('-').is_some_and(|letters| letters.chars().all(|letter| "sSfivk".contains(letter)));
    let mut found = Vec::new();
    let mut skip = false;
    for text in texts {
        if std::mem::take(&mut skip) {
            continue;
        }
        skip = has_value(text);
        if text.starts_with('-') && !skip && !is_flag(text) {
            return texts.iter().filter(|text| !text.starts_with('-')).collect();
        }
        if !text.starts_with('-') {
            found.push(text);
        }
    }
    found
}

/// `host:port` of an address, with what a browser would still take for it.
fn authority(address: &str) -> &str {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}
