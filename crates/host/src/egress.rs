//! Decides where requests may go (*egress*). The same rules judge servers, the addresses in the metadata of servers,
//! and the pages that servers ask a user to open.
//!
//! The decision depends on two things. The first is the *profile*, which the operator chooses. [`Profile::Local`]
//! trusts every address that the user has configured, as a program on the user's own machine must. [`Profile::Hosted`]
//! allows only HTTPS to public addresses. The second is the *source* of the address. An address that the user
//! configured is trusted. An address that a server names (in its metadata, or as a page) is not: it could be that of
//! the router, of a cloud's credentials or of another program.
//!
//! The client that connects resolves a name once, and judges the addresses that it gets. So the client dials exactly
//! the address that it checked, and a name that resolves differently the next time causes no harm. An IP address in the
//! URL is judged before anything is sent.

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
const HTTPS_PORT: u16 = 443;

/// Which destinations requests may reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// An address that the user configured may be anywhere. An address that a server names must be public, or in the
    /// same network as that server. The default.
    #[default]
    Local,
    /// Requests may reach public addresses with HTTPS, on port 443 and the ports in [`EgressRules::ports`], and the
    /// destinations in [`EgressRules::allow`].
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

/// The proxy for requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Proxy {
    /// The proxies in the variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`. In [`Profile::Hosted`],
    /// no proxy: an operator configures trust in files, not in the environment.
    ///
    /// The proxy's own name may resolve to any address if [`Egress::with_proxies_of_environment`] was given the proxy.
    #[default]
    Environment,
    /// No proxy, regardless of the environment.
    Off,
    /// This proxy, for all requests. It resolves the names, so it must itself refuse forbidden addresses: this program
    /// can only judge the addresses in URLs.
    At(Url),
}

/// The text is neither the URL of a proxy, `environment` nor `off`.
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

/// An operator's rules for egress.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct EgressRules {
    /// Which destinations requests may reach.
    pub profile: Profile,
    /// Ports in addition to 443, for [`Profile::Hosted`].
    pub ports: BTreeSet<u16>,
    /// Destinations that the operator trusts, with any scheme, port and address.
    pub allow: Vec<Allowed>,
    /// The proxy for requests.
    pub proxy: Proxy,
    /// The place where these rules are configured, for messages; empty if there is none.
    pub source: String,
}

/// Hides the proxy, whose URL may hold a password.
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

/// A destination that an operator trusts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Allowed {
    /// A network, or one address.
    Net(IpNet),
    /// A host by its name, at any address except those of a cloud's credentials.
    Host(String),
    /// Every host below this name (`*.example.com`), but not the name itself.
    Subdomains(String),
}

/// The text is neither a network, an address nor the name of a host.
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
        let (name, is_wildcard) = text.strip_prefix("*.").map_or((text, false), |name| (name, true));
        match Host::parse(name) {
            Ok(Host::Domain(name)) if !name.contains('*') => {
                let name = normalized(&name);
                Ok(if is_wildcard { Self::Subdomains(name) } else { Self::Host(name) })
            }
            _ => Err(BadAllowed),
        }
    }
}

