//! Reads the team file, `team.toml`, which the operator of a team writes.

mod audit_export;
mod store;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU8,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error as _};
use toolrack_host::{
    egress::{Allowed, EgressRules, Profile},
    principal::{BadPrincipal, Role, check_tenant},
};
use url::Url;

pub use self::audit_export::{AuditExportTable, ExportTarget, S3Table};
pub use self::store::{ReplicasTable, StoreTable, StoreUrl, UrlCommand, UrlFile};
use crate::quotas::Limits;

/// A team: its address, its tenants, the provider that signs its people in, and the issuers that it trusts.
///
/// ```
/// let team = toolrack_team::TeamFile::parse(
///     r#"
///         url = "https://tools.example"
///
///         [sign_in]
///         issuer = "https://login.example"
///         client_id = "toolrack"
///         client_secret = "${env:TOOLRACK_CLIENT_SECRET}"
///
///         [[tenants]]
///         id = "acme"
///         members = ["*@acme.example"]
///
///         [tenants.roles]
///         operator = ["ops"]
///     "#,
///     "/srv/team".as_ref(),
/// )?;
/// assert_eq!(team.tenants[0].home, std::path::Path::new("/srv/team/tenants/acme"));
/// # Ok::<(), toolrack_team::BadTeamFile>(())
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TeamFile {
    /// The address under which people and clients reach the daemon, without a path: `https://tools.example`.
    pub url: Url,
    /// The Postgres database that has all data of the team. Without it, the data are in SQLite files.
    pub store: Option<StoreTable>,
    /// The time limits of replicas: several daemons that serve the team together.
    #[serde(default)]
    pub replicas: ReplicasTable,
    /// Where the daemon exports the audit logs to, so that they are not in the database alone.
    pub audit_export: Option<AuditExportTable>,
    /// The provider that signs people in, with OpenID Connect.
    pub sign_in: Option<SignInProvider>,
    /// The tenants.
    #[serde(default)]
    pub tenants: Vec<Tenant>,
    /// Issuers whose access tokens (RFC 9068) are valid for the MCP endpoint.
    #[serde(default)]
    pub issuers: Vec<TrustedIssuer>,
}

/// A provider of OpenID Connect.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignInProvider {
    /// The issuer of the provider, as the provider's metadata name it.
    pub issuer: Url,
    /// The id under which the provider knows Toolrack.
    pub client_id: String,
    /// The secret of that client: a placeholder such as `${env:NAME}`. A public client has none.
    pub client_secret: Option<String>,
    /// The scopes that Toolrack asks for, beside `openid`. `profile` and `email` by default.
    #[serde(default = "default_scopes")]
    pub scopes: Vec<String>,
    /// The claim with the groups of a person. `groups` by default.
    #[serde(default = "default_groups_claim")]
    pub groups_claim: String,
    /// The claim whose value decides which tenant a person belongs to: see [`Tenant::claims`]. Without it, the person's
    /// e-mail address and groups decide.
    pub tenant_claim: Option<String>,
}

/// Leaves out the secret.
impl std::fmt::Debug for SignInProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignInProvider")
            .field("issuer", &self.issuer.as_str())
            .field("client_id", &self.client_id)
            .finish_non_exhaustive()
    }
}

/// A tenant: a part of the team whose data and servers are isolated from those of the other tenants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// The name of the tenant, which is a part of URLs: 1 to 64 characters of `a-z`, `0-9`, `-` and `_`.
    pub id: String,
    /// The folder with the tenant's configuration and data. `tenants/ID` beside the team file by default.
    #[serde(default)]
    pub home: PathBuf,
    /// The verified e-mail addresses of its members: `ann@acme.example`, or `*@acme.example` for all of a domain.
    #[serde(default)]
    pub members: Vec<String>,
    /// The provider's groups whose people are members of the tenant.
    #[serde(default)]
    pub groups: Vec<String>,
    /// The values of [`SignInProvider::tenant_claim`] that mean this tenant.
    #[serde(default)]
    pub claims: Vec<String>,
    /// For each role, the groups and addresses that have it. A person with several roles gets the most powerful one,
    /// and a person without any gets [`Self::role`].
    #[serde(default)]
    pub roles: BTreeMap<Role, Vec<String>>,
    /// The role of members who have none by [`Self::roles`]. `user` by default.
    #[serde(default)]
    pub role: Role,
    /// How much its members may use. Without limits, as much as they want.
    #[serde(default)]
    pub limits: Limits,
    /// Which servers its members may add for themselves. None by default.
    pub own_servers: Option<OwnServersAllowed>,
    /// The variables of the daemon's environment that placeholders in its files may name. None by default, because the
    /// variables belong to the operator of the daemon.
    #[serde(default)]
    pub environment: Vec<String>,
}

