//! The nearest known name to an unknown one, by edit distance (Levenshtein 1966, with adjacent
//! transpositions). A name that is too far from all gets no suggestion rather than a silly one.

/// Edits that may lie between a name and what was meant: one in three letters, two at least.
fn edits_max(name: &str) -> usize {
    (name.chars().count() / 3).max(2)
}

/// The candidate nearest to `name`, the first of equals, where one is near enough.
pub(super) fn nearest<'a, I>(name: &str, candidates: I) -> Option<&'a str>
where
    I: IntoIterator<Item = &'a str>,
{
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(edits, _)| *edits <= edits_max(name))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, substitutions and swaps of neighbours that turn `from` into `to`.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut next = vec![i];
        for j in 1..=to.len() {
            let substituted = row[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            let mut edits = substituted.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                edits = edits.min(before[j - 2] + 1);
            }
            next.push(edits);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_edits() {
        let cases = [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("", "abc", 3)];
        for (from, to, edits) in cases {
            assert_eq!(distance(from, to), edits, "{from:?} → {to:?}");
        }
        assert_eq!(distance("listne", "listen"), 1);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let known = ["cache.data_bytes", "cache.metadata_bytes", "server.listen"];
        assert_eq!(nearest("cache.data_byte", known), Some("cache.data_bytes"));
        assert_eq!(nearest("server.lisetn", known), Some("server.listen"));
        assert_eq!(nearest("zzz", known), None);
    }
}
