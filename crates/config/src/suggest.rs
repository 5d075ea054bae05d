//! Suggests the likely meaning of an unknown name.

/// The required similarity of a name in a file. It is higher than for a typed name, because the name may be a correct
/// field of another program.
const MIN_SIMILARITY_IN_FILE: f64 = 0.88;
/// The required similarity of a name that a user typed.
const MIN_SIMILARITY_TYPED: f64 = 0.8;

/// Returns the name in `known_names` that the user most likely means with `typed`; `None` if no name is similar. Even a
/// short name is similar if two letters are swapped, or one letter is wrong, missing or added. Ignores case.
pub fn closest<'a>(typed: &str, known_names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let similarity = |typed: &str, name: &str| {
        let similarity = strsim::jaro_winkler(typed, name);
        // In a word of two letters, one wrong letter is half of the word.
        let is_one_typo = typed.chars().count() > 2 && strsim::osa_distance(typed, name) == 1;
        if is_one_typo { similarity.max(MIN_SIMILARITY_TYPED) } else { similarity }
    };
    most_similar(typed, known_names, similarity)
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY_TYPED)
        .map(|(_, name)| name)
}

/// Returns the name in `known_names` that `typed` abbreviates, such as `message` for `msg`. `None` if there is no such
/// name, or if there are several. Ignores case.
pub fn abbreviated<'a>(typed: &str, known_names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let is_short_for = |name: &str| {
        let name = name.to_lowercase();
        let mut letters = name.chars();
        typed.chars().count() > 1
            && typed.chars().next() == name.chars().next()
            && typed.chars().all(|letter| letters.any(|other| other == letter))
    };
    let mut matches = known_names.into_iter().filter(|name| is_short_for(name));
    matches.next().filter(|_| matches.next().is_none())
}

/// Returns the name in `known_names` that the author of a file probably means with the misspelt name `written_name`.
pub(crate) fn intended_name<'a>(written_name: &str, known_names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar(written_name, known_names, strsim::jaro_winkler)
        .filter(|(similarity, _)| *similarity > MIN_SIMILARITY_IN_FILE)
        .map(|(_, name)| name)
}

/// Returns the name in `known_names` that is most similar to `name`, with the similarity from 0 to 1. Ignores case.
fn most_similar<'a>(
    name: &str,
    known_names: impl IntoIterator<Item = &'a str>,
    similarity: impl Fn(&str, &str) -> f64,
) -> Option<(f64, &'a str)> {
    let name = name.to_lowercase();
    let candidates = known_names.into_iter().map(|candidate| (similarity(&name, &candidate.to_lowercase()), candidate));
    candidates.max_by(|one, other| one.0.total_cmp(&other.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_the_name() {
        let known = ["filesystem", "github", "everything"];
        assert_eq!(closest("filesytem", known), Some("filesystem"));
        assert_eq!(closest("GitHub", known), Some("github"));
        assert_eq!(closest("evrything", known), Some("everything"));
        assert_eq!(closest("wbe", ["web", "fs"]), Some("web"));
    }

    #[test]
    fn an_abbreviation_finds_the_one_name_that_it_can_be() {
        let known = ["message", "path", "pattern"];
        assert_eq!(abbreviated("msg", known), Some("message"));
        assert_eq!(abbreviated("pth", known), Some("path"));
        for unclear in ["pt", "m", "gsm", "essage", ""] {
            assert_eq!(abbreviated(unclear, known), None, "{unclear}");
        }
    }

    #[test]
    fn something_else_finds_nothing() {
        assert_eq!(closest("postgres", ["filesystem", "github"]), None);
        assert_eq!(closest("x", []), None);
    }

    #[test]
    fn a_name_in_a_file_must_be_nearer_than_one_that_a_user_typed() {
        assert_eq!(closest("mcp", ["mcpServers"]), Some("mcpServers"));
        assert_eq!(intended_name("mcp", ["mcpServers"]), None);
        assert_eq!(intended_name("mcpServer", ["mcpServers"]), Some("mcpServers"));
    }
}
