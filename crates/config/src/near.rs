//! The known name that a mistyped one is nearest to, for words like "did you mean". A pure distance over letters:
//! knows nothing of keys, files or models.

/// A longer name is not a typo of one of ours, and comparing it would cost.
const NAME_CHARS_MAX: usize = 40;

/// Nearest by insertions, deletions, replacements and swaps; `None` when nothing is near enough to suggest.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).take(NAME_CHARS_MAX + 1).collect();
    if NAME_CHARS_MAX < name.len() {
        return None;
    }
    // One slip in a short word, two in a longer one: more would suggest what was not meant.
    let slips_max = if name.len() <= 4 { 1 } else { 2 };
    let near = known.into_iter().map(|candidate| (slips(&name, candidate), candidate));
    near.filter(|(slips, _)| *slips <= slips_max).min_by_key(|(slips, _)| *slips).map(|(_, candidate)| candidate)
}

/// Edit distance where a swap of neighbours counts once.
fn slips(name: &[char], candidate: &str) -> usize {
    let candidate: Vec<char> = candidate.chars().flat_map(char::to_lowercase).collect();
    let mut before = Vec::new();
    let mut above: Vec<usize> = (0..=candidate.len()).collect();
    for (row, letter) in name.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in candidate.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != other);
            let mut best = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            if 0 < row && 0 < column && name[row - 1] == *other && *letter == candidate[column - 1] {
                let earlier: &Vec<usize> = &before;
                best = best.min(earlier[column - 1] + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_another_word_does_not() {
        let known = ["model", "models", "provider", "limits", "mcp"];
        let table = [
            ("modle", Some("model")),
            ("modell", Some("model")),
            ("provder", Some("provider")),
            ("Limit", Some("limits")),
            ("mpc", Some("mcp")),
            ("theme", None),
            ("x", None),
            ("", None),
        ];
        for (name, near) in table {
            assert_eq!(nearest(name, known), near, "{name}");
        }
        assert_eq!(nearest(&"m".repeat(100_000), known), None);
    }
}