impl EgressRules {
    /// Creates rules that allow only public HTTPS, for a program whose settings cannot be parsed.
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
        let name = normalized(name);
        self.allow.iter().any(|allowed| match allowed {
            Allowed::Net(_) => false,
            Allowed::Host(host) => *host == name,
            Allowed::Subdomains(parent) => {
                // The rest before the parent must be at least one label and its dot.
                name.strip_suffix(&**parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
        })
    }

    fn trusts_address(&self, address: IpAddr) -> bool {
        let address = special::effective_address(address);
        self.allow.iter().any(|allowed| matches!(allowed, Allowed::Net(net) if net.contains(&address)))
    }
}

/// Returns the form of a name for comparisons: in lower case, without the dot of a fully qualified name.
fn normalized(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns whether a name always means this machine (RFC 6761).
fn is_localhost(name: &str) -> bool {
    let name = normalized(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// The egress rules of a program, shared by all its clients. Clones share the same rules, so [`Self::set`] changes them
/// for all clones.
#[derive(Clone)]
pub struct Egress(Arc<EgressState>);

struct EgressState {
    rules: ArcSwap<EgressRules>,
    lookup: Arc<dyn Lookup>,
    /// The names of the proxies in the environment.
    proxies: Arc<BTreeSet<String>>,
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Egress").field(&self.rules()).finish()
    }
}

/// Two values are equal while their rules are equal.
impl PartialEq for Egress {
    fn eq(&self, other: &Self) -> bool {
        self.rules() == other.rules()
    }
}

impl Eq for Egress {}

/// [`Profile::Local`], with the system's name resolution.
impl Default for Egress {
    fn default() -> Self {
        Self::new(EgressRules::default(), Arc::new(SystemLookup))
    }
}

impl Egress {
    /// Creates the rules, with `lookup` to resolve names.
    #[must_use]
    pub fn new(rules: EgressRules, lookup: Arc<dyn Lookup>) -> Self {
        Self(Arc::new(EgressState { rules: ArcSwap::from_pointee(rules), lookup, proxies: Arc::default() }))
    }

    /// Returns the same rules, with the proxies of the environment, given as the values of its variables
    /// (`http://proxy.example:3128`, `proxy.example:3128`). While [`Proxy::Environment`] applies, their names may
    /// resolve to any address, and no server may name them. Values without a host are left out.
    ///
    /// This does not read the environment. Earlier clones do not share the rules of the result.
    #[must_use]
    pub fn with_proxies_of_environment<'a>(&self, proxies: impl IntoIterator<Item = &'a str>) -> Self {
        let host = |text: &str| {
            let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("http://{text}")) };
            url.ok()?.host_str().map(normalized)
        };
        let proxies = Arc::new(proxies.into_iter().filter_map(host).collect());
        let (rules, lookup) = (ArcSwap::new(self.rules()), Arc::clone(&self.0.lookup));
        Self(Arc::new(EgressState { rules, lookup, proxies }))
    }

    /// Replaces the rules for later connections. Existing connections stay until they reconnect.
    pub fn set(&self, rules: EgressRules) {
        if **self.0.rules.load() != rules {
            self.0.rules.store(Arc::new(rules));
        }
    }

    /// Returns the current rules.
    #[must_use]
    pub fn rules(&self) -> Arc<EgressRules> {
        self.0.rules.load_full()
    }

    /// Returns the guard for addresses that the user configured.
    #[must_use]
    pub fn guard_for_configured(&self) -> Guard {
        self.guard(Reach::Anywhere)
    }

    /// Returns the guard for addresses that the server at `server` names. A server whose configured URL has an address
    /// of this machine, or of a private network, may name other addresses of that kind. If the URL has a name, only
    /// `localhost` counts as this machine: any other name proves nothing about its addresses.
    #[must_use]
    pub fn guard_for_server(&self, server: &Url) -> Guard {
        self.guard(match kind_of_host(server) {
            Some(Kind::Loopback) => Reach::Loopback,
            Some(Kind::Private) => Reach::Private,
            _ => Reach::Public,
        })
    }

    /// Returns the guard for addresses that a server on this machine names. It also allows private networks and this
    /// machine, because the server could reach them itself.
    #[must_use]
    pub fn guard_for_local_programs(&self) -> Guard {
        self.guard(Reach::Inside)
    }

    fn guard(&self, reach: Reach) -> Guard {
        let rules = self.rules();
        let reach = if rules.profile == Profile::Hosted { Reach::Public } else { reach };
        Guard { rules, reach, lookup: Arc::clone(&self.0.lookup), proxies: Arc::clone(&self.0.proxies) }
    }
}

/// The kinds of addresses that a guard allows without a rule for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reach {
    /// Only public addresses, which all variants allow.
    Public,
    /// This machine.
    Loopback,
    /// Private networks.
    Private,
    /// This machine and private networks.
    Inside,
    /// All addresses, except that no name may resolve to a cloud's credentials.
    Anywhere,
}

impl Reach {
    fn covers(self, kind: Kind) -> bool {
        match kind {
            Kind::Public => true,
            Kind::Loopback => matches!(self, Self::Loopback | Self::Inside | Self::Anywhere),
            Kind::Private => matches!(self, Self::Private | Self::Inside | Self::Anywhere),
            // Other kinds are allowed only for addresses that the user configured.
            _ => self == Self::Anywhere,
        }
    }
}

