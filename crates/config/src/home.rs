//! Finds `~` at the beginning of a path, which stands for the home folder, as in a shell. It has this meaning in each
//! field of an entry (the configuration of one server) that is a path on this machine.

/// Returns the part of `path` below the home folder: `x` for `~/x`, and an empty text for `~`. `None` for any other
/// path. In `~ada/x`, the `~` has no special meaning, because a folder may be called `~ada`.
pub(crate) fn below_home(path: &str) -> Option<&str> {
    match path.strip_prefix('~')? {
        "" => Some(""),
        // A second `/` would make the rest an absolute path.
        rest => rest.strip_prefix('/').map(|rest| rest.trim_start_matches('/')),
    }
}

/// Returns whether the meaning of `path` does not depend on the working folder: it is absolute or below the home
/// folder, or begins with a placeholder, whose value is not known yet.
pub(crate) fn is_full_or_placeholder(path: &str) -> bool {
    path.starts_with(['/', '$']) || below_home(path).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_own_home_is_found() {
        for (path, below) in [("~", ""), ("~/", ""), ("~/a/b", "a/b"), ("~//etc", "etc"), ("~/~", "~")] {
            assert_eq!(below_home(path), Some(below), "{path}");
            assert!(is_full_or_placeholder(path), "{path}");
        }
        for path in ["", "a", "~ada", "~ada/x", "~.x", "./~", " ~/x", "a~/x"] {
            assert_eq!(below_home(path), None, "{path}");
            assert!(!is_full_or_placeholder(path), "{path}");
        }
        assert!(is_full_or_placeholder("/a") && is_full_or_placeholder("${DIR}/a"));
    }
}
