//! `toolrack gateway`

mod conversation;
mod shared;

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, stdin, stdout},
    net::UnixStream,
    time::timeout,
};
use toolrack_config::Role;
use toolrack_daemon::gateway::{AnyClient, Gateway, GatewayOptions};
use toolrack_host::{Desired, Host, Interpreter, Selection, ServerName};

use self::shared::share;
use super::{
    ask::{code, every_tool_of, name_beside, rules, warn_of_idle},
    serve::record::Record,
};
use crate::{
    args::{GatewayArgs, PolicyArgs},
    door::{self, Door},
    error::{Exit, Failure, with_causes},
    wire::World,
};

/// How long the first list of what scripts can call waits for servers that are slow to start.
const START: Duration = Duration::from_secs(5);

/// How long a daemon may take to let this process in.
const GREETING: Duration = Duration::from_secs(2);

pub(super) async fn run(args: GatewayArgs, world: &World) -> Result<Exit, Failure> {
    let is_plain = args.policy == PolicyArgs::default() && !args.alone;
    if is_plain && let Some(daemon) = running(world).await {
        return Box::pin(share(daemon, world)).await;
    }
    alone(&args.policy, world, (stdin(), stdout())).await
}

/// A connection to the daemon of the same user, if one runs.
async fn running(world: &World) -> Option<UnixStream> {
    let data = world.places.data();
    Record::read(data).filter(Record::is_alive)?;
    timeout(GREETING, door::enter(data, Door::Clients)).await.ok()?.ok()
}

/// Runs the servers itself, for as long as its client is connected.
async fn alone(
    policy: &PolicyArgs,
    world: &World,
    (reader, writer): (impl AsyncRead + Send + Unpin, impl AsyncWrite + Send + Unpin),
) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let mut desired = super::only(&loaded, &policy.server)?;
    let selection = match &*policy.tool {
        [] => Selection::all(),
        only => Selection::all().only(only.iter().cloned()),
    };
    let wants_code = policy.code && loaded.settings.role == Role::Worker;
    let scripts = wants_code.then(|| Scripts::beside(&desired)).transpose()?;
    let ours: Vec<_> = scripts.iter().flat_map(|scripts| [&scripts.discovery, &scripts.code]).collect();
    warn_of_idle(&policy.rules, &loaded, &ours, &world.screen);
    world.guard(Arc::new(rules(&policy.rules, &loaded, &ours)));
    // The caller is the client and not the user at the terminal; the client is asked, if it can be.
    world.answers(Arc::new(AnyClient::new()));
    world.stay();
    let host = world.host();
    world.log_keeper()(&desired);
    let mut options = GatewayOptions::default();
    options.selection = match scripts {
        None => {
            host.apply(desired).await;
            selection
        }
        Some(scripts) => {
            desired.insert(scripts.discovery.clone(), host.discovery(&scripts.discovery, selection.clone()));
            host.apply(desired.clone()).await;
            // Last, because it tells the model what all the others have; what comes later is told later.
            let _ = timeout(START, host.settled()).await;
            scripts.added(desired, selection, &host).await
        }
    };
    let gateway = Gateway::new(host, options);
    let served = gateway.serve_stdio(reader, writer).await;
    gateway.shutdown().await;
    served.map_err(|error| Failure::new(Exit::Other, "CLIENT_LOST", with_causes(&error)))?;
    Ok(Exit::Ok)
}

/// What a client is offered instead of the tools of all servers: searching them, and calling them in scripts.
struct Scripts {
    discovery: ServerName,
    code: ServerName,
    interpreter: Arc<dyn Interpreter>,
}

impl Scripts {
    /// Takes names that no other server has.
    fn beside(desired: &Desired) -> Result<Self, Failure> {
        let interpreter = code::interpreter()?;
        Ok(Self { discovery: name_beside(desired, "toolrack")?, code: name_beside(desired, "code")?, interpreter })
    }

    /// Adds the server for scripts that call the tools of `callable`; returns the only tools that clients see, while
    /// the resources and prompts of all servers stay.
    async fn added(self, mut desired: Desired, callable: Selection, host: &Host) -> Selection {
        let Self { discovery, code, interpreter } = self;
        let shown = [&discovery, &code].into_iter().filter_map(every_tool_of);
        let shown = Selection::all().only(shown);
        // It holds tools and finds them itself.
        let callable = callable.without_servers([discovery]);
        desired.insert(code.clone(), host.scripts(&code, callable, interpreter));
        host.apply(desired).await;
        shown
    }
}
