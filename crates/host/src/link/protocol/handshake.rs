//! Detects the era of the server (`legacy`: MCP 2025-11-25 and older, `modern`: 2026-07-28), once per connection. The
//! host remembers the era for the next connection.
//!
//! On a stream, the host sends `server/discover` first and, after two seconds of silence, `initialize` as well. The
//! first answer decides, so that a server that starts slowly is neither restarted nor misjudged. Over HTTP,
//! `initialize` follows after three seconds, or as soon as an answer arrives that is not of the modern era.

use std::{pin::pin, time::Duration};

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    ask::Abilities,
    link::{
        channel::{Channel, LinkTransport, NewRequest},
        error::{LinkError, RpcError},
        inbound::input,
        message::{RawAnswer, no_params},
    },
    mcp::{
        Capabilities, ServerInfo,
        codes::{
            HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CAPABILITY, UNSUPPORTED_VERSION,
        },
    },
    spec::{Era, Protocol},
    text::quote,
};

/// The MCP version of the modern era.
pub(crate) const MODERN: &str = "2026-07-28";
/// The newest MCP version of the legacy era, for which the host asks.
const LEGACY: &str = "2025-11-25";
/// All MCP versions of the legacy era, with which the host can work.
const LEGACY_VERSIONS: [&str; 4] = [LEGACY, "2025-06-18", "2025-03-26", "2024-11-05"];

/// How long the host waits on a stream for the answer to `server/discover` before it sends `initialize` as well.
const INITIALIZE_AFTER: Duration = Duration::from_secs(2);

/// The errors with which servers of the modern era answer `initialize`: invalid request, unknown method, invalid
/// parameters, or a header or a version that they refuse.
const INITIALIZE_REFUSALS: [i64; 5] =
    [INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION];

/// The host's name and version for servers (MCP `clientInfo`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientInfo {
    pub(crate) name: String,
    pub(crate) version: String,
}

impl ClientInfo {
    /// Returns MCP's `clientInfo`.
    fn json(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }
}

/// The result of the handshake.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) era: Era,
    pub(crate) version: String,
    pub(crate) info: Option<ServerInfo>,
    pub(crate) capabilities: Capabilities,
    pub(crate) instructions: Option<String>,
}

/// The settings of a handshake.
#[derive(Debug)]
pub(crate) struct HandshakeSettings<'a> {
    pub(crate) client: &'a ClientInfo,
    pub(crate) abilities: Abilities,
    pub(crate) protocol: Protocol,
    /// The era to try first.
    pub(crate) first_era: Era,
}

/// Returns the members of `_meta` that every request of the modern era has, without braces.
pub(crate) fn modern_meta(client: &ClientInfo, abilities: Abilities) -> String {
    format!(
        r#""io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{},"io.modelcontextprotocol/clientCapabilities":{}"#,
        client.json(),
        input::capabilities(abilities, Era::Modern),
    )
}

/// Detects the era and performs the handshake. The caller sets the time-out.
pub(crate) async fn shake_hands(channel: &Channel, settings: &HandshakeSettings<'_>) -> Result<Session, LinkError> {
    let handshake = Handshake { channel, settings };
    let session = match settings.protocol {
        Protocol::Legacy => handshake.initialize().await?,
        Protocol::Modern => handshake.discover().await?.into_session()?,
        Protocol::Auto => handshake.detect_era().await?,
    };
    // This cannot fail: the era is set only here, and a channel does one handshake.
    let _ = channel.inbound.era.set(session.era);
    handshake.finish(&session).await?;
    Ok(session)
}

/// The meaning of the answer to `server/discover`, the probe for the modern era.
enum Probe {
    Modern(Box<Session>),
    /// The server may be of the legacy era. The error is its answer to the probe.
    Legacy(LinkError),
}

impl Probe {
    fn into_session(self) -> Result<Session, LinkError> {
        match self {
            Self::Modern(session) => Ok(*session),
            Self::Legacy(error) => Err(error),
        }
    }
}

/// A handshake over a channel.
struct Handshake<'a> {
    channel: &'a Channel,
    settings: &'a HandshakeSettings<'a>,
}

