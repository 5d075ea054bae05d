//! Which addresses a server's metadata may lead to.
//!
//! Metadata comes from the server: it could name the router, a cloud's metadata service or another program of this machine,
//! and this program would ask there. So only public addresses are used, checked when they are dialled, unless the server
//! itself is configured at such an address: then others of that kind are no further away than it is.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// What is allowed for one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Guard {
    /// This machine.
    loopback: bool,
    /// Private networks: RFC 1918, RFC 4193.
    private: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Public,
    Loopback,
    Private,
    /// Link-local with the metadata services of clouds, multicast, unspecified, and everything reserved.
    Never,
}

impl Guard {
    /// For the server at `url`. A name says nothing of where it leads, but `localhost` does.
    pub(crate) fn of(url: &Url) -> Self {
        let kind = kind_of_host(url);
        Self { loopback: kind == Some(Kind::Loopback), private: kind == Some(Kind::Private) }
    }

    fn allows(self, address: IpAddr) -> bool {
        match kind_of(address) {
            Kind::Public => true,
            Kind::Loopback => self.loopback,
            Kind::Private => self.private,
            Kind::Never => false,
        }
    }

    /// Whether `url` may be asked, as far as it can be told without looking its name up.
    pub(crate) fn allows_url(self, url: &Url) -> bool {
        let is_http = matches!(url.scheme(), "http" | "https");
        is_http
            && match kind_of_host(url) {
                None | Some(Kind::Public) => url.has_host(),
                Some(Kind::Loopback) => self.loopback,
                Some(Kind::Private) => self.private,
                Some(Kind::Never) => false,
            }
    }

    /// Why `url` cannot be an endpoint that secrets are sent to; `None` when it can. Nothing goes in the clear, unless it
    /// stays where the server at `server` is, and that is in the clear itself.
    pub(crate) fn objection(self, url: &Url, server: &Url) -> Option<&'static str> {
        let beside =
            server.scheme() == "http" && (url.host() == server.host() || kind_of_host(url) == Some(Kind::Loopback));
        match url.scheme() {
            _ if !self.allows_url(url) => Some("it is not a public http or https address"),
            "https" => None,
            _ if beside => None,
            _ => Some("it is not https"),
        }
    }
}

/// What a URL says of itself; `None` for a name.
fn kind_of_host(url: &Url) -> Option<Kind> {
    match url.host()? {
        Host::Ipv4(address) => Some(kind_of(address.into())),
        Host::Ipv6(address) => Some(kind_of(address.into())),
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            (name == "localhost" || name.ends_with(".localhost")).then_some(Kind::Loopback)
        }
    }
}

fn kind_of(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_of_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => kind_of_v4(address),
            None => kind_of_v6(address),
        },
    }
}

/// By the registry of special addresses (RFC 6890 and its updates).
fn kind_of_v4(address: Ipv4Addr) -> Kind {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => Kind::Loopback,
        (10, ..) | (172, 16..=31, _) | (192, 168, _) => Kind::Private,
        // This network, shared by carriers, link-local, protocols, 6to4 relays, benchmarks.
        (0, ..) | (100, 64..=127, _) | (169, 254, _) | (192, 0, 0) | (192, 88, 99) | (198, 18 | 19, _) => Kind::Never,
        // Documentation, multicast, reserved, broadcast.
        (192, 0, 2) | (198, 51, 100) | (203, 0, 113) | (224.., ..) => Kind::Never,
        _ => Kind::Public,
    }
}

fn kind_of_v6(address: Ipv6Addr) -> Kind {
    let segments = address.segments();
    match segments {
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        [first, ..] if first & 0xfe00 == 0xfc00 => Kind::Private,
        // Teredo and documentation are inside of what is otherwise public.
        [0x2001, 0 | 0x0db8, ..] => Kind::Never,
        // Only this eighth of all addresses is given out.
        [first, ..] if first & 0xe000 == 0x2000 => Kind::Public,
        _ => Kind::Never,
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped, translated (RFC 6052) or 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(join(g, h)),
        [0x2002, ..] => Some(join(b, c)),
        _ => None,
    }
}

/// Looks names up and leaves out what is not allowed, so that a name that changes its mind leads nowhere else.
#[derive(Clone, Debug)]
pub(crate) struct Names(pub(crate) Guard);

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<SocketAddr> = found.filter(|address| guard.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err("its name leads to no public address".into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

impl Names {
    pub(crate) fn shared(guard: Guard) -> Arc<Self> {
        Arc::new(Self(guard))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_public_server_leads_to_public_addresses_only() {
        let guard = Guard::of(&url("https://mcp.example.com/mcp"));
        for refused in [
            "http://127.0.0.1/",
            "http://localhost:8080/",
            "http://a.localhost./",
            "http://10.0.0.1/",
            "http://172.31.0.1/",
            "http://192.168.1.1/",
            "http://169.254.169.254/latest/meta-data",
            "http://100.64.0.1/",
            "http://0.0.0.0/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
            "http://[::1]/",
            "http://[::]/",
            "http://[fe80::1]/",
            "http://[fd00::1]/",
            "http://[::ffff:127.0.0.1]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://[2002:7f00:1::]/",
            "http://[2001:0:1::]/",
            "http://2130706433/",
            "http://0x7f.1/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "ftp://example.com/",
        ] {
            assert!(!guard.allows_url(&url(refused)), "{refused}");
        }
        for allowed in ["https://login.example.com/", "https://8.8.8.8/", "https://[2606:4700::1]/"] {
            assert!(guard.allows_url(&url(allowed)), "{allowed}");
        }
    }

    #[test]
    fn what_is_as_near_as_the_server_is_allowed() {
        let here = Guard::of(&url("http://127.0.0.1:9000/mcp"));
        assert!(here.allows_url(&url("http://localhost:9001/")) && here.allows_url(&url("http://[::1]/")));
        assert!(!here.allows_url(&url("http://10.0.0.1/")) && !here.allows_url(&url("http://169.254.169.254/")));
        let near = Guard::of(&url("https://192.168.1.5/mcp"));
        assert!(near.allows_url(&url("https://10.1.1.1/")) && !near.allows_url(&url("https://127.0.0.1/")));
    }

    #[test]
    fn secrets_go_in_the_clear_only_where_the_server_is_in_the_clear_itself() {
        let cases = [
            ("https://a.example/mcp", "https://b.example/token", true),
            ("https://a.example/mcp", "http://b.example/token", false),
            ("https://a.example/mcp", "http://a.example/token", false),
            ("http://a.example/mcp", "http://a.example/token", true),
            ("http://a.example/mcp", "http://b.example/token", false),
            ("http://localhost:1/mcp", "http://127.0.0.1:2/token", true),
        ];
        for (server, endpoint, fine) in cases {
            let (server, endpoint) = (url(server), url(endpoint));
            let objection = Guard::of(&server).objection(&endpoint, &server);
            assert_eq!(objection.is_none(), fine, "{server} {endpoint}: {objection:?}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_inside_leads_nowhere() {
        let resolved = Names(Guard::default()).resolve("localhost".parse().unwrap()).await;
        assert!(resolved.is_err());
        let resolved = Names(Guard { loopback: true, private: false }).resolve("localhost".parse().unwrap()).await;
        assert!(resolved.is_ok());
    }
}
