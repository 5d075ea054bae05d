//! Shows the servers of a world (a host with its configuration), and starts, stops and tests them.

use std::collections::BTreeMap;

use axum::{
    Extension, Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolrack_config::{Entry, Loaded, edit::EditTarget};
use toolrack_host::{Caller, FailureText, Principal, ServerStatus, State as HostState};
use utoipa::ToSchema;

use super::{ApiError, Body, JsonResult, Path, SentBy, WorldExtension};
use crate::{
    rights::Right,
    routes::check_right,
    shown::{self, Problem},
    world::World,
};

/// All servers.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Servers {
    servers: Vec<Server>,
    /// The problems of the configuration. Empty for callers who do not operate the servers.
    problems: Vec<Problem>,
}

/// A server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Server {
    name: String,
    /// `disabled`, `pending_trust`, `disconnected`, `idle` (it is started when it is called), `connecting`,
    /// `connected`, `tools_failed`, `reconnecting`, `needs_auth`, `failed`, or `broken` for an entry that cannot be
    /// used as it is written.
    state: &'static str,
    /// Why it is not connected. Only its own user, and callers who operate the servers, get what the server wrote
    /// last.
    #[schema(value_type = Option<String>)]
    error: Option<FailureText>,
    /// Failed attempts so far, while `reconnecting`.
    attempt: Option<u32>,
    attempts: Option<u32>,
    /// The wait between the last attempt and the next one, in milliseconds.
    retry_in_ms: Option<u64>,
    /// When that attempt begins, in RFC 3339.
    retry_at: Option<String>,
    /// The server's description of how to sign in.
    how: Option<String>,
    /// `stdio`, `http`, `sse` or `native`.
    transport: Option<&'static str>,
    /// `legacy` (2025-11-25 and older) or `modern`.
    #[schema(value_type = Option<String>)]
    era: Option<toolrack_host::Era>,
    protocol_version: Option<String>,
    #[schema(value_type = Option<Object>)]
    server_info: Option<toolrack_host::mcp::ServerInfo>,
    /// `built in`, `user`, `project`, `local` or `command line`.
    scope: String,
    /// The file that it is configured in. `null` for callers who do not operate the servers.
    source: Option<String>,
    line: Option<usize>,
    enabled: bool,
    /// Whether it runs only for the member who sends this request, who may then connect, disconnect and reconnect it.
    own: bool,
    /// Whether its entry can be changed here.
    editable: bool,
    /// Tools in the catalog.
    tools: usize,
    /// Tools that the configuration hides.
    tools_hidden: usize,
    /// The tokens of its tool definitions for a model; an estimate.
    tokens: usize,
    /// Only its own user, and callers who operate the servers, get these, because they can contain what it wrote.
    warnings: Vec<String>,
    /// Tools that differ from their pins; `GET /api/v1/trust` shows the differences.
    quarantined: Vec<String>,
    /// Tools with findings in their definitions, at which a user should look, including tools in quarantine.
    tools_with_findings: usize,
    instructions: Option<String>,
    /// Its entry, with secrets hidden. `null` for callers who do not operate the servers.
    #[schema(value_type = Option<Object>)]
    config: Option<Value>,
    /// Names this version of the entry, for `If-Match`.
    version: String,
}

impl Server {
    /// `status` is `None` for a broken entry, because the host runs no server for it.
    fn new(entry: &Entry, status: Option<ServerStatus>, world: &World) -> Self {
        let mut server = Self {
            name: entry.name.clone(),
            state: BROKEN,
            error: None,
            attempt: None,
            attempts: None,
            retry_in_ms: None,
            retry_at: None,
            how: None,
            transport: None,
            era: None,
            protocol_version: None,
            server_info: None,
            scope: entry.scope.to_string(),
            source: entry.source.path.as_ref().map(|path| path.display().to_string()),
            line: entry.line,
            enabled: entry.enabled,
            own: world.runs_for_one_member(&entry.name),
            editable: EditTarget::single_file_of(entry).is_ok(),
            tools: 0,
            tools_hidden: 0,
            tokens: 0,
            warnings: Vec::new(),
            quarantined: Vec::new(),
            tools_with_findings: world
                .findings_cache
                .last()
                .keys()
                .filter(|(server, _)| server.as_str() == entry.name)
                .count(),
            instructions: None,
            config: Some(entry.view.clone()),
            version: entry.hash.clone(),
        };
        if let Some(status) = status {
            server.set_status(status, world.is_stopped(&entry.name));
            if server.retry_in_ms.is_some() {
                let at = world.tally.retry_at(&entry.name);
                server.retry_at = at.map(shown::rfc3339_millis);
            }
        }
        server
    }

    /// The server as `reader` may see it. Its entry and its file describe the machine, so only readers who operate the
    /// servers see them. The same readers alone see the output of a server that several members share, because that
    /// output can contain texts of each of these members.
    fn visible_to(mut self, reader: &Principal, world: &World) -> Self {
        if Right::Operate.is_held_by(reader) {
            return self;
        }
        (self.source, self.line, self.config) = (None, None, None);
        if !world.serves_one_user(&self.name) {
            self.error = self.error.map(FailureText::without_output);
            self.warnings.clear();
        }
        self
    }