impl Handshake<'_> {
    /// Begins with the era in the settings, and tries the other era if the server refuses the first.
    async fn detect_era(&self) -> Result<Session, LinkError> {
        if self.settings.first_era == Era::Legacy {
            return match self.initialize().await {
                Err(error) if may_be_modern(&self.channel.transport, &error) => self.discover().await?.into_session(),
                answer => answer,
            };
        }
        let mut discover = pin!(self.discover());
        let probe_outcome = match &self.channel.transport {
            LinkTransport::Duplex(_) => timeout(INITIALIZE_AFTER, &mut discover).await,
            LinkTransport::Http(http) => timeout(http.probe_timeout(), &mut discover).await,
            // A recording answers at once.
            LinkTransport::Recorded(_) => Ok(discover.as_mut().await),
        };
        if let Ok(probe) = probe_outcome {
            return self.after_probe(probe?).await;
        }
        let mut initialize = pin!(self.initialize());
        tokio::select! {
            probe = &mut discover => match probe? {
                Probe::Modern(session) => Ok(*session),
                Probe::Legacy(error) => outcome_after_probe(error, initialize.await),
            },
            session = &mut initialize => match session {
                // A modern server refuses `initialize`; its late answer to the probe decides.
                Err(error) if may_be_modern(&self.channel.transport, &error) => discover.await?.into_session(),
                session => session,
            },
        }
    }

    /// Continues after the answer to the probe.
    async fn after_probe(&self, probe: Probe) -> Result<Session, LinkError> {
        match probe {
            Probe::Modern(session) => Ok(*session),
            Probe::Legacy(error) => outcome_after_probe(error, self.initialize().await),
        }
    }

    /// Sends `server/discover`. If the server refuses the version, its refusal lists others, from which a client
    /// chooses. The host knows only one version of the modern era. If the list contains that version, the host sends
    /// the same request once more.
    async fn discover(&self) -> Result<Probe, LinkError> {
        if let LinkTransport::Http(http) = &self.channel.transport {
            http.set_protocol(Era::Modern, Some(MODERN));
        }
        let meta = modern_meta(self.settings.client, self.settings.abilities);
        let send = || {
            let request = NewRequest::new("server/discover", no_params()).with_meta(&meta);
            self.channel.request(NewRequest { cancellable: false, ..request })
        };
        let mut answer = send().await;
        if let Err(LinkError::Rpc(error)) = &answer
            && error.code == UNSUPPORTED_VERSION
            && supported_versions(error).contains(&MODERN)
        {
            answer = send().await;
        }
        classify_probe(answer)
    }

    /// Sends `initialize`, and takes the version that the server chooses.
    async fn initialize(&self) -> Result<Session, LinkError> {
        if let LinkTransport::Http(http) = &self.channel.transport {
            // The server chooses the version.
            http.set_protocol(Era::Legacy, None);
        }
        let params = json!({
            "protocolVersion": LEGACY,
            "capabilities": input::capabilities(self.settings.abilities, Era::Legacy),
            "clientInfo": self.settings.client.json(),
        });
        let request = NewRequest { cancellable: false, ..NewRequest::new("initialize", params) };
        let answer = self.channel.request(request).await?;
        let answer: Value = serde_json::from_slice(&answer)
            .map_err(|error| LinkError::unparsable(format!("the answer to initialize: {error}")))?;
        let Some(version) = answer["protocolVersion"].as_str() else {
            return Err(LinkError::protocol("its answer to initialize names no protocolVersion"));
        };
        let era = match version {
            MODERN => Era::Modern,
            known if LEGACY_VERSIONS.contains(&known) => Era::Legacy,
            other => {
                return Err(LinkError::UnsupportedVersion { version: quote(other) });
            }
        };
        Ok(session_from_answer(era, version, &answer))
    }

    /// Does the last step: sets the era and version for later HTTP requests, and notifies a legacy server that the
    /// handshake is complete.
    async fn finish(&self, session: &Session) -> Result<(), LinkError> {
        if let LinkTransport::Http(http) = &self.channel.transport {
            http.set_protocol(session.era, Some(&session.version));
        }
        if session.era == Era::Legacy {
            self.channel.notify("notifications/initialized").await?;
        }
        Ok(())
    }
}

/// Returns whether a server that answers `initialize` with this error may be of the modern era, which lacks the method.
/// Any JSON-RPC error may mean that. A status that means failure may mean that only over Streamable HTTP, because the
/// modern era has no other HTTP transport. Any other error is no answer to the request.
fn may_be_modern(transport: &LinkTransport, error: &LinkError) -> bool {
    match error {
        LinkError::Rpc(_) => true,
        LinkError::Http { .. } => matches!(transport, LinkTransport::Http(_)),
        _ => false,
    }
}

/// Returns the outcome of the handshake after the probe failed with `probe_error`. If the server refuses `initialize`
/// as well, it is of the modern era; the outcome is then the more informative of the two errors.
fn outcome_after_probe(
    probe_error: LinkError,
    initialize_outcome: Result<Session, LinkError>,
) -> Result<Session, LinkError> {
    let refuses_initialize = |error: &LinkError| match error {
        LinkError::Rpc(error) => INITIALIZE_REFUSALS.contains(&error.code),
        LinkError::Http { status, .. } => matches!(status, 400..=499),
        _ => false,
    };
    // The error of the probe says more if it is not a JSON-RPC error. Of two JSON-RPC errors, the probe's says more if
    // only `initialize` was an unknown method.
    let probe_says_more = |error: &LinkError| match (&probe_error, error) {
        (LinkError::Rpc(probe_error), LinkError::Rpc(error)) => {
            error.code == METHOD_NOT_FOUND && probe_error.code != METHOD_NOT_FOUND
        }
        (LinkError::Rpc(_), _) => false,
        _ => true,
    };
    match initialize_outcome {
        Err(error) if refuses_initialize(&error) && probe_says_more(&error) => Err(probe_error),
        outcome => outcome,
    }
}

