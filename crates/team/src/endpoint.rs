//! The MCP endpoints of a team. A token is for one of them (RFC 8707).

use std::fmt;

use toolrack_host::ToolProfile;

/// An MCP endpoint of a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint<'a> {
    /// The endpoint with all tools.
    All,
    /// The endpoint with the tools of this profile.
    Profile(&'a str),
}

impl<'a> Endpoint<'a> {
    /// The endpoint at exactly this path.
    #[must_use]
    pub fn at(path: &'a str) -> Option<Self> {
        if path == "/mcp" {
            return Some(Self::All);
        }
        let name = path.strip_prefix("/p/")?.strip_suffix("/mcp")?;
        ToolProfile::is_name(name).then_some(Self::Profile(name))
    }

    /// The endpoint of `profile`; without one, that with all tools.
    #[must_use]
    pub fn of(profile: Option<&'a str>) -> Self {
        profile.map_or(Self::All, Self::Profile)
    }

    /// The name of the profile whose tools it has.
    #[must_use]
    pub fn profile(self) -> Option<&'a str> {
        match self {
            Self::All => None,
            Self::Profile(name) => Some(name),
        }
    }
}

/// Its path.
impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("/mcp"),
            Self::Profile(name) => write!(f, "/p/{name}/mcp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_one_spelling() {
        for endpoint in [Endpoint::All, Endpoint::Profile("re-view_1")] {
            assert_eq!(Endpoint::at(&endpoint.to_string()), Some(endpoint));
        }
        assert_eq!(Endpoint::at("/mcp"), Some(Endpoint::All));
        assert_eq!(Endpoint::at("/p/re-view_1/mcp"), Some(Endpoint::Profile("re-view_1")));
        for path in ["/mcp/", "//mcp", "/p//mcp", "/p/a/b/mcp", "/p/a%62/mcp", "/p/../mcp", "/p/a/mcp/", "/p/mcp"] {
            assert_eq!(Endpoint::at(path), None, "{path}");
        }
    }
}