    /// Adds the status of the server that the host reports.
    fn set_status(&mut self, status: ServerStatus, is_stopped: bool) {
        self.error = status.state.failure();
        self.state = shown_state(status.state.word(), is_stopped);
        self.tokens = status.tokens();
        match status.state {
            HostState::Reconnecting { attempt, attempts, in_ms, .. } => {
                (self.attempt, self.attempts, self.retry_in_ms) = (Some(attempt), Some(attempts), Some(in_ms));
            }
            HostState::NeedsAuth { how } => self.how = Some(how),
            _ => {}
        }
        self.transport = Some(status.transport);
        (self.era, self.protocol_version) = (status.era, status.protocol_version);
        (self.server_info, self.instructions) = (status.server_info, status.instructions);
        (self.tools, self.tools_hidden) = (status.tools, status.tools_hidden);
        self.warnings = status.warnings;
        self.quarantined = status.quarantined.into_iter().map(|quarantined| quarantined.tool).collect();
    }
}

/// The state of an entry with errors, which cannot be used.
const BROKEN: &str = "broken";

/// The state that is shown: a server that a user stopped is `disconnected`, not `disabled`.
fn shown_state(word: &'static str, is_stopped: bool) -> &'static str {
    if is_stopped && word == HostState::Disabled.word() { "disconnected" } else { word }
}

/// Every configured server, as `reader` may see it.
fn all_servers(world: &World, reader: &Principal) -> Vec<Server> {
    let loaded = world.loaded();
    let statuses = world.host.status().into_iter().map(|status| (status.name.to_string(), status));
    let mut status_by_name: BTreeMap<_, _> = statuses.collect();
    let visible_entries = loaded.entries.iter().filter(|entry| world.has_server(&entry.name));
    visible_entries
        .map(|entry| Server::new(entry, status_by_name.remove(&entry.name), world).visible_to(reader, world))
        .collect()
}

/// The name and the state of each configured server.
pub(super) fn states_of(world: &World) -> Vec<(String, &'static str)> {
    let loaded = world.loaded();
    let states: BTreeMap<_, _> = world.host.states().into_iter().collect();
    let entries = loaded.entries.iter().filter(|entry| world.has_server(&entry.name)).map(|entry| {
        let word = states.get(entry.name.as_str()).map(|word| shown_state(word, world.is_stopped(&entry.name)));
        (entry.name.clone(), word.unwrap_or(BROKEN))
    });
    entries.collect()
}

/// The entry of this name. An error if the configuration has none, or if it belongs to no server of this world.
pub(super) fn find_entry<'a>(world: &World, loaded: &'a Loaded, name: &str) -> Result<&'a Entry, ApiError> {
    loaded.entry(name).filter(|_| world.has_server(name)).ok_or_else(|| ApiError::no_server(name))
}

/// The server of this name, as `reader` may see it.
fn find_server(world: &World, name: &str, reader: &Principal) -> Result<Server, ApiError> {
    let loaded = world.loaded();
    let entry = find_entry(world, &loaded, name)?;
    let status = world.host.status().into_iter().find(|status| status.name.as_str() == name);
    Ok(Server::new(entry, status, world).visible_to(reader, world))
}

/// The answer to a request that has begun to change the state of a server: the current state of the server.
fn accepted_response(world: &World, name: &str, caller: &Caller) -> Result<Response, ApiError> {
    Ok((StatusCode::ACCEPTED, Json(find_server(world, name, caller.principal())?)).into_response())
}

/// All servers and their states.
#[utoipa::path(get, path = "/api/v1/servers", tag = "servers", responses((status = 200, body = Servers)))]
pub(super) async fn list(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
) -> Json<Servers> {
    world.findings_cache.for_catalog(world.host.catalog()).await;
    let problems = if Right::Operate.is_held_by(&principal) { world.problems() } else { Vec::new() };
    Json(Servers { servers: all_servers(&world, &principal), problems: problems.iter().map(Problem::from).collect() })
}

/// A server; its `ETag` is for `If-Match`.
#[utoipa::path(get, path = "/api/v1/servers/{name}", tag = "servers",
    params(("name" = String, Path)),
    responses((status = 200, body = Server), (status = 404, body = ApiError)))]
pub(super) async fn get(
    Extension(world): WorldExtension,
    Extension(principal): Extension<Principal>,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    world.findings_cache.for_catalog(world.host.catalog()).await;
    let server = find_server(&world, &name, &principal)?;
    let tag = format!("\"{}\"", server.version);
    Ok(([(header::ETAG, tag)], Json(server)).into_response())
}

