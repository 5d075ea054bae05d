//! Where this program may send requests: one guard for servers, for what their metadata names, and for pages that they ask a
//! person to open.
//!
//! Two things decide. The *profile* is what the operator chose: [`Profile::Local`] trusts what a person configured, as a
//! program on that person's machine must; [`Profile::Hosted`] lets nothing out but HTTPS to public addresses. And who *named*
//! the address: what a person configured is that person's wish, what a server names (metadata, a page) is a stranger's, who
//! could name the router, a cloud's credentials or another program of this machine.
//!
//! A name is looked up once, by the client that connects, and what it leads to is judged then: the address that was checked
//! is the address that is dialled, so a name that changes its mind leads nowhere else. An address that stands in the URL is
//! judged before anything is sent.

mod lookup;
mod special;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    fmt,
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
};

use arc_swap::ArcSwap;
use ipnet::IpNet;
use serde::Serialize;
use url::{Host, Origin, Url};

pub use lookup::{Lookup, SystemLookup};
use special::Kind;

/// The port of HTTPS, which is always allowed.
const HTTPS: u16 = 443;

/// How much is let out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// What a person configured may be anywhere; what a server names must be public, or as near as that server. The default.
    #[default]
    Local,
    /// HTTPS to public addresses, on ports that are named, and what [`EgressRules::allow`] names.
    Hosted,
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Hosted => "hosted",
        })
    }
}

/// Through which proxy requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proxy {
    /// The one that the variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` name. In [`Profile::Hosted`], none:
    /// an environment is not where an operator says whom to trust.
    #[default]
    ///
    /// Its name leads where it likes if [`Egress::with_proxies_of_environment`] has been told of it.
    Environment,
    /// None, whatever the environment says.
    Off,
    /// This one, for everything. It looks names up in this program's place, so it must itself refuse what nobody may reach;
    /// here, only what stands in URLs is judged.
    At(Url),
}

/// What is neither the URL of a proxy, `environment` nor `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither the http or https URL of a proxy, nor `environment` or `off`")]
pub struct BadProxy;

impl std::str::FromStr for Proxy {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<Self, BadProxy> {
        match text {
            "environment" => Ok(Self::Environment),
            "off" => Ok(Self::Off),
            _ => match Url::parse(text) {
                Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(Self::At(url)),
                _ => Err(BadProxy),
            },
        }
    }
}

/// What an operator says of egress.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct EgressRules {
    /// How much is let out.
    pub profile: Profile,
    /// Ports beside 443, for [`Profile::Hosted`].
    pub ports: BTreeSet<u16>,
    /// What is trusted as the operator's own, whatever its scheme, port and address.
    pub allow: Vec<Allowed>,
    /// Through which proxy requests go.
    pub proxy: Proxy,
    /// Where this was said, for messages; empty where nobody said anything.
    pub source: String,
}

/// Does not show the proxy, whose URL may hold a password.
impl fmt::Debug for EgressRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressRules")
            .field("profile", &self.profile)
            .field("ports", &self.ports)
            .field("allow", &self.allow)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// One thing that an operator trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Allowed {
    /// A network, or one address.
    Net(IpNet),
    /// A host by its name, wherever that leads but to a cloud's credentials.
    Host(String),
    /// Every host below this name (`*.example.com`), not the name itself.
    Below(String),
}

/// What is neither a network, an address nor the name of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("neither a host such as `mcp.example.com` or `*.example.com`, nor an address or network such as `10.1.0.0/16`")]
pub struct BadAllowed;

impl std::str::FromStr for Allowed {
    type Err = BadAllowed;

    fn from_str(text: &str) -> Result<Self, BadAllowed> {
        if let Ok(net) = text.parse::<IpNet>() {
            return Ok(Self::Net(net.trunc()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Net(address.into()));
        }
        let (name, below) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        match Host::parse(name) {
            Ok(Host::Domain(name)) if !name.contains('*') => {
                let name = plain(&name);
                Ok(if below { Self::Below(name) } else { Self::Host(name) })
            }
            _ => Err(BadAllowed),
        }
    }
}

impl EgressRules {
    /// Nothing but public HTTPS: for settings that cannot be understood.
    #[must_use]
    pub fn strictest(source: impl Into<String>) -> Self {
        Self { profile: Profile::Hosted, source: source.into(), ..Self::default() }
    }

