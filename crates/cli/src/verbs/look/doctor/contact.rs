//! Finds out why an endpoint cannot be reached: its name may have no address, or its port may not answer.

use std::time::{Duration, Instant};

use tokio::net::{TcpStream, lookup_host};
use toolrack_host::{
    ServerName, ServerSpec,
    egress::Profile,
    spec::{Http, Transport},
};
use url::Url;

use super::render::Check;
use crate::{
    context::Context,
    error::{Exit, in_words},
};

/// How long each step may take.
const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Looks the name up and opens a connection, as the host did for the server. Sends nothing.
///
/// Returns no checks for a server without a URL. Returns none either if connections go through a proxy, or if the
/// egress profile (which limits the addresses that this program may contact) is `hosted`. A direct connection of this
/// machine would then prove nothing.
pub(super) async fn checks(name: &ServerName, spec: &ServerSpec, context: &Context) -> Vec<Check> {
    let (Transport::Http(http) | Transport::Sse(http)) = &spec.transport else {
        return Vec::new();
    };
    match endpoint(name, http, context).await {
        Some((host, port)) if !context.has_proxy() && context.egress().rules().profile == Profile::Local => {
            check_name_and_port(name.as_str(), &host, port).await
        }
        _ => Vec::new(),
    }
}

async fn endpoint(name: &ServerName, http: &Http, context: &Context) -> Option<(String, u16)> {
    let url = Url::parse(&context.resolver().url(name, http).await.ok()?).ok()?;
    Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
}

async fn check_name_and_port(name: &str, host: &str, port: u16) -> Vec<Check> {
    let without_brackets = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = match tokio::time::timeout(STEP_TIMEOUT, lookup_host((without_brackets, port))).await {
        Ok(Ok(addresses)) => addresses.collect::<Vec<_>>(),
        Ok(Err(_)) => Vec::new(),
        Err(_) => {
            let message = format!("no address of {host} was found within {} s", STEP_TIMEOUT.as_secs());
            return vec![Check::bad("dns", name, message, Exit::Unreachable).hint("check the network")];
        }
    };
    let Some(first_address) = addresses.first() else {
        let message = format!("{host} has no address");
        return vec![Check::bad("dns", name, message, Exit::Unreachable).hint("check the name, and the network")];
    };
    let mut checks = vec![Check::good("dns", name, format!("{host} is {}", first_address.ip()))];
    let start = Instant::now();
    checks.push(match tokio::time::timeout(STEP_TIMEOUT, TcpStream::connect(&addresses[..])).await {
        Ok(Ok(_)) => {
            let elapsed_ms = start.elapsed().as_millis();
            Check::good("tcp", name, format!("port {port} answers in {elapsed_ms} ms: the problem is TLS or HTTP"))
        }
        Ok(Err(error)) => {
            let message = format!("port {port} of {host}: {}", in_words(&error));
            Check::bad("tcp", name, message, Exit::Unreachable).hint("is the server running, and is the port right?")
        }
        Err(_) => {
            let message = format!("port {port} of {host} does not answer within {} s", STEP_TIMEOUT.as_secs());
            Check::bad("tcp", name, message, Exit::Unreachable).hint("a firewall may drop what is sent there")
        }
    });
    checks
}
