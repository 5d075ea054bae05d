use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Mutex,
};

use futures::future::BoxFuture;
use proptest::prelude::*;

use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

fn egress(profile: Profile, allow: &[&str]) -> Egress {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    Egress::new(EgressRules { profile, allow, ..EgressRules::default() }, Arc::new(SystemLookup))
}

/// Addresses that must stay unreachable from outside, in every spelling that a URL knows.
const INSIDE: &[&str] = &[
    "127.0.0.1",
    "127.255.255.254",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "localhost",
    "LOCALHOST.",
    "a.localhost",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.0.1",
    "169.254.170.2",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "0.0.0.0",
    "0.1.2.3",
    "192.0.0.1",
    "192.0.0.192",
    "192.0.2.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "198.18.0.1",
    "198.19.255.255",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[fc00::1]",
    "[fd00::1]",
    "[fd00:ec2::254]",
    "[fd20:ce::254]",
    "[ff02::1]",
    "[2001:db8::1]",
    "[3fff::1]",
    "[2001:0:1::]",
    "[100::1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b:1::1]",
    "[2002:7f00:1::]",
    "[2002:a00:1::1]",
];

const OUTSIDE: &[&str] = &[
    "mcp.example.com",
    "8.8.8.8",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "[2606:4700::1]",
    "[::ffff:8.8.8.8]",
    "[64:ff9b::8.8.8.8]",
];

#[test]
fn hosted_lets_out_nothing_but_https_to_public_addresses() {
    let guard = egress(Profile::Hosted, &[]).guard_for_configured();
    for inside in INSIDE {
        let refused = guard.check(&url(&format!("https://{inside}/mcp"))).expect_err(inside);
        assert!(refused.to_string().contains("egress profile `hosted`"), "{refused}");
    }
    for outside in OUTSIDE {
        assert_eq!(guard.check(&url(&format!("https://{outside}/mcp"))), Ok(()), "{outside}");
        let clear = guard.check(&url(&format!("http://{outside}/mcp"))).expect_err(outside);
        assert!(clear.to_string().contains("it is not https"), "{clear}");
        let port = guard.check(&url(&format!("https://{outside}:8443/mcp"))).expect_err(outside);
        assert!(port.to_string().contains("port 8443"), "{port}");
    }
    for other in ["file:///etc/passwd", "javascript:alert(1)", "ftp://example.com/", "data:,x"] {
        assert!(guard.check(&url(other)).is_err(), "{other}");
    }
}

#[test]
fn configured_addresses_may_be_anywhere_and_addresses_that_a_server_names_may_not() {
    let egress = egress(Profile::Local, &[]);
    let mismatched = egress.guard_for_server(&url("https://mcp.example.com/mcp"));
    for inside in INSIDE {
        let there = url(&format!("http://{inside}/"));
        assert_eq!(egress.guard_for_configured().check(&there), Ok(()), "{inside}");
        assert!(mismatched.check(&there).is_err(), "{inside}");
    }
    for outside in OUTSIDE {
        assert_eq!(mismatched.check(&url(&format!("https://{outside}:8443/"))), Ok(()), "{outside}");
    }
}

#[test]
fn an_address_in_the_network_of_the_server_is_allowed() {
    let egress = egress(Profile::Local, &[]);
    let here = egress.guard_for_server(&url("http://127.0.0.1:9000/mcp"));
    assert!(here.check(&url("http://localhost:9001/")).is_ok() && here.check(&url("http://[::1]/")).is_ok());
    assert!(here.check(&url("http://10.0.0.1/")).is_err() && here.check(&url("http://169.254.169.254/")).is_err());
    let near = egress.guard_for_server(&url("https://192.168.1.5/mcp"));
    assert!(near.check(&url("https://10.1.1.1/")).is_ok() && near.check(&url("https://127.0.0.1/")).is_err());
    let hosted = Egress::default();
    hosted.set(EgressRules::strictest(""));
    let here = hosted.guard_for_server(&url("http://127.0.0.1:9000/mcp"));
    assert!(here.check(&url("http://localhost:9001/")).is_err(), "a hosted program has no local addresses");
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
        let checked = Egress::default().guard_for_server(&server).check_secret_destination(&endpoint, &server);
        assert_eq!(checked.is_ok(), fine, "{server} {endpoint}: {checked:?}");
    }
}

