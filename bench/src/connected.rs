//! Toolrack as this benchmark uses it: through the whole host, with the gate that judges each call, the bounds of time
//! and size, and the supervisor process beside each stdio server.

use serde_json::{Map, Value, json};
use toolrack_host::{Call, Desired, Host, ServerName, ServerSpec, State};

use crate::AnyError;

/// Returns a host without servers, which uses the supervisor that is built with the command line.
///
/// # Errors
/// When the system does not report the path of this program.
pub fn host() -> Result<Host, AnyError> {
    Ok(Host::builder().supervisor(std::env::current_exe()?.with_file_name("toolrack-supervisor")).build())
}

/// Returns servers with these specs, called `s0`, `s1`, …, for [`Host::apply`].
///
/// # Errors
/// Never: the names are valid.
pub fn desired_servers(specs: impl IntoIterator<Item = ServerSpec>) -> Result<Desired, AnyError> {
    specs.into_iter().enumerate().map(|(index, spec)| Ok((ServerName::new(format!("s{index}"))?, spec))).collect()
}

/// Waits until all servers of the host are connected or have failed.
///
/// # Errors
/// When a server is not connected.
pub async fn wait_until_connected(host: &Host) -> Result<(), AnyError> {
    host.settled().await;
    for server in host.status() {
        if !matches!(server.state, State::Connected { .. }) {
            return Err(format!("{} is {}: {:?}", server.name, server.state.word(), server.state.error()).into());
        }
    }
    Ok(())
}

/// Returns a host with `count` servers like this, all of them connected.
///
/// # Errors
/// When a server cannot be connected.
pub async fn connected_host(spec: ServerSpec, count: usize) -> Result<Host, AnyError> {
    let host = host()?;
    host.apply(desired_servers(std::iter::repeat_n(spec, count))?).await;
    wait_until_connected(&host).await?;
    Ok(host)
}

/// Returns the members of `value`, which must be an object.
#[must_use]
pub fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    }
}

/// Calls the tool that echoes its arguments.
///
/// # Errors
/// When the call fails.
pub async fn echo(host: &Host, selector: &str) -> Result<(), AnyError> {
    let outcome = host.call(Call::from_map(selector, arguments(json!({ "text": "hello" })))).await?;
    if outcome.text == "hello" { Ok(()) } else { Err(format!("the tool returned {}", outcome.text).into()) }
}
