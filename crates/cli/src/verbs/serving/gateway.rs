//! Runs `toolrack gateway`, an MCP server over stdio that offers the tools of all servers. `Context` is what a command
//! works with: its configuration, database, screen and servers.

mod conversation;
mod shared;

use std::{sync::Arc, time::Duration};

use clap::Args;
use tokio::{
    io::{AsyncRead, AsyncWrite, stdin, stdout},
    net::UnixStream,
    time::timeout,
};
use toolrack_config::{Loaded, Role};
use toolrack_daemon::gateway::{AnyClient, FIRST_LIST_TIMEOUT, Gateway, GatewayOptions};
use toolrack_host::{Desired, Host, Interpreter, Selection, ServerName};

use self::shared::share;
use super::serve::record::DaemonRecord;
use crate::{
    args::PolicyArgs,
    context::{Context, HostOptions, OnFailure},
    error::{Exit, Failure, with_causes},
    local_socket::{self, LocalSocket},
    verbs::{
        reach,
        talk::ask::{code, every_tool_of, rules, unused_name, warn_of_useless_rules},
    },
};

/// `gateway`.
#[derive(Debug, Default, Args)]
#[command(
    after_help = "Write this command into the configuration of another MCP client, which then has every tool, under the rules given here. \
While `toolrack up` runs, the gateway shares its servers and obeys its rules. With --code, a client does not get every \
tool, but `run_code`, which runs scripts that call tools, and tools that search for tools.

Examples:
  claude mcp add toolrack -- toolrack gateway
  toolrack gateway --server github --yes-read-only
  toolrack gateway --profile review
  toolrack gateway --code --allow 'fs/read_*'"
)]
pub(crate) struct GatewayArgs {
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    /// Offer the tools of this profile of toolrack.toml, under the names of the profile; does not share the daemon's servers
    #[arg(long, value_name = "PROFILE", conflicts_with = "code")]
    pub(crate) profile: Option<String>,

    /// Do not share the servers of a running daemon
    #[arg(long)]
    pub(crate) alone: bool,
}

/// How long a daemon may take to accept this process.
const GREETING_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: GatewayArgs, context: &Context) -> Result<Exit, Failure> {
    // In a shared daemon, only the daemon's own servers and rules apply, so options of this command need a host here.
    let has_own_options = args.policy != PolicyArgs::default() || args.profile.is_some() || args.alone;
    let may_share = !has_own_options && context.may_share_daemon();
    if may_share && let Some(daemon) = connect_to_daemon(context).await {
        return Box::pin(share(daemon, context)).await;
    }
    serve_alone(&args, context, stdin(), stdout()).await
}

/// Connects to the daemon of the same user, if one runs.
async fn connect_to_daemon(context: &Context) -> Option<UnixStream> {
    let data = context.places.data();
    DaemonRecord::read(data).filter(DaemonRecord::is_alive)?;
    timeout(GREETING_TIMEOUT, local_socket::connect(data, LocalSocket::Clients)).await.ok()?.ok()
}

/// Runs the servers in this process, without a daemon, for as long as the client is connected.
async fn serve_alone(
    GatewayArgs { policy, profile, .. }: &GatewayArgs,
    context: &Context,
    reader: impl AsyncRead + Send + Unpin,
    writer: impl AsyncWrite + Send + Unpin,
) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    if let Some(name) = profile {
        require_profile(name, &loaded)?;
    }
    let mut desired = reach::select_servers(&loaded, &policy.server)?;
    let selection = match &*policy.tool {
        [] => Selection::all(),
        patterns => Selection::all().only(patterns.iter().cloned()),
    };
    // With another role, an agent gets no tools, so there is nothing that a script could call.
    let wants_code = policy.code && loaded.settings.role == Role::Worker;
    let script_servers = wants_code.then(|| ScriptServers::with_unused_names(&desired)).transpose()?;
    let own_servers: Vec<_> =
        script_servers.iter().flat_map(|script_servers| [&script_servers.discovery, &script_servers.code]).collect();
    warn_of_useless_rules(&policy.rules, &loaded, &own_servers, &context.screen);
    context.quotas().set_profiles(&loaded.settings.profiles);
    let running_host = context.start(HostOptions {
        gate: Arc::new(rules(&policy.rules, &loaded, &own_servers)),
        // The caller is the client and not the user at the terminal. Questions go to the client, if it can answer.
        asker: Arc::new(AnyClient::new()),
        on_failure: OnFailure::Reconnect,
    })?;
    // Tells the log keeper where these servers are configured.
    let add_log_sources = running_host.log_source_adder();
    add_log_sources(&desired);
    let host = running_host.host().clone();
    let mut options = GatewayOptions::default();
    options.profiles.set(loaded.settings.profiles.clone());
    options.profile = profile.as_deref().map(Arc::from);
    options.selection = match script_servers {
        None => {
            host.apply(desired).await;
            selection
        }
        Some(script_servers) => {
            desired
                .insert(script_servers.discovery.clone(), host.discovery(&script_servers.discovery, selection.clone()));
            host.apply(desired.clone()).await;
            // Add the script server last, because it describes the tools of all other servers to the model. Servers
            // that have not connected within the timeout are announced later.
            let _ = timeout(FIRST_LIST_TIMEOUT, host.settled()).await;
            script_servers.add_script_server(desired, selection, &host).await
        }
    };
    let gateway = Gateway::new(host, options);
    let outcome = gateway.serve_stdio(reader, writer).await;
    gateway.shutdown().await;
    outcome.map_err(|error| Failure::new(Exit::Other, "CLIENT_LOST", with_causes(&error)))?;
    Ok(Exit::Ok)
}

/// Refuses a profile that is not configured.
fn require_profile(name: &str, loaded: &Loaded) -> Result<(), Failure> {
    let profiles = &loaded.settings.profiles;
    if profiles.contains_key(name) {
        return Ok(());
    }
    let failure = Failure::usage(format!("no profile is called `{name}`"));
    Err(match profiles.keys().map(|known| &**known).collect::<Vec<_>>()[..] {
        [] => failure.hint("write `[[profiles]]` in toolrack.toml"),
        ref known => failure.hint(format!("known: {}", known.join(", "))),
    })
}

/// The two servers whose tools a client gets instead of all others: `discovery` searches for tools, and `code` runs
/// scripts that call them.
struct ScriptServers {
    discovery: ServerName,
    code: ServerName,
    interpreter: Arc<dyn Interpreter>,
}

impl ScriptServers {
    /// Chooses names that no server in `desired` has.
    fn with_unused_names(desired: &Desired) -> Result<Self, Failure> {
        let interpreter = code::interpreter()?;
        Ok(Self { discovery: unused_name(desired, "toolrack")?, code: unused_name(desired, "code")?, interpreter })
    }

    /// Adds the server for scripts that call the tools of `callable_tools`. Returns the tools that clients still see;
    /// the resources and prompts of all servers stay visible.
    async fn add_script_server(self, mut desired: Desired, callable_tools: Selection, host: &Host) -> Selection {
        let Self { discovery, code, interpreter } = self;
        let visible_tools = [&discovery, &code].into_iter().filter_map(every_tool_of);
        let visible_tools = Selection::all().only(visible_tools);
        // Scripts can find tools without the discovery server.
        let callable_tools = callable_tools.without_servers([discovery]);
        desired.insert(code.clone(), host.scripts(&code, callable_tools, interpreter));
        host.apply(desired).await;
        visible_tools
    }
}