/// Starts a server that was disconnected, or that has used up its attempts. For a server that runs for others, too, the
/// caller needs the right `operate`.
#[utoipa::path(post, path = "/api/v1/servers/{name}/connect", tag = "servers", params(("name" = String, Path)),
    responses((status = 202, body = Server), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn connect(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_may_control(&world, &name, &caller)?;
    check_may_run(&world, &name)?;
    world.resume_server(&name).await?;
    let has_given_up_or_waits = world.host.status().iter().any(|status| {
        status.name.as_str() == name
            && matches!(status.state, HostState::Failed { .. } | HostState::Reconnecting { .. })
    });
    if has_given_up_or_waits {
        world.host.reconnect(&name)?;
    }
    accepted_response(&world, &name, &caller)
}

/// Stops a server until a user connects it again, or the daemon restarts. Changes no file. For a server that runs for
/// others, too, the caller needs the right `operate`.
#[utoipa::path(post, path = "/api/v1/servers/{name}/disconnect", tag = "servers", params(("name" = String, Path)),
    responses((status = 202, body = Server), (status = 404, body = ApiError)))]
pub(super) async fn disconnect(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_may_control(&world, &name, &caller)?;
    find_entry(&world, &world.loaded(), &name)?;
    world.stop_server(&name).await?;
    accepted_response(&world, &name, &caller)
}

/// Ends the connection of a server and makes a new one. For a server that runs for others, too, the caller needs the
/// right `operate`.
#[utoipa::path(post, path = "/api/v1/servers/{name}/reconnect", tag = "servers", params(("name" = String, Path)),
    responses((status = 202, body = Server), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn reconnect(
    Extension(world): WorldExtension,
    SentBy(caller): SentBy,
    Path(name): Path<String>,
) -> Result<Response, ApiError> {
    check_may_control(&world, &name, &caller)?;
    check_may_run(&world, &name)?;
    match world.is_stopped(&name) {
        true => world.resume_server(&name).await?,
        false => world.host.reconnect(&name)?,
    }
    accepted_response(&world, &name, &caller)
}

/// Refuses a caller who may not start and stop the server. Members may start and stop servers that run only for them;
/// principals who operate the tenant's servers may start and stop all servers.
fn check_may_control(world: &World, name: &str, caller: &Caller) -> Result<(), ApiError> {
    // The refusal does not reveal that a server of other members exists.
    if !world.may_read_about(name, caller.principal()) {
        return Err(ApiError::no_server(name));
    }
    if world.runs_for_one_member(name) { Ok(()) } else { check_right(Right::Operate, caller.principal()) }
}

/// Refuses a server that must not run, because it is disabled, broken or not trusted.
pub(super) fn check_may_run(world: &World, name: &str) -> Result<(), ApiError> {
    let loaded = world.loaded();
    let entry = find_entry(world, &loaded, name)?;
    let (code, message, hint) = if !entry.is_valid {
        (
            "BROKEN_ENTRY",
            "the server's entry cannot be used as it is written",
            "correct the problems that are reported with the servers",
        )
    } else if entry.trust == toolrack_host::spec::Trust::Pending {
        ("NOT_TRUSTED", "the server is not trusted in this folder yet", "look at it, and approve it")
    } else if !entry.enabled {
        ("SERVER_DISABLED", "the server is switched off", "enable it first")
    } else {
        return Ok(());
    };
    Err(ApiError::new(StatusCode::CONFLICT, code, message).hint(hint).server(name))
}

/// The steps of connecting to a server, up to the one that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TestResult {
    server: String,
    ok: bool,
    steps: Vec<TestStep>,
}

/// A step on the way from a server's entry to its tools.
#[derive(Debug, Serialize, ToSchema)]
struct TestStep {
    stage: &'static str,
    ok: bool,
    what: String,
}

/// Tests each step on the way from a server's entry to its tools, and says which one failed.
#[utoipa::path(post, path = "/api/v1/servers/{name}/test", tag = "servers", params(("name" = String, Path)),
    responses((status = 200, body = TestResult), (status = 404, body = ApiError)))]
pub(super) async fn test(Extension(world): WorldExtension, Path(name): Path<String>) -> JsonResult<TestResult> {
    find_entry(&world, &world.loaded(), &name)?;
    let why = world.host.why(&name);
    let steps = why.steps.into_iter().map(|step| TestStep { stage: step.stage, ok: step.ok, what: step.what });
    Ok(Json(TestResult { server: name, ok: why.present, steps: steps.collect() }))
}

/// The states of all servers, for programs that use only this part of the API.
#[utoipa::path(get, path = "/api/agents/mcp", tag = "agents", responses((status = 200, body = Servers)))]
pub(super) async fn states(world: WorldExtension, principal: Extension<Principal>) -> Json<Servers> {
    list(world, principal).await
}

/// The server to reconnect.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReconnectRequest {
    /// Its name in the configuration. This field may also be called `name`.
    #[serde(alias = "name")]
    server: String,
}

/// Ends the connection of the server that the body names, and makes a new one. For programs that use only this part of
/// the API.
#[utoipa::path(post, path = "/api/agents/mcp/reconnect", tag = "agents", request_body = ReconnectRequest,
    responses((status = 202, body = Server), (status = 404, body = ApiError), (status = 409, body = ApiError)))]
pub(super) async fn reconnect_named(
    world: WorldExtension,
    caller: SentBy,
    Body(ReconnectRequest { server }): Body<ReconnectRequest>,
) -> Result<Response, ApiError> {
    reconnect(world, caller, Path(server)).await
}