#[test]
fn only_hosts_that_an_operator_trusts_are_reachable_in_addition() {
    let guard = egress(Profile::Hosted, &["10.1.0.0/16", "Internal.Example", "*.svc.example", "fd00::/8"])
        .guard_for_configured();
    for trusted in [
        "http://10.1.2.3:8080/",
        "https://[::ffff:10.1.2.3]/",
        "http://internal.example:81/",
        "http://INTERNAL.example./",
        "http://a.b.svc.example/",
        "https://[fd12::1]/",
    ] {
        assert_eq!(guard.check(&url(trusted)), Ok(()), "{trusted}");
    }
    for other in [
        "https://10.2.0.1/",
        "http://x.internal.example/",
        "http://svc.example/",
        "http://evilsvc.example/",
        "http://internal.example.evil/",
    ] {
        assert!(guard.check(&url(other)).is_err(), "{other}");
    }
    for bad in ["", "*", "*.*.x", "10.0.0.0/33", "https://x", "a b", "x/24", "x:80"] {
        assert_eq!(bad.parse::<Allowed>(), Err(BadAllowed), "{bad}");
    }
}

#[test]
fn a_refused_address_is_named_with_profile_origin_and_next_step() {
    let rules = EgressRules::strictest("/etc/toolrack.toml");
    let guard = Egress::new(rules, Arc::new(SystemLookup)).guard_for_configured();
    let refused = guard.check(&url("https://token@169.254.169.254/secret?key=1")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the egress rules refuse https://169.254.169.254: that is where clouds keep credentials (egress profile `hosted`, set in \
         /etc/toolrack.toml)"
    );
    assert_eq!(
        refused.hint(),
        "if you trust this destination, add its host or network to `egress.allow` in /etc/toolrack.toml"
    );
    let refused = guard.check(&url("https://x.example:8443/")).unwrap_err();
    assert_eq!(refused.hint(), "to allow this port, add 8443 to `egress.ports` in /etc/toolrack.toml");
}

/// Gives one of its answers after the other, and then repeats the last.
struct Answers(Mutex<Vec<Vec<IpAddr>>>);

impl Lookup for Answers {
    fn addresses<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(next) })
    }
}

async fn resolved(guard: &Guard) -> Result<Vec<IpAddr>, String> {
    let found = guard.lookup().addresses("name.example").await.map_err(|error| error.to_string())?;
    guard.allowed_addresses("name.example", found).map_err(|refused| refused.to_string())
}

#[tokio::test]
async fn of_a_names_addresses_only_those_are_dialled_that_are_allowed() {
    let public: IpAddr = "8.8.8.8".parse().unwrap();
    let answers: Vec<Vec<IpAddr>> =
        [&["8.8.8.8"][..], &["127.0.0.1"], &["10.0.0.1", "8.8.8.8", "::1"], &["::ffff:10.0.0.1"]]
            .iter()
            .map(|answer| answer.iter().map(|address| address.parse().unwrap()).collect())
            .collect();
    let rules = EgressRules { profile: Profile::Hosted, ..EgressRules::default() };
    let guard = Egress::new(rules, Arc::new(Answers(Mutex::new(answers)))).guard_for_configured();
    assert_eq!(resolved(&guard).await, Ok(vec![public]));
    let refused = resolved(&guard).await.unwrap_err();
    assert!(refused.contains("the name leads to 127.0.0.1, which is this machine"), "{refused}");
    assert_eq!(resolved(&guard).await, Ok(vec![public]));
    assert!(resolved(&guard).await.is_err());
}

#[tokio::test]
async fn no_name_leads_to_the_credentials_of_a_cloud() {
    let lookup = || Arc::new(Answers(Mutex::new(vec![vec!["169.254.169.254".parse().unwrap()]])));
    for (profile, allow, fine) in [
        (Profile::Local, None, false),
        (Profile::Hosted, Some("name.example"), false),
        (Profile::Hosted, Some("169.254.169.254"), true),
    ] {
        let allow = allow.map(|text| text.parse().unwrap()).into_iter().collect();
        let rules = EgressRules { profile, allow, ..EgressRules::default() };
        let guard = Egress::new(rules, lookup()).guard_for_configured();
        assert_eq!(resolved(&guard).await.is_ok(), fine, "{profile}");
    }
}