/// Judges addresses by the rules that applied when the guard was made. Equal guards judge equally.
#[derive(Clone)]
pub struct Guard {
    rules: Arc<EgressRules>,
    /// The kinds of addresses that are allowed without a rule.
    reach: Reach,
    lookup: Arc<dyn Lookup>,
    /// The names of the proxies in the environment.
    proxies: Arc<BTreeSet<String>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("rules", &self.rules).field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl PartialEq for Guard {
    fn eq(&self, other: &Self) -> bool {
        self.reach == other.reach && self.has_same_rules(other)
    }
}

impl Eq for Guard {}

impl Hash for Guard {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal guards are equal in these parts, which is all that a hash requires.
        (self.reach, self.rules.profile).hash(state);
    }
}

impl Guard {
    /// Checks whether a request may go to `url`, judging by the URL only. A client that was made with [`Self::client`]
    /// judges the addresses of its name when it connects.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        let refuse = |why: RefusalReason| Err(self.refusal(place(url), why));
        let Some(host) = url.host().filter(|_| matches!(url.scheme(), "http" | "https")) else {
            return refuse(RefusalReason::Scheme);
        };
        if self.rules.trusts(&host) {
            return Ok(());
        }
        if self.rules.profile == Profile::Hosted {
            // Both schemes have a default port, so there always is one.
            let port = url.port_or_known_default().unwrap_or(HTTPS_PORT);
            if url.scheme() != "https" {
                return refuse(RefusalReason::NotHttps);
            }
            if port != HTTPS_PORT && !self.rules.ports.contains(&port) {
                return refuse(RefusalReason::Port(port));
            }
        }
        match kind_of_host(url) {
            Some(kind) if !self.reach.covers(kind) => refuse(RefusalReason::Kind(kind)),
            // The proxy's own name may resolve to any address, so a server must not name it.
            None if self.reach != Reach::Anywhere
                && url.host_str().is_some_and(|name| self.is_environment_proxy(name)) =>
            {
                refuse(RefusalReason::Proxy)
            }
            _ => Ok(()),
        }
    }

    /// Checks whether secrets, or a user, may be sent to `url`. In addition to [`Self::check`], this requires TLS,
    /// unless `server` itself has none and `url` is on the server's host or on loopback.
    ///
    /// # Errors
    /// [`Refused`], with the reason.
    pub fn check_secret_destination(&self, url: &Url, server: &Url) -> Result<(), Refused> {
        self.check(url)?;
        let may_be_unencrypted =
            server.scheme() == "http" && (url.host() == server.host() || kind_of_host(url) == Some(Kind::Loopback));
        if url.scheme() == "https" || may_be_unencrypted {
            return Ok(());
        }
        Err(self.refusal(place(url), RefusalReason::NoTls))
    }

    /// Returns those of the `resolved` addresses that a client may dial. `name` is the name that resolves to them.
    ///
    /// # Errors
    /// If there are addresses, and none of them may be dialled.
    pub(crate) fn allowed_addresses(&self, name: &str, resolved: Vec<IpAddr>) -> Result<Vec<IpAddr>, Refused> {
        let is_proxy = match &self.rules.proxy {
            // With a fixed proxy, this program resolves only the proxy's name.
            Proxy::At(proxy) => proxy.host_str() == Some(name),
            Proxy::Environment | Proxy::Off => self.is_environment_proxy(name),
        };
        let mut last_refusal = None;
        let mut allowed = Vec::with_capacity(resolved.len());
        for address in resolved {
            match self.judge(name, address) {
                Err(why) if !is_proxy => last_refusal = Some(why),
                _ => allowed.push(address),
            }
        }
        match last_refusal.filter(|_| allowed.is_empty()) {
            Some(why) => Err(self.refusal(name.to_owned(), why)),
            None => Ok(allowed),
        }
    }

    /// Returns whether `name` is the name of a proxy that the environment sets.
    fn is_environment_proxy(&self, name: &str) -> bool {
        matches!(self.proxy(), Proxy::Environment) && self.proxies.contains(&normalized(name))
    }

    /// Returns the resolver of names.
    pub(crate) fn lookup(&self) -> &dyn Lookup {
        &*self.lookup
    }

    /// Returns the proxy for requests.
    pub(crate) fn proxy(&self) -> &Proxy {
        match (&self.rules.proxy, self.rules.profile) {
            (Proxy::Environment, Profile::Hosted) => &Proxy::Off,
            (proxy, _) => proxy,
        }
    }

    /// Returns whether `other` has the same rules.
    #[must_use]
    pub fn has_same_rules(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.rules, &other.rules) || self.rules == other.rules
    }

    /// Judges whether `name`, which resolved to `address`, may be dialled there.
    fn judge(&self, name: &str, address: IpAddr) -> Result<(), RefusalReason> {
        let kind = special::kind(address);
        // No legitimate name resolves to the address of a cloud's credentials, so the trust in a name does not count
        // there.
        let is_name_allowed = kind != Kind::Metadata && (self.reach.covers(kind) || self.rules.trusts_name(name));
        if is_name_allowed || self.rules.trusts_address(address) {
            Ok(())
        } else {
            Err(RefusalReason::LeadsTo(address, kind))
        }
    }

    fn refusal(&self, destination: String, why: RefusalReason) -> Refused {
        Refused { destination: crate::text::for_line(&destination).into_owned(), why, rules: Arc::clone(&self.rules) }
    }
}