/// The servers that members of a tenant may add for themselves: URLs with HTTPS on public networks, and no programs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnServersAllowed {
    /// The maximum number of servers of one member.
    pub most: NonZeroU8,
    /// Further allowed destinations, with any scheme and port: hosts such as `mcp.example.com` or `*.example.com`, and
    /// networks such as `10.1.0.0/16`.
    #[serde(default, deserialize_with = "destinations")]
    pub allow: Vec<Allowed>,
}

impl OwnServersAllowed {
    /// The egress rules for connections to these servers.
    #[must_use]
    pub fn egress(&self) -> EgressRules {
        let source = "`own_servers` of the team file".to_owned();
        EgressRules { profile: Profile::Hosted, allow: self.allow.clone(), source, ..EgressRules::default() }
    }
}

fn destinations<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Allowed>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| text.parse().map_err(|error| D::Error::custom(format!("`{text}` is {error}")));
    texts.iter().map(parse).collect()
}

/// An issuer of access tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrustedIssuer {
    /// The `iss` of its tokens.
    pub issuer: Url,
    /// The `aud` that a token must have. [`TeamFile::url`] with `/mcp` by default.
    pub audience: Option<String>,
    /// The address of its keys. By default, the address in its metadata (RFC 8414).
    pub jwks_uri: Option<Url>,
    /// The tenants for whose members its tokens are accepted.
    pub tenants: BTreeSet<String>,
    /// The claim with the groups of a person. `groups` by default.
    #[serde(default = "default_groups_claim")]
    pub groups_claim: String,
    /// The claim whose value decides which tenant a person belongs to: see [`Tenant::claims`].
    pub tenant_claim: Option<String>,
}

fn default_scopes() -> Vec<String> {
    ["profile", "email"].map(str::to_owned).to_vec()
}

fn default_groups_claim() -> String {
    "groups".to_owned()
}

/// Why a team file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadTeamFile {
    /// The file is not TOML, or has an unknown field or a value of the wrong kind.
    #[error("the team file cannot be understood: {why}")]
    Syntax {
        /// The line and the reason, without the line itself, which may contain a password.
        why: String,
    },
    /// An address cannot be used.
    #[error("`{field}` of the team file is `{url}`: it must be https (http only for this machine), {message_end}")]
    Url {
        /// The field.
        field: &'static str,
        /// The value of the field.
        url: Url,
        /// The end of the message: a further requirement that the URL does not meet, or the reason for https.
        message_end: &'static str,
    },
    /// A tenant has an invalid name.
    #[error("{0}")]
    Tenant(#[from] BadPrincipal),
    /// Two tenants have the same name or folder, or two issuers the same address.
    #[error("two tables of the team file have the {what} `{value}`")]
    Duplicate {
        /// The field: `id`, `home` or `issuer`.
        what: &'static str,
        /// The value that both have.
        value: String,
    },
    /// An issuer names a tenant that the file does not have.
    #[error("the team file has no tenant `{tenant}`, which the issuer {issuer} names")]
    UnknownTenant {
        /// The id of the missing tenant.
        tenant: String,
        /// The issuer that names it.
        issuer: Url,
    },
    /// A rule for members cannot be understood.
    #[error("`{rule}` of the tenant `{tenant}` is not an address: write `ann@acme.example` or `*@acme.example`")]
    Member {
        /// The tenant.
        tenant: String,
        /// The rule.
        rule: String,
    },
    /// The settings of `[audit_export]` contradict each other.
    #[error("`[audit_export]` of the team file: {why}")]
    AuditExport {
        /// The reason, which names the setting.
        why: &'static str,
    },
}

