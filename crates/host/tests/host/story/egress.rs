//! Where requests may go: a refused address is never dialled, whatever names resolve to.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::BoxFuture;
use tokio::net::TcpListener;
use toolrack_host::{
    Host, ServerSpec, State,
    egress::{Egress, EgressRules, Lookup, Profile},
};

use crate::worlds::{settle, world};

/// Counts connections, and hangs up.
struct Door {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
    _task: tokio::task::JoinSet<()>,
}

impl Door {
    async fn on(address: &str) -> Self {
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let opened = Arc::new(AtomicUsize::new(0));
        let mut task = tokio::task::JoinSet::new();
        let count = Arc::clone(&opened);
        task.spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { address, opened, _task: task }
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }
}

/// A name server that changes its answers: each query gets the next one, and later queries the last.
struct Fickle(Mutex<Vec<Vec<IpAddr>>>);

impl Fickle {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(answers.iter().map(parse).collect())))
    }
}

impl Lookup for Fickle {
    fn addresses<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let mut answers = self.0.lock().unwrap();
        let next = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(async move { Ok(next) })
    }
}

fn hosted(door: &Door, allow: &[&str]) -> EgressRules {
    EgressRules {
        profile: Profile::Hosted,
        ports: [door.address.port()].into(),
        allow: allow.iter().map(|text| text.parse().unwrap()).collect(),
        source: "/etc/toolrack.toml".to_owned(),
        ..EgressRules::default()
    }
}

/// A spec whose connection is tried only once.
fn once(mut spec: ServerSpec) -> ServerSpec {
    spec.retry.attempts = 0;
    spec
}

/// The outcome of connecting a server at `url` under `egress`.
async fn outcome(egress: &Egress, spec: ServerSpec) -> String {
    let host = Host::builder().egress(egress.clone()).build();
    settle(&host, world([("web", once(spec))])).await;
    let error = match &host.status()[0].state {
        State::Failed { error } => error.to_string(),
        state => format!("{state:?}"),
    };
    host.shutdown().await;
    error
}

#[tokio::test]
async fn a_hosted_program_dials_only_public_addresses() {
    let door = Door::on("127.0.0.1").await;
    let egress = Egress::new(hosted(&door, &[]), Fickle::new(&[&["127.0.0.1"]]));
    for url in [format!("https://{}/mcp", door.address), format!("https://mcp.example.com:{}/mcp", door.address.port())]
    {
        for spec in [ServerSpec::http(&url), sse(&url)] {
            let error = outcome(&egress, spec).await;
            assert!(error.contains("the egress rules refuse ") && error.contains("this machine"), "{url}: {error}");
            assert!(error.contains("egress profile `hosted`, set in /etc/toolrack.toml"), "{url}: {error}");
        }
    }
    assert_eq!(door.opened(), 0);
}

fn sse(url: &str) -> ServerSpec {
    let ServerSpec { transport: toolrack_host::spec::Transport::Http(http), .. } = ServerSpec::http(url) else {
        unreachable!()
    };
    ServerSpec::new(toolrack_host::spec::Transport::Sse(http))
}

#[tokio::test]
async fn a_name_whose_address_changes_leads_nowhere_else() {
    let (trusted, other) = (Door::on("127.0.0.1").await, Door::on("127.0.0.2").await);
    let mut rules = hosted(&trusted, &["127.0.0.1"]);
    rules.ports.insert(other.address.port());
    let lookup = Fickle::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]]);
    let egress = Egress::new(rules, lookup);
    let at = |door: &Door| ServerSpec::http(format!("https://mcp.example.com:{}/mcp", door.address.port()));
    // It hangs up instead of speaking TLS, because the test only counts connections.
    let error = outcome(&egress, at(&trusted)).await;
    assert!(trusted.opened() > 0 && !error.contains("the egress rules refuse "), "{error}");
    let error = outcome(&egress, at(&other)).await;
    assert!(error.contains("the name leads to 127.0.0.2"), "{error}");
    let before = trusted.opened();
    let _ = outcome(&egress, at(&trusted)).await;
    assert!(trusted.opened() > before, "the one that is trusted is dialled");
    assert_eq!(other.opened(), 0);
}

#[tokio::test]
async fn rules_that_change_hold_for_the_next_connection() {
    let door = Door::on("127.0.0.1").await;
    let egress = Egress::new(EgressRules::default(), Fickle::new(&[&["127.0.0.1"]]));
    let spec = ServerSpec::http(format!("https://mcp.example.com:{}/mcp", door.address.port()));
    let _ = outcome(&egress, spec.clone()).await;
    let before = door.opened();
    assert!(before > 0, "a person may configure what is on this machine");
    egress.set(hosted(&door, &[]));
    let error = outcome(&egress, spec).await;
    assert!(error.contains("the egress rules refuse "), "{error}");
    assert_eq!(door.opened(), before);
}

