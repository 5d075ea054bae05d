//! "Did you mean …?"

/// The one of `known` that `typed` most likely stands for; `None` when nothing is near.
pub(crate) fn closest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    known
        .into_iter()
        .map(|name| (likeness(&typed, &name.to_lowercase()), name))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The one of `known` that `typed` is short for, such as `msg` for `message`; `None` when none is, or several are.
pub(crate) fn abbreviated<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let is_short_for = |name: &str| {
        let name = name.to_lowercase();
        let mut letters = name.chars();
        typed.chars().count() > 1
            && typed.chars().next() == name.chars().next()
            && typed.chars().all(|letter| letters.any(|other| other == letter))
    };
    let mut meant = known.into_iter().filter(|name| is_short_for(name));
    meant.next().filter(|_| meant.next().is_none())
}

/// From 0 to 1. Two letters that changed places, or one letter too many or too few, is likely enough even in a short
/// name.
fn likeness(typed: &str, name: &str) -> f64 {
    let likeness = strsim::jaro_winkler(typed, name);
    let is_slip = typed.chars().count() > 2 && strsim::osa_distance(typed, name) == 1;
    if is_slip { likeness.max(0.8) } else { likeness }
}

#[cfg(test)]
mod tests {
    use super::{abbreviated, closest};

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
}