impl TeamFile {
    /// Parses the `text` of a team file. Relative paths in it begin in `folder`, the folder of the file.
    ///
    /// # Errors
    /// [`BadTeamFile`]
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadTeamFile> {
        let mut team: Self = toml_edit::de::from_str(text).map_err(|error| syntax_error(text, &error))?;
        if let Some(StoreTable { url: StoreUrl::File(UrlFile { file }), .. }) = &mut team.store {
            *file = folder.join(&*file);
        }
        for tenant in &mut team.tenants {
            check_tenant(&tenant.id)?;
            if tenant.home.as_os_str().is_empty() {
                tenant.home = Path::new("tenants").join(&tenant.id);
            }
            tenant.home = folder.join(&tenant.home);
        }
        team.check()?;
        Ok(team)
    }

    /// The tenant `id`.
    #[must_use]
    pub fn tenant(&self, id: &str) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.id == id)
    }

    fn check(&self) -> Result<(), BadTeamFile> {
        check_url("url", &self.url)?;
        if self.url.path() != "/" {
            return Err(BadTeamFile::Url { field: "url", url: self.url.clone(), message_end: "and have no path" });
        }
        if let Some(sign_in) = &self.sign_in {
            check_url("sign_in.issuer", &sign_in.issuer)?;
        }
        self.audit_export.iter().try_for_each(AuditExportTable::check)?;
        let (mut ids, mut homes) = (BTreeSet::new(), BTreeSet::new());
        for tenant in &self.tenants {
            if !ids.insert(&tenant.id) {
                return Err(BadTeamFile::Duplicate { what: "id", value: tenant.id.clone() });
            }
            if !homes.insert(&tenant.home) {
                return Err(BadTeamFile::Duplicate { what: "home", value: tenant.home.display().to_string() });
            }
            if let Some(rule) = tenant.members.iter().find(|rule| !is_address(rule)) {
                return Err(BadTeamFile::Member { tenant: tenant.id.clone(), rule: rule.clone() });
            }
        }
        self.issuers.iter().try_for_each(|trusted| self.check_issuer(trusted))
    }

    fn check_issuer(&self, trusted: &TrustedIssuer) -> Result<(), BadTeamFile> {
        check_url("issuers.issuer", &trusted.issuer)?;
        trusted.jwks_uri.iter().try_for_each(|uri| check_url("issuers.jwks_uri", uri))?;
        if let Some(tenant) = trusted.tenants.iter().find(|tenant| self.tenant(tenant).is_none()) {
            return Err(BadTeamFile::UnknownTenant { tenant: tenant.clone(), issuer: trusted.issuer.clone() });
        }
        let count = self.issuers.iter().filter(|other| other.issuer == trusted.issuer).count();
        if count > 1 {
            return Err(BadTeamFile::Duplicate { what: "issuer", value: trusted.issuer.to_string() });
        }
        Ok(())
    }
}

/// The error of a `text` that cannot be parsed, without the passwords of URLs in it.
fn syntax_error(text: &str, error: &toml_edit::de::Error) -> BadTeamFile {
    let text_before = error.span().and_then(|span| text.get(..span.start));
    let line = text_before.map(|before| format!("line {}: ", before.matches('\n').count() + 1)).unwrap_or_default();
    BadTeamFile::Syntax { why: line + &without_passwords(error.message()) }
}

/// Replaces the text between `://` and `@`, which may be a password, with `***`.
fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let first_part = parts.next().unwrap_or_default().to_owned();
    parts.fold(first_part, |masked_text, part| {
        let end = part.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(part.len());
        match part[..end].rfind('@') {
            Some(at_sign) => format!("{masked_text}://***{}", &part[at_sign..]),
            None => format!("{masked_text}://{part}"),
        }
    })
}

/// Checks a URL to which secrets are sent: its scheme must be https, or it must be on this machine.
fn check_url(field: &'static str, url: &Url) -> Result<(), BadTeamFile> {
    let invalid = |message_end| Err(BadTeamFile::Url { field, url: url.clone(), message_end });
    let is_loopback_host = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => return invalid("and name a host"),
    };
    match url.scheme() {
        "https" => {}
        "http" if is_loopback_host => {}
        _ => return invalid("so that no secret goes over the net in the clear"),
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return invalid("and have no user, query or fragment");
    }
    Ok(())
}

/// Whether a rule for members is `name@domain` or `*@domain`.
fn is_address(rule: &str) -> bool {
    let is_plain = |part: &str| !part.is_empty() && !part.contains(['*', '@', ' ']);
    rule.split_once('@').is_some_and(|(name, domain)| (name == "*" || is_plain(name)) && is_plain(domain))
}

#[cfg(test)]
mod tests;