#[tokio::test]
async fn names_as_the_system_knows_them_lead_inside_only_for_servers_that_are_there() {
    let localhost = |guard: Guard| async move {
        let found = guard.lookup().addresses("localhost").await.unwrap();
        guard.allowed_addresses("localhost", found).is_ok()
    };
    let egress = Egress::default();
    assert!(!localhost(egress.guard_for_server(&url("https://mcp.example.com/"))).await);
    assert!(localhost(egress.guard_for_server(&url("http://127.0.0.1/"))).await);
    assert!(localhost(egress.guard_for_configured()).await);
}

#[tokio::test]
async fn the_name_of_the_operators_proxy_leads_where_it_likes() {
    let lookup = Arc::new(Answers(Mutex::new(vec![vec!["10.0.0.1".parse().unwrap()]])));
    let proxy = "http://name.example:3128".parse().unwrap();
    let rules = EgressRules { profile: Profile::Hosted, proxy, ..EgressRules::default() };
    assert!(resolved(&Egress::new(rules, lookup).guard_for_configured()).await.is_ok());
}

#[tokio::test]
async fn the_name_of_the_environments_proxy_leads_where_it_likes_and_no_server_names_it() {
    for proxy in ["http://name.example:3128", "HTTP://me:word@Name.Example:3128/", "name.example:3128", "name.example"]
    {
        let resolves = |profile| {
            let lookup = Arc::new(Answers(Mutex::new(vec![vec!["10.0.0.1".parse().unwrap()]])));
            let rules = EgressRules { profile, ..EgressRules::default() };
            let egress = Egress::new(rules, lookup).with_proxies_of_environment(["", "http://", proxy]);
            let server = egress.guard_for_server(&url("https://mcp.example.com/"));
            async move { (resolved(&server).await.is_ok(), server.check(&url("http://name.example/admin")).is_err()) }
        };
        assert_eq!(resolves(Profile::Local).await, (true, true), "{proxy}");
        // Under this profile, requests do not go through a proxy of the environment, so its name is not exempt.
        assert_eq!(resolves(Profile::Hosted).await, (false, true), "{proxy}");
    }
    let other = Egress::default().with_proxies_of_environment(["http://proxy.example"]);
    assert!(other.guard_for_server(&url("https://mcp.example.com/")).check(&url("https://name.example/")).is_ok());
}

proptest! {
    /// However an IPv4 address is wrapped, it is judged as the address inside.
    #[test]
    fn a_wrapped_address_is_judged_as_the_one_inside(bits in any::<u32>()) {
        let inner = Ipv4Addr::from(bits);
        let [a, b, c, d] = inner.octets().map(u16::from);
        let (high, low) = (a << 8 | b, c << 8 | d);
        let wrapped = [
            inner.to_ipv6_mapped(),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        ];
        for address in wrapped {
            prop_assert_eq!(special::kind(address.into()), special::kind(inner.into()), "{}", address);
        }
    }

    /// The standard library is a second opinion: an address that it calls special is never public.
    #[test]
    fn addresses_that_the_standard_library_calls_special_are_not_public(bits in any::<u32>(), wide in any::<u128>()) {
        let v4 = Ipv4Addr::from(bits);
        let is_special = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        prop_assert!(!is_special || special::kind(v4.into()) != Kind::Public, "{}", v4);
        let v6 = Ipv6Addr::from(wide);
        let is_special = v6.is_loopback() || v6.is_multicast() || v6.is_unspecified() || v6.is_unique_local()
            || v6.is_unicast_link_local();
        prop_assert!(!is_special || special::kind(v6.into()) != Kind::Public, "{}", v6);
    }
}

#[test]
fn an_address_without_an_origin_is_not_called_null() {
    let egress = Egress::default();
    let guard = egress.guard_for_server(&Url::parse("https://mcp.example.com/mcp").unwrap());
    let refused = guard.check(&Url::parse("file:///etc/passwd").unwrap()).unwrap_err().to_string();
    assert!(
        refused.starts_with("the egress rules refuse an address of the scheme `file`: it is neither http nor https"),
        "{refused}"
    );
}
