//! `toolrack gateway`

use std::{sync::Arc, time::Duration};

use tokio::{
    io::{AsyncWriteExt as _, copy, stdin, stdout},
    net::UnixStream,
    time::timeout,
};
use toolrack_daemon::gateway::{AnyClient, Gateway, GatewayOptions};
use toolrack_host::{Desired, Host, Interpreter, Selection, ServerName};

use super::{
    ask::{code, every_tool_of, name_beside, rules},
    serve::record::{Record, socket},
};
use crate::{
    args::{GatewayArgs, PolicyArgs},
    error::{Exit, Failure, with_causes},
    wire::World,
};

/// How long the first list of what scripts can call waits for servers that are slow to start.
const START: Duration = Duration::from_secs(5);

/// How long answers may take to come when nothing is asked any more.
const LAST_WORDS: Duration = Duration::from_secs(5);

pub(super) async fn run(args: GatewayArgs, world: &World) -> Result<Exit, Failure> {
    let is_plain = args.policy == PolicyArgs::default() && !args.alone;
    if is_plain && let Some(daemon) = running(world).await {
        return share(daemon).await;
    }
    alone(&args.policy, world).await
}

/// A connection to the daemon of the same person, if one runs.
async fn running(world: &World) -> Option<UnixStream> {
    let data = world.places.data();
    Record::read(data).filter(Record::is_alive)?;
    UnixStream::connect(socket(data)).await.ok()
}

/// Hands everything on as it comes.
async fn share(daemon: UnixStream) -> Result<Exit, Failure> {
    let (mut answers, mut asks) = daemon.into_split();
    let (mut typed, mut shown) = (stdin(), stdout());
    let answered = copy(&mut answers, &mut shown);
    tokio::pin!(answered);
    let asked = async {
        let asked = copy(&mut typed, &mut asks).await;
        let _ = asks.shutdown().await;
        asked
    };
    let ended = tokio::select! {
        ended = &mut answered => ended.map(drop),
        asked = asked => match asked {
            Ok(_) => timeout(LAST_WORDS, answered).await.unwrap_or(Ok(0)).map(drop),
            Err(error) => Err(error),
        },
    };
    ended.map_err(|error| {
        let message = format!("the connection to the daemon broke: {}", with_causes(&error));
        Failure::new(Exit::Unreachable, "DAEMON_LOST", message).hint("start it again with `toolrack up`")
    })?;
    Ok(Exit::Ok)
}

/// Runs the servers itself, for as long as its client is there.
async fn alone(policy: &PolicyArgs, world: &World) -> Result<Exit, Failure> {
    let loaded = world.load().await?;
    let mut desired = super::only(&loaded, &policy.server)?;
    let selection = match &*policy.tool {
        [] => Selection::all(),
        only => Selection::all().only(only.iter().cloned()),
    };
    let scripts = policy.code.then(|| Scripts::beside(&desired)).transpose()?;
    let ours: Vec<_> = scripts.iter().flat_map(|scripts| [&scripts.discovery, &scripts.code]).collect();
    world.guard(Arc::new(rules(&policy.rules, &loaded, &ours)));
    // Whoever is at the terminal is not the one who asks; the client is asked, if it can be.
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
    let served = gateway.serve_stdio(stdin(), stdout()).await;
    gateway.shutdown().await;
    served.map_err(|error| Failure::new(Exit::Other, "CLIENT_LOST", with_causes(&error)))?;
    Ok(Exit::Ok)
}

/// What a client is offered instead of the tools of all servers: to search them, and to call them in scripts.
struct Scripts {
    discovery: ServerName,
    code: ServerName,
    interpreter: Arc<dyn Interpreter>,
}

impl Scripts {
    /// Under names that no other server has.
    fn beside(desired: &Desired) -> Result<Self, Failure> {
        let interpreter = code::interpreter()?;
        Ok(Self { discovery: name_beside(desired, "toolrack")?, code: name_beside(desired, "code")?, interpreter })
    }

    /// Has scripts that call the tools of `callable`; gives the only tools that clients see, while the resources and prompts
    /// of all servers stay.
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