/// Returns the kind of the address in a URL; `None` for a name.
fn kind_of_host(url: &Url) -> Option<Kind> {
    match url.host()? {
        Host::Ipv4(address) => Some(special::kind(address.into())),
        Host::Ipv6(address) => Some(special::kind(address.into())),
        Host::Domain(name) => is_localhost(name).then_some(Kind::Loopback),
    }
}

/// The reason why a request was refused. Its `Display` is one safe line without secrets: it names only the origin of a
/// URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    destination: String,
    why: RefusalReason,
    rules: Arc<EgressRules>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RefusalReason {
    /// The scheme is neither `http` nor `https`.
    Scheme,
    /// [`Profile::Hosted`] requires HTTPS.
    NotHttps,
    /// Secrets, or a user, would go there without TLS.
    NoTls,
    /// [`Profile::Hosted`] does not allow this port.
    Port(u16),
    /// The URL has an address of this kind.
    Kind(Kind),
    /// A server names the program's own proxy.
    Proxy,
    /// The name of the URL resolves to this address.
    LeadsTo(IpAddr, Kind),
}

impl std::error::Error for Refused {}

/// Returns the origin of a URL, because its path and query may hold secrets. For a URL without an origin, such as
/// `file:///x`, names its scheme.
pub(crate) fn place(url: &Url) -> String {
    match url.origin() {
        Origin::Tuple(..) => url.origin().ascii_serialization(),
        Origin::Opaque(_) => format!("an address of the scheme `{}`", url.scheme()),
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the egress rules refuse {}: ", self.destination)?;
        match self.why {
            RefusalReason::Scheme => f.write_str("it is neither http nor https")?,
            RefusalReason::NotHttps | RefusalReason::NoTls => f.write_str("it is not https")?,
            RefusalReason::Port(port) => write!(f, "port {port} is not among the allowed ports")?,
            RefusalReason::Kind(kind) => write!(f, "that is {kind}")?,
            RefusalReason::Proxy => f.write_str("that is the proxy of this program")?,
            RefusalReason::LeadsTo(address, kind) => write!(f, "the name leads to {address}, which is {kind}")?,
        }
        write!(f, " (egress profile `{}`", self.rules.profile)?;
        if self.rules.source.is_empty() { f.write_str(")") } else { write!(f, ", set in {})", self.rules.source) }
    }
}

impl Refused {
    /// The stable code of this error for programs.
    pub const CODE: &'static str = "EGRESS_REFUSED";

    /// Returns how an operator can allow the request.
    #[must_use]
    pub fn hint(&self) -> String {
        let file = if self.rules.source.is_empty() { "toolrack.toml" } else { &self.rules.source };
        match self.why {
            RefusalReason::Port(port) => format!("to allow this port, add {port} to `egress.ports` in {file}"),
            RefusalReason::Scheme => "use a url that begins with https://".to_owned(),
            RefusalReason::NoTls => "secrets are sent only to addresses that begin with https://".to_owned(),
            RefusalReason::LeadsTo(address, Kind::Metadata) => {
                format!("to allow this address, add \"{address}\" to `egress.allow` in {file}")
            }
            RefusalReason::NotHttps => {
                format!("use a url that begins with https://, or add the host to `egress.allow` in {file}")
            }
            RefusalReason::Kind(_) | RefusalReason::Proxy | RefusalReason::LeadsTo(..) => {
                format!("if you trust this destination, add its host or network to `egress.allow` in {file}")
            }
        }
    }
}
