//! Names the MCP endpoints of a team. Each token is valid for one endpoint (RFC 8707).

use std::fmt;

use toolrack_host::{ToolProfile, principal::check_tenant};

/// An MCP endpoint of a team: `/mcp` with all tools, or `/p/PROFILE/mcp` with the tools of a profile (a named selection
/// of tools). Both paths may begin with `/t/TENANT`: such an endpoint has the same tools, but serves only the members
/// of that tenant. A load balancer can thus send all requests of a tenant to one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    tenant: Option<&'a str>,
    profile: Option<&'a str>,
}

impl<'a> Endpoint<'a> {
    /// The endpoint with all tools, for the members of all tenants.
    pub const ALL: Self = Self { tenant: None, profile: None };

    /// The endpoint at exactly this path. `None` if no endpoint has the path.
    #[must_use]
    pub fn at(path: &'a str) -> Option<Self> {
        let (tenant, path) = match path.strip_prefix("/t/") {
            Some(rest) => {
                let (tenant, _) = rest.split_once('/')?;
                check_tenant(tenant).ok()?;
                (Some(tenant), rest.strip_prefix(tenant)?)
            }
            None => (None, path),
        };
        if path == "/mcp" {
            return Some(Self { tenant, profile: None });
        }
        let profile = path.strip_prefix("/p/")?.strip_suffix("/mcp")?;
        ToolProfile::is_name(profile).then_some(Self { tenant, profile: Some(profile) })
    }

    /// The endpoint of `profile`, for the members of all tenants; without a profile, the endpoint with all tools.
    #[must_use]
    pub fn of(profile: Option<&'a str>) -> Self {
        Self { tenant: None, profile }
    }

    /// The name of the profile whose tools the endpoint has. `None` if it has all tools.
    #[must_use]
    pub fn profile(self) -> Option<&'a str> {
        self.profile
    }

    /// Whether this endpoint serves the members of `tenant`.
    #[must_use]
    pub fn is_for(self, tenant: &str) -> bool {
        self.tenant.is_none_or(|own_tenant| own_tenant == tenant)
    }

    /// The endpoint that serves the same to members of all tenants, if this one is for a single tenant.
    #[must_use]
    pub fn for_all_tenants(self) -> Option<Self> {
        self.tenant.map(|_| Self { tenant: None, ..self })
    }
}

/// Shows the path of the endpoint.
impl fmt::Display for Endpoint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tenant) = self.tenant {
            write!(f, "/t/{tenant}")?;
        }
        match self.profile {
            None => f.write_str("/mcp"),
            Some(name) => write!(f, "/p/{name}/mcp"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_has_one_spelling() {
        let paths = ["/mcp", "/p/re-view_1/mcp", "/t/acme/mcp", "/t/acme/p/review/mcp", "/t/mcp/mcp", "/p/t/mcp"];
        for path in paths {
            assert_eq!(Endpoint::at(path).unwrap().to_string(), path);
        }
        assert_eq!(Endpoint::at("/mcp"), Some(Endpoint::ALL));
        assert_eq!(Endpoint::at("/p/review/mcp"), Some(Endpoint::of(Some("review"))));
        for path in ["/mcp/", "//mcp", "/p//mcp", "/p/a/b/mcp", "/p/a%62/mcp", "/p/../mcp", "/p/a/mcp/", "/p/mcp"] {
            assert_eq!(Endpoint::at(path), None, "{path}");
        }
        for path in
            ["/t/mcp", "/t//mcp", "/t/Acme/mcp", "/t/a%62/mcp", "/t/../mcp", "/t/a/mcp/", "/t/a/t/b/mcp", "/t/a"]
        {
            assert_eq!(Endpoint::at(path), None, "{path}");
        }
    }

    #[test]
    fn an_endpoint_of_a_tenant_is_for_its_members_alone() {
        let of_acme = Endpoint::at("/t/acme/p/review/mcp").unwrap();
        assert!(of_acme.is_for("acme") && !of_acme.is_for("bolt") && Endpoint::ALL.is_for("bolt"));
        assert_eq!(of_acme.for_all_tenants(), Some(Endpoint::of(Some("review"))));
        assert_eq!(Endpoint::ALL.for_all_tenants(), None);
    }
}
