//! Reads patterns in spellings other than `server/tool`: `server.tool`, and the names that models see, such as
//! `mcp__server__tool`, `mcp_server__tool` or `server_tool`. A *reading* is one meaning that such a pattern may have.

use super::{Glob, GlobKind, Pattern};

/// The prefix of model-visible names in the style [`NameStyle::McpServerTool`](crate::NameStyle::McpServerTool).
const MCP_DOUBLE: &str = "mcp__";

/// The prefix of model-visible names in the style [`NameStyle::McpUnderscore`](crate::NameStyle::McpUnderscore).
const MCP_SINGLE: &str = "mcp_";

/// Separates server and tool after a prefix.
const DIVIDER: &str = "__";

impl Pattern {
    /// Returns the further pairs of server and tool that the pattern could mean, each as a separate pattern; none if
    /// the pattern is written `server/tool`. [`Self::matches`] does not accept these pairs. They are for rules that
    /// forbid or confirm. A `_` in such a pattern also stands for a character that model-visible names replace by `_`.
    #[must_use]
    pub fn every_reading(&self) -> Vec<Self> {
        if self.server.is_some() {
            return Vec::new();
        }
        let written = self.written.as_str();
        let mut readings = Vec::new();
        for (dot, _) in written.match_indices('.') {
            readings.extend(self.reading(&written[..dot], &written[dot + 1..]));
        }
        for rest in [MCP_DOUBLE, MCP_SINGLE].iter().filter_map(|prefix| written.strip_prefix(prefix)) {
            for divider in positions_of(DIVIDER, rest) {
                readings.extend(self.reading(&rest[..divider], &rest[divider + DIVIDER.len()..]));
            }
        }
        readings.extend(written.strip_prefix(MCP_DOUBLE).and_then(|server| self.reading(server, "*")));
        // If the server could be a wildcard, every pattern with a `_` would cover every server.
        for (separator, _) in written.match_indices('_').filter(|(separator, _)| is_plain(&written[..*separator])) {
            readings.extend(self.reading(&written[..separator], &written[separator + 1..]));
        }
        readings.iter_mut().for_each(|reading| reading.is_sanitised = true);
        readings
    }

    /// Returns the further pairs of server and tool that the pattern certainly means. [`Self::matches`] does not accept
    /// these pairs. They are for rules that allow. A meaning is certain if the server is written in full, and if by the
    /// rules of [`NameStyle`](crate::NameStyle) the name can belong to no other pair. `server_tool` counts only as a
    /// whole name, because `git_*` means all tools with that prefix.
    #[must_use]
    pub fn certain_readings(&self) -> Vec<Self> {
        if self.server.is_some() {
            return Vec::new();
        }
        let written = self.written.as_str();
        let reading = |server: &str, tool: &str| if is_plain(server) { self.reading(server, tool) } else { None };
        if let Some(rest) = written.strip_prefix(MCP_DOUBLE) {
            return match rest.split_once(DIVIDER) {
                Some((server, tool)) => reading(server, tool),
                None => reading(rest, "*"),
            }
            .into_iter()
            .collect();
        }
        if let Some(rest) = written.strip_prefix(MCP_SINGLE) {
            return rest.split_once(DIVIDER).and_then(|(server, tool)| reading(server, tool)).into_iter().collect();
        }
        let dotted = written.split_once('.').filter(|(_, tool)| !tool.contains('.'));
        let underscored = written.split_once('_').filter(|_| is_plain(written) && !written.contains('.'));
        dotted.into_iter().chain(underscored).filter_map(|(server, tool)| reading(server, tool)).collect()
    }

    /// Returns whether the pattern is this model-visible name, in any style. With `is_careful` (for rules that forbid
    /// or confirm), a pattern with wildcards also counts if it contains the name of the server.
    pub(crate) fn is_name(&self, name: &str, server: &str, is_careful: bool) -> bool {
        self.server.is_none()
            && match &self.tool.kind {
                GlobKind::Exactly(written) => **written == *name,
                _ => is_careful && self.written.contains(server) && self.tool.is_match(name),
            }
    }

    /// Returns whether the pattern is certainly a model-visible name, and so matches no tool's own name.
    #[must_use]
    pub fn is_model_visible(&self) -> bool {
        self.server.is_none() && self.written.starts_with(MCP_DOUBLE)
    }