    fn trusts(&self, host: &Host<&str>) -> bool {
        match host {
            Host::Domain(name) => self.trusts_name(name),
            Host::Ipv4(address) => self.trusts_address((*address).into()),
            Host::Ipv6(address) => self.trusts_address((*address).into()),
        }
    }

    fn trusts_name(&self, name: &str) -> bool {
        let name = plain(name);
        self.allow.iter().any(|allowed| match allowed {
            Allowed::Net(_) => false,
            Allowed::Host(host) => *host == name,
            Allowed::Below(parent) => {
                name.strip_suffix(&**parent).is_some_and(|left| left.len() > 1 && left.ends_with('.'))
            }
        })
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        let address = special::led_to(address);
        self.allow.iter().any(|allowed| matches!(allowed, Allowed::Net(net) if net.contains(&address)))
    }
}

/// A name as it is compared.
fn plain(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Whether a name always is this machine (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = plain(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The rules of a program, shared by everything that sends requests. Clones share them.
#[derive(Clone)]
pub struct Egress(Arc<Shared>);

struct Shared {
    rules: ArcSwap<EgressRules>,
    lookup: Arc<dyn Lookup>,
    /// Names of the proxies that the environment names.
    proxies: Arc<BTreeSet<String>>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Egress").field(&self.rules()).finish()
    }
}

/// [`Profile::Local`], with the names of the system.
impl Default for Egress {
    fn default() -> Self {
        Self::new(EgressRules::default(), Arc::new(SystemLookup))
    }
}

impl Egress {
    /// `rules`, and who looks names up.
    #[must_use]
    pub fn new(rules: EgressRules, lookup: Arc<dyn Lookup>) -> Self {
        Self(Arc::new(Shared { rules: ArcSwap::from_pointee(rules), lookup, proxies: Arc::default() }))
    }

    /// The same rules, knowing the proxies that the environment names, as the values of its variables are written
    /// (`http://proxy.example:3128`, `proxy.example:3128`). While [`Proxy::Environment`] is what holds, their names lead where
    /// they like, and no server may name them. What comes to no host is left out.
    ///
    /// Nothing here looks at the environment. Clones that were made before do not share the rules of this one.
    #[must_use]
    pub fn with_proxies_of_environment<'a>(&self, proxies: impl IntoIterator<Item = &'a str>) -> Self {
        let host = |text: &str| {
            let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
            url.ok()?.host_str().map(plain)
        };
        let proxies = Arc::new(proxies.into_iter().filter_map(host).collect());
        let (rules, lookup) = (ArcSwap::new(self.rules()), Arc::clone(&self.0.lookup));
        Self(Arc::new(Shared { rules, lookup, proxies }))
    }

    /// From now on, connections are made by `rules`. What is connected stays until it is connected anew.
    pub fn set(&self, rules: EgressRules) {
        if **self.0.rules.load() != rules {
            self.0.rules.store(Arc::new(rules));
        }
    }

    /// The rules of this moment.
    #[must_use]
    pub fn rules(&self) -> Arc<EgressRules> {
        self.0.rules.load_full()
    }

    /// For what a person configured.
    #[must_use]
    pub fn configured(&self) -> Guard {
        self.guard(Reach::Anywhere)
    }

    /// For what the server at `server` names. One that is configured at an address of this machine, or of a private network,
    /// may name others of that kind: they are no further away than it is. A name says nothing of where it leads, but
    /// `localhost` does.
    #[must_use]
    pub fn named_by(&self, server: &Url) -> Guard {
        self.guard(match kind_of_host(server) {
            Some(Kind::Loopback) => Reach::Loopback,
            Some(Kind::Private) => Reach::Private,
            _ => Reach::Public,
        })
    }

    /// For what a program names that runs on this machine anyway.
    #[must_use]
    pub fn named_by_a_program(&self) -> Guard {
        self.guard(Reach::Inside)
    }

    fn guard(&self, reach: Reach) -> Guard {
        let rules = self.rules();
        let reach = if rules.profile == Profile::Hosted { Reach::Public } else { reach };
        Guard { rules, reach, lookup: Arc::clone(&self.0.lookup), proxies: Arc::clone(&self.0.proxies) }
    }
}

/// Which addresses are allowed beside those that the rules name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reach {
    Public,
    /// And this machine.
    Loopback,
    /// And private networks.
    Private,
    /// And both.
    Inside,
    /// All, but that no name leads to a cloud's credentials.
    Anywhere,
}

impl Reach {
    fn covers(self, kind: Kind) -> bool {
        match kind {
            Kind::Public => true,
            Kind::Loopback => matches!(self, Self::Loopback | Self::Inside | Self::Anywhere),
            Kind::Private => matches!(self, Self::Private | Self::Inside | Self::Anywhere),
            _ => self == Self::Anywhere,
        }
    }
}

/// Judges addresses, by the rules of the moment at which it was had. Equal guards judge equally.
#[derive(Clone)]
pub struct Guard {
    rules: Arc<EgressRules>,
    reach: Reach,
    lookup: Arc<dyn Lookup>,
    proxies: Arc<BTreeSet<String>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("rules", &self.rules).field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Self) -> bool {
        self.reach == other.reach && self.is_by_the_same_rules(other)
    }
}

