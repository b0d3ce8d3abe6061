//! What was probably meant by a name that is none.

/// More wrong letters than these, and it was something else that was meant.
const MISTAKES_MAX: usize = 3;

/// The known name that takes the fewest single mistakes to become `given`, if they are few for its length.
pub fn nearest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mistakes = |name: &str| mistakes(&given.to_lowercase(), &name.to_lowercase());
    let near = known.into_iter().map(|name| (mistakes(name), name)).min_by_key(|(mistakes, _)| *mistakes)?;
    let allowed = (given.chars().count() / 2).min(MISTAKES_MAX);
    (near.0 <= allowed).then_some(near.1)
}

/// `: did you mean NAME?`, or nothing.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, known).map_or(String::new(), |name| format!(": did you mean {name}?"))
}

/// How many letters were added, left out, replaced, or exchanged with their neighbour.
fn mistakes(given: &str, meant: &str) -> usize {
    let (given, meant): (Vec<char>, Vec<char>) = (given.chars().collect(), meant.chars().collect());
    let mut rows = vec![(0..=meant.len()).collect::<Vec<usize>>()];
    for i in 1..=given.len() {
        let mut row = vec![i];
        for j in 1..=meant.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(given[i - 1] != meant[j - 1]);
            let mut fewest = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && given[i - 1] == meant[j - 2] && given[i - 2] == meant[j - 1] {
                fewest = fewest.min(rows[i - 2][j - 2] + 1);
            }
            row.push(fewest);
        }
        rows.push(row);
    }
    rows[given.len()][meant.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant() {
        const KNOWN: [&str; 5] = ["blob-port", "queue-port", "data", "smb-port", "LAZULI_DATA"];
        for (given, expected) in [
            ("blob-prot", Some("blob-port")),
            ("blobport", Some("blob-port")),
            ("blob_port", Some("blob-port")),
            ("quue-port", Some("queue-port")),
            ("dta", Some("data")),
            ("lazuli_dat", Some("LAZULI_DATA")),
            ("colour", None),
            ("d", None),
            ("", None),
        ] {
            assert_eq!(nearest(given, KNOWN), expected, "{given}");
        }
        assert_eq!(did_you_mean("blob-prot", KNOWN), ": did you mean blob-port?");
        assert_eq!(did_you_mean("colour", KNOWN), "");
    }
}