    /// Returns whether the pattern can cover a tool of this server, in any spelling.
    #[must_use]
    pub fn may_cover_server(&self, server: &str) -> bool {
        let fits = |pattern: &Self| {
            let glob = pattern.server.as_ref();
            glob.is_none_or(|glob| glob.is_match(server) || (pattern.is_sanitised && glob.is_match_sanitised(server)))
        };
        (!self.is_model_visible() && fits(self)) || self.every_reading().iter().any(fits)
    }

    /// Returns the pattern for this server and this tool; `None` if one of them is not a valid glob.
    fn reading(&self, server: &str, tool: &str) -> Option<Self> {
        let part = |glob: &str| Glob::read(glob, &self.written).ok();
        Some(Self {
            written: self.written.clone(),
            server: Some(part(server)?),
            tool: part(tool)?,
            is_sanitised: false,
        })
    }
}

/// Returns the positions at which `part` begins in `text`, overlapping ones included.
fn positions_of<'t>(part: &'static str, text: &'t str) -> impl Iterator<Item = usize> + use<'t> {
    (0..text.len()).filter(move |position| text.as_bytes()[*position..].starts_with(part.as_bytes()))
}

fn is_plain(part: &str) -> bool {
    !part.is_empty() && !part.contains(['*', '?', '[', ']', '{', '}', '\\'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(written: &str) -> Pattern {
        written.parse().unwrap()
    }

    fn any(readings: &[Pattern], server: &str, tool: &str) -> bool {
        readings.iter().any(|reading| reading.matches(server, tool))
    }

    #[test]
    fn every_spelling_that_users_see_is_parsed() {
        for written in ["fake.echo", "mcp__fake__echo", "mcp_fake__echo", "fake_echo", "mcp__fake", "mcp__fake__*"] {
            let pattern = pattern(written);
            assert!(any(&pattern.every_reading(), "fake", "echo"), "{written}");
            assert!(any(&pattern.certain_readings(), "fake", "echo"), "{written}");
            assert!(!any(&pattern.every_reading(), "other", "echo"), "{written}");
        }
        assert!(any(&pattern("mcp__my_srv__a_b").every_reading(), "my-srv", "a.b"), "as a model sees it");
        assert!(any(&pattern("mcp__*__wipe").every_reading(), "fake", "wipe"));
        assert!(any(&pattern("mcp__*").every_reading(), "fake", "wipe"));
        assert!(pattern("fake/echo").every_reading().is_empty());
    }

    #[test]
    fn a_denying_pattern_is_read_in_every_spelling_and_an_allowing_one_in_one() {
        let both = pattern("mcp__fake__x__y");
        assert!(any(&both.every_reading(), "fake", "x__y") && any(&both.every_reading(), "fake__x", "y"));
        assert!(any(&both.certain_readings(), "fake", "x__y") && !any(&both.certain_readings(), "fake__x", "y"));
        let under = pattern("fake_x_y");
        assert!(any(&under.every_reading(), "fake", "x_y") && any(&under.every_reading(), "fake_x", "y"));
        assert!(any(&under.certain_readings(), "fake", "x_y") && !any(&under.certain_readings(), "fake_x", "y"));
        for wide in ["mcp__*", "mcp__*__echo", "fake_*", "*.echo", "mcp__my_srv__x", "a.b.c", "m*"] {
            for (server, tool) in [("fake", "echo"), ("my-srv", "x"), ("a", "b.c"), ("a.b", "c")] {
                assert!(!any(&pattern(wide).certain_readings(), server, tool), "{wide} {server} {tool}");
            }
        }
        for without_reading in ["m*", "*_file", "f*", "*"] {
            assert!(!any(&pattern(without_reading).every_reading(), "fake", "echo"), "{without_reading}");
        }
    }

    #[test]
    fn a_pattern_knows_which_servers_it_can_be_about() {
        for (written, expected) in [
            ("fake/x", true),
            ("other/x", false),
            ("x", true),
            ("mcp__fake__x", true),
            ("mcp__other__x", false),
            ("mcp__fake", true),
            ("fake.x", true),
            ("f*/x", true),
            ("mcp__other", false),
        ] {
            assert_eq!(pattern(written).may_cover_server("fake"), expected, "{written}");
        }
    }
}