/// Classifies the answer to `server/discover`: modern, legacy, or a failure that is neither.
///
/// The server may be of the legacy era if it answered in a way that the modern era does not allow:
/// - with a JSON-RPC error, except for those below that only the modern era has;
/// - with a result or bytes that are no answer to the probe;
/// - with a status that means failure, or by breaking off the one request.
///
/// Failures that say nothing about the era, such as a process that ended or a sign-in that is required, are returned as
/// they are.
fn classify_probe(answer: RawAnswer) -> Result<Probe, LinkError> {
    match answer {
        Ok(result) => {
            let result: Value = serde_json::from_slice(&result).unwrap_or(Value::Null);
            let Some(versions) = result["supportedVersions"].as_array() else {
                return Ok(Probe::Legacy(LinkError::protocol("server/discover was not understood")));
            };
            if versions.iter().any(|version| version == MODERN) {
                return Ok(Probe::Modern(Box::new(session_from_answer(Era::Modern, MODERN, &result))));
            }
            Ok(Probe::Legacy(LinkError::UnsupportedVersion {
                version: quote(&Value::from(versions.clone()).to_string()),
            }))
        }
        Err(LinkError::Rpc(error)) => match error.code {
            // Only the modern era has these codes.
            HEADER_MISMATCH | MISSING_CAPABILITY => Err(LinkError::Rpc(error)),
            // The server supports no version of the legacy era, so `initialize` would be refused as well.
            UNSUPPORTED_VERSION if !supported_versions(&error).iter().any(|known| LEGACY_VERSIONS.contains(known)) => {
                Err(LinkError::UnsupportedVersion { version: quote(&supported_versions(&error).join(", ")) })
            }
            _ => Ok(Probe::Legacy(LinkError::Rpc(error))),
        },
        Err(
            error @ (LinkError::Unparsable { .. }
            | LinkError::InvalidEvent { .. }
            | LinkError::TooLarge { .. }
            | LinkError::Protocol { .. }
            | LinkError::Broken { .. }
            | LinkError::SessionNotFound { .. }
            | LinkError::Http { .. }),
        ) => Ok(Probe::Legacy(error)),
        Err(error) => Err(error),
    }
}

/// Returns the versions that a server supports, according to its refusal of another version.
fn supported_versions(error: &RpcError) -> Vec<&str> {
    error
        .data
        .as_ref()
        .and_then(|data| data["supported"].as_array())
        .map(|versions| versions.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Creates the session from the answer to `server/discover` or `initialize`.
fn session_from_answer(era: Era, version: &str, answer: &Value) -> Session {
    let info = [&answer["serverInfo"], &answer["_meta"]["io.modelcontextprotocol/serverInfo"]];
    Session {
        era,
        version: version.to_owned(),
        info: info.into_iter().find_map(|info| serde_json::from_value(info.clone()).ok()),
        capabilities: parse_capabilities(&answer["capabilities"]),
        instructions: answer["instructions"].as_str().map(ToOwned::to_owned),
    }
}

/// Returns the capabilities that the server declares. If they cannot be parsed, only tools count as declared, so that
/// the host still lists them.
fn parse_capabilities(json: &Value) -> Capabilities {
    let capabilities = json.is_object().then(|| serde_json::from_value(json.clone()).ok()).flatten();
    capabilities.unwrap_or_else(|| Capabilities { tools: Some(json!({})), ..Capabilities::default() })
}

/// Returns whether a child process may have ended because of the era probe. If so, the caller should start it once
/// more, and begin with `initialize`.
pub(crate) fn ended_by_probe(error: &LinkError, protocol: Protocol, first_era: Era) -> bool {
    protocol == Protocol::Auto
        && first_era == Era::Modern
        && matches!(error, LinkError::Exited { .. } | LinkError::Closed { .. })
}

/// Chooses the error to report for a server that ended because of the probe, and failed again after a second start.
pub(crate) fn more_informative(probe_error: LinkError, initialize_error: LinkError) -> LinkError {
    match initialize_error {
        // The server ends after any message, so the second error explains no more than the first.
        LinkError::Exited { .. } | LinkError::Closed { .. } => probe_error,
        other => other,
    }
}