#[tokio::test]
async fn addresses_that_a_server_names_are_dialled_only_if_egress_allows_them() {
    let door = Door::on("127.0.0.1").await;
    let egress = Egress::new(EgressRules::default(), Fickle::new(&[&["127.0.0.1"]]));
    let server = |url: &str| egress.guard_for_server(&url::Url::parse(url).unwrap());
    let named = format!("http://login.example.com:{}/.well-known/oauth-authorization-server", door.address.port());
    let ask = async |guard: toolrack_host::egress::Guard| {
        guard
            .client(reqwest::Client::builder())
            .unwrap()
            .get(&named)
            .timeout(std::time::Duration::from_secs(1))
            .send()
            .await
    };
    assert!(ask(server("https://mcp.example.com/mcp")).await.is_err());
    assert_eq!(door.opened(), 0);
    assert!(ask(server("http://localhost:1/mcp")).await.is_err(), "it hangs up");
    assert_eq!(door.opened(), 1);
}

/// A loopback of IPv6.
mod needs_ipv6 {
    use super::*;

    /// This machine, in every IPv6 form of an IPv4 address: mapped, NAT64 and 6to4.
    const FORMS: &[&str] = &["::1", "::ffff:127.0.0.1", "::ffff:7f00:1", "64:ff9b::127.0.0.1", "2002:7f00:1::"];

    #[tokio::test]
    async fn ipv6_is_dialled_where_it_may_be_and_nowhere_else() {
        let (v4, v6) = (Door::on("127.0.0.1").await, Door::on("::1").await);
        let mut rules = hosted(&v4, &[]);
        rules.ports.insert(v6.address.port());
        for form in FORMS {
            for port in [v4.address.port(), v6.address.port()] {
                let egress = Egress::new(rules.clone(), Fickle::new(&[&[form]]));
                for host in [format!("[{form}]"), "mcp.example.com".to_owned()] {
                    let error = outcome(&egress, ServerSpec::http(format!("https://{host}:{port}/mcp"))).await;
                    assert!(
                        error.contains("the egress rules refuse ") && error.contains("this machine"),
                        "{form}: {error}"
                    );
                }
            }
        }
        assert_eq!((v4.opened(), v6.opened()), (0, 0));

        let local = |answer: &'static str| Egress::new(EgressRules::default(), Fickle::new(&[&[answer]]));
        let mut dialled = (0, 0);
        for (door, form) in [(&v6, "::1"), (&v4, "::ffff:127.0.0.1")] {
            for host in [format!("[{form}]"), "mcp.example.com".to_owned()] {
                let at = format!("http://{host}:{}/mcp", door.address.port());
                let error = outcome(&local(form), ServerSpec::http(&at)).await;
                let now = (v4.opened(), v6.opened());
                assert!(now != dialled && !error.contains("the egress rules refuse "), "{at}: {error}");
                dialled = now;
            }
        }
        assert!(dialled.0 >= 2 && dialled.1 >= 2, "{dialled:?}");
    }

    #[tokio::test]
    async fn a_name_that_leads_to_an_address_that_is_trusted_and_to_another_is_dialled_at_the_first_alone() {
        let v6 = Door::on("::1").await;
        let v4 = TcpListener::bind(("127.0.0.1", v6.address.port())).await;
        // If another program happens to listen there, the test works as well: the host must not connect to it.
        let mut rules = hosted(&v6, &["::1"]);
        rules.ports.insert(v6.address.port());
        let lookup = Fickle::new(&[&["::ffff:127.0.0.1", "127.0.0.1", "::1"], &["::ffff:127.0.0.1"]]);
        let egress = Egress::new(rules, lookup);
        let spec = ServerSpec::http(format!("https://mcp.example.com:{}/mcp", v6.address.port()));
        let error = outcome(&egress, spec.clone()).await;
        assert!(v6.opened() > 0 && !error.contains("the egress rules refuse "), "{error}");
        let before = v6.opened();
        let error = outcome(&egress, spec).await;
        assert!(error.contains("the egress rules refuse "), "the name has changed its mind: {error}");
        assert_eq!(v6.opened(), before);
        if let Ok(v4) = v4 {
            let connection = futures::FutureExt::now_or_never(v4.accept());
            assert!(connection.is_none(), "{connection:?}");
        }
    }
}