impl Eq for Guard {}

impl Hash for Guard {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.reach, self.rules.profile).hash(state);
    }
}

impl Guard {
    /// Whether `url` may be asked, as far as it can be told without looking its name up; what that leads to is judged when it
    /// is dialled, by a client that was made with [`Self::client`].
    ///
    /// # Errors
    /// [`Refused`] says why not.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        let refused = |why: Why| Err(self.refused(place(url), why));
        let Some(host) = url.host().filter(|_| matches!(url.scheme(), "http" | "https")) else {
            return refused(Why::Scheme);
        };
        if self.rules.trusts(&host) {
            return Ok(());
        }
        if self.rules.profile == Profile::Hosted {
            let port = url.port_or_known_default().unwrap_or(HTTPS);
            if url.scheme() != "https" {
                return refused(Why::NotHttps);
            }
            if port != HTTPS && !self.rules.ports.contains(&port) {
                return refused(Why::Port(port));
            }
        }
        match kind_of_host(url) {
            Some(kind) if !self.reach.covers(kind) => refused(Why::Kind(kind)),
            // What goes around the proxy would be let in there, wherever its name leads.
            None if self.reach != Reach::Anywhere
                && url.host_str().is_some_and(|name| self.is_of_environment(name)) =>
            {
                refused(Why::Proxy)
            }
            _ => Ok(()),
        }
    }

    /// Why `url` cannot be an endpoint that secrets are sent to, or a person: as [`Self::check`], and nothing goes in the clear
    /// unless it stays where the server at `server` is, and that is in the clear itself.
    ///
    /// # Errors
    /// [`Refused`] says why not.
    pub fn check_for_secrets(&self, url: &Url, server: &Url) -> Result<(), Refused> {
        self.check(url)?;
        let beside =
            server.scheme() == "http" && (url.host() == server.host() || kind_of_host(url) == Some(Kind::Loopback));
        if url.scheme() == "https" || beside {
            return Ok(());
        }
        Err(self.refused(place(url), Why::Clear))
    }

    /// The addresses of `found`, which is what `name` leads to, that may be dialled.
    ///
    /// # Errors
    /// When there are some, and none may be.
    pub(crate) fn allowed_of(&self, name: &str, found: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refused> {
        let is_proxy = match &self.rules.proxy {
            // Its own is the only name that is looked up here.
            Proxy::At(proxy) => proxy.host_str() == Some(name),
            Proxy::Environment | Proxy::Off => self.is_of_environment(name),
        };
        let mut refused = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.judge(name, address) {
                Err(why) if !is_proxy => refused = Some(why),
                _ => allowed.push(address),
            }
        }
        match refused.filter(|_| allowed.is_empty()) {
            Some(why) => Err(self.refused(name.to_owned(), why)),
            None => Ok(allowed),
        }
    }

    /// Whether `name` is that of a proxy which requests go through because the environment says so.
    fn is_of_environment(&self, name: &str) -> bool {
        matches!(self.proxy(), Proxy::Environment) && self.proxies.contains(&plain(name))
    }

    /// Who looks names up.
    pub(crate) fn lookup(&self) -> &dyn Lookup {
        &*self.lookup
    }

    /// Through which proxy requests go.
    pub(crate) fn proxy(&self) -> &Proxy {
        match (&self.rules.proxy, self.rules.profile) {
            (Proxy::Environment, Profile::Hosted) => &Proxy::Off,
            (proxy, _) => proxy,
        }
    }

    /// Whether `other` was had under the same rules.
    #[must_use]
    pub fn is_by_the_same_rules(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) || self.rules == other.rules
    }

    /// Whether `name`, which led to `address`, may be dialled there.
    fn judge(&self, name: &str, address: IpAddr) -> Result<(), Why> {
        let kind = special::kind(address);
        // Nobody has a name for these by accident.
        let by_name = kind != Kind::Metadata && (self.reach.covers(kind) || self.rules.trusts_name(name));
        if by_name || self.rules.trusts_address(address) { Ok(()) } else { Err(Why::LeadsTo(address, kind)) }
    }

    fn refused(&self, to: String, why: Why) -> Refused {
        Refused { to: crate::text::for_line(&to).into_owned(), why, rules: Arc::clone(&self.rules) }
    }
}

