//! Toolrack as this benchmark uses it: through the whole host, with its gate, its bounds and its supervisor.

use serde_json::{Map, Value, json};
use toolrack_host::{Call, Desired, Host, ServerName, ServerSpec, State};

use crate::Trouble;

/// A host without servers, whose supervisors are the program that is built with the command line.
///
/// # Errors
/// When the system does not report the path of this program.
pub fn host() -> Result<Host, Trouble> {
    Ok(Host::builder().supervisor(std::env::current_exe()?.with_file_name("toolrack-supervisor")).build())
}

/// The world in which servers `s0`, `s1`, … are like these.
///
/// # Errors
/// Never: the names are fine.
pub fn world(specs: impl IntoIterator<Item = ServerSpec>) -> Result<Desired, Trouble> {
    specs.into_iter().enumerate().map(|(index, spec)| Ok((ServerName::new(format!("s{index}"))?, spec))).collect()
}

/// Waits until all servers of the host are connected.
///
/// # Errors
/// When one is not.
pub async fn settled(host: &Host) -> Result<(), Trouble> {
    host.settled().await;
    for server in host.status() {
        if !matches!(server.state, State::Connected { .. }) {
            return Err(format!("{} is {}: {:?}", server.name, server.state.word(), server.state.error()).into());
        }
    }
    Ok(())
}

/// A host with `count` servers like this, all of them connected.
///
/// # Errors
/// When one is not.
pub async fn hosting(spec: ServerSpec, count: usize) -> Result<Host, Trouble> {
    let host = host()?;
    host.apply(world(std::iter::repeat_n(spec, count))?).await;
    settled(&host).await?;
    Ok(host)
}

/// `value`, which is an object.
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
pub async fn echo(host: &Host, selector: &str) -> Result<(), Trouble> {
    let outcome = host.call(Call::from_map(selector, arguments(json!({ "text": "hello" })))).await?;
    if outcome.text == "hello" { Ok(()) } else { Err(format!("it said {}", outcome.text).into()) }
}