/// What a URL says of itself; `None` for a name.
fn kind_of_host(url: &Url) -> Option<Kind> {
    match url.host()? {
        Host::Ipv4(address) => Some(special::kind(address.into())),
        Host::Ipv6(address) => Some(special::kind(address.into())),
        Host::Domain(name) => is_localhost(name).then_some(Kind::Loopback),
    }
}

/// Something that is not asked, and why. Its `Display` is one safe line without secrets: of a URL it names the origin alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    to: String,
    why: Why,
    rules: Arc<EgressRules>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Scheme,
    NotHttps,
    Clear,
    Port(u16),
    Kind(Kind),
    Proxy,
    LeadsTo(IpAddr, Kind),
}

impl std::error::Error for Refused {}

/// Where a URL leads, without what could be a secret in it: its origin, or the scheme where it has none, as `file:///x`.
pub(crate) fn place(url: &Url) -> String {
    match url.origin() {
        Origin::Tuple(..) => url.origin().ascii_serialization(),
        Origin::Opaque(_) => format!("an address of the scheme {}:", url.scheme()),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not contacted: ", self.to)?;
        match self.why {
            Why::Scheme => f.write_str("it is neither http nor https")?,
            Why::NotHttps | Why::Clear => f.write_str("it is not https")?,
            Why::Port(port) => write!(f, "port {port} is not among those that are let out")?,
            Why::Kind(kind) => write!(f, "that is {kind}")?,
            Why::Proxy => f.write_str("that is the proxy of this program")?,
            Why::LeadsTo(address, kind) => write!(f, "the name leads to {address}, which is {kind}")?,
        }
        write!(f, " (egress profile `{}`", self.rules.profile)?;
        if self.rules.source.is_empty() { f.write_str(")") } else { write!(f, ", set in {})", self.rules.source) }
    }
}

impl Refused {
    /// The stable code of this case for programs.
    pub const CODE: &'static str = "EGRESS_REFUSED";

    /// What an operator who means it can do.
    #[must_use]
    pub fn hint(&self) -> String {
        let file = if self.rules.source.is_empty() { "toolrack.toml" } else { &self.rules.source };
        match self.why {
            Why::Port(port) => format!("if it is meant, add {port} to `egress.ports` in {file}"),
            Why::Scheme => "give a url that begins with https://".to_owned(),
            Why::Clear => "only an address that is reached with https gets secrets".to_owned(),
            Why::LeadsTo(address, Kind::Metadata) => {
                format!("if it is meant, add \"{address}\" to `egress.allow` in {file}")
            }
            Why::NotHttps => {
                format!("give it a url that begins with https://, or add its host to `egress.allow` in {file}")
            }
            Why::Kind(_) | Why::Proxy | Why::LeadsTo(..) => {
                format!("if you trust it, add its host or network to `egress.allow` in {file}")
            }
        }
    }
}
