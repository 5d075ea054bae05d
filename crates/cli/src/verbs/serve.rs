//! `toolrack serve` and `toolrack up`

mod birth;
pub(super) mod record;

use std::{io, os::unix::net::UnixListener, path::Path, sync::Arc};

use serde::Serialize;
use tokio_util::sync::CancellationToken;
use toolrack_auth::{AuthError, SignIn};
use toolrack_config::{Interpolate, Loaded, Request};
use toolrack_daemon::{
    AgentParts, ChosenModel, Daemon, ForAgents, Models, NoModel, NoSignIn, Options, Parts, Questions, SignInPage,
    SignIns, StartError, Token, discovery_name, gateway::AnyClient,
};
use toolrack_host::{Destination, Policy, Resolver as _};
use url::Url;

use self::record::{Record, listen, socket};
use super::ask::rules;
use crate::{
    args::{LimitArgs, ModelArgs, ServeArgs},
    browser::Visitor,
    error::{Exit, Failure, with_causes},
    guest::{self, reception::receive_all},
    keep::LogKeeper,
    models::{Around, Chosen, Wishes},
    rules::LiveRules,
    stop::Stop,
    wire::World,
};

/// `serve --json`: printed once the daemon listens.
#[derive(Debug, Serialize)]
pub(super) struct Up {
    /// The dashboard, with the key to it.
    url: String,
    address: String,
    /// Where other MCP clients find every tool.
    mcp: String,
    token: String,
    pid: u32,
}

impl From<&Record> for Up {
    fn from(record: &Record) -> Self {
        let address = &record.address;
        Self {
            url: record.url(),
            address: address.clone(),
            mcp: format!("http://{address}/mcp"),
            token: record.token.clone(),
            pid: record.pid,
        }
    }
}

pub(super) async fn run(args: ServeArgs, world: &World) -> Result<Exit, Failure> {
    let mut stop = Stop::new()?;
    if args.detached {
        // One that leads its group already, or its session, has left the terminal in another way.
        let _ = nix::unistd::setsid();
    }
    let token = Token::new().map_err(|error| Failure::new(Exit::Other, "NO_RANDOM", error.to_string()))?;
    let options = Options {
        listen: args.listen,
        hosts: args.allow_host.clone(),
        remote: args.allow_remote,
        grace: args.grace,
        agent_idle: args.agent_idle,
        ..Options::local(0, token)
    };
    let gate = Arc::new(LiveRules::new(rules(&args.rules, &world.load().await?, &[])));
    let parts = parts(&args, world, gate);
    let mut daemon = match Daemon::start(parts, for_agents(&args, world), options.clone()).await {
        Ok(daemon) => daemon,
        Err(StartError::InUse(address)) => return in_use(&address.to_string(), &args, world).await,
        Err(error) => return Err(not_started(&error)),
    };
    let address = daemon.address().to_string();
    let record = Record::of_this(address, options.token.reveal().to_owned());
    let data = world.places.data().to_owned();
    let mut commands = None;
    match Record::read(&data).filter(Record::is_alive) {
        Some(first) => {
            let message = format!("another daemon is up at {}: it is the one that other commands find", first.address);
            world.screen.warning(&message);
        }
        None => match found(&mut daemon, &record, &data) {
            Ok(socket) => commands = Some(socket),
            Err(error) => {
                world.screen.warning(&format!("other commands will not find the daemon: {}", with_causes(&error)));
            }
        },
    }
    // In the background nobody looks, and the log is no place for a key.
    if !args.detached {
        show(&record, args.no_open, world).await?;
    }
    if !args.with_parent && !args.detached {
        world.screen.note("Ctrl-C ends it");
    }
    let current = daemon.current();
    let commands = async {
        if let Some(commands) = commands
            && let Err(error) = receive_all(commands, world, &current, args.grace).await
        {
            tracing::warn!("other commands will not find the daemon: {error}");
        }
    };
    serve(daemon, commands, &mut stop, args.with_parent).await;
    record.forget(&data);
    Ok(Exit::Ok)
}

/// Has other commands find the daemon; gives the socket of those that it does.
fn found(daemon: &mut Daemon, record: &Record, data: &Path) -> io::Result<UnixListener> {
    daemon.also_on(listen(&socket(data))?)?;
    let commands = listen(&guest::socket(data))?;
    record.write(data)?;
    Ok(commands)
}

/// Until the daemon has ended, and what it does for `commands`, or is told a second time to end.
async fn serve(daemon: Daemon, commands: impl Future<Output = ()>, stop: &mut Stop, with_parent: bool) {
    let end = CancellationToken::new();
    let running = async { tokio::join!(daemon.run(end.clone().cancelled_owned()), commands) };
    tokio::pin!(running);
    tokio::select! {
        _ = &mut running => return,
        _ = stop.requested() => end.cancel(),
        () = orphaned(), if with_parent => end.cancel(),
    }
    tokio::select! {
        _ = running => {}
        _ = stop.requested() => {}
    }
}

/// Nobody is at the other end of stdin any more.
async fn orphaned() {
    let mut ignored = tokio::io::sink();
    // A stdin that cannot be read has nobody at its end either.
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut ignored).await;
}

fn parts(args: &ServeArgs, world: &World, gate: Arc<LiveRules>) -> Parts {
    let questions = Questions::new(args.patience);
    let (live, typed) = (Arc::clone(&gate), args.rules.clone());
    world.guard(gate);
    world.answers(Arc::new(AnyClient::or(Arc::new(questions.clone()))));
    let (keeper, audit, egress) = (world.log_keeper(), world.audit_settings(), world.egress().clone());
    Parts {
        host: world.host(),
        request: world.request(),
        environment: world.environment.clone(),
        store: world.store().ok().cloned(),
        secrets: world.secrets(),
        questions,
        models: models(args.model.clone(), world.around()),
        sign_ins: sign_ins(world.sign_in().clone(), world.secrets()),
        before_applying: Box::new(move |loaded: &Loaded| {
            live.replace(rules(&typed, loaded, &[&discovery_name(&loaded.desired)]));
            keeper(&loaded.desired);
            audit(loaded.settings.audit);
            egress.set(loaded.settings.egress.clone());
        }),
    }
}

/// What the worlds of agents are put together from: a host of their own, and what the daemon's world has.
fn for_agents(args: &ServeArgs, world: &World) -> ForAgents {
    let (hosts, around, audit) = (world.hosts(), world.around(), Arc::new(world.audit_settings()));
    let (request, environment, sign_in) = (world.request(), world.environment.clone(), world.sign_in().clone());
    let (store, secrets) = (world.store().ok().cloned(), world.secrets());
    let (model, typed, patience) = (args.model.clone(), args.rules.clone(), args.patience);
    Box::new(move |id| {
        let questions = Questions::new(patience);
        // What its files say is known before anything of it runs.
        let gate = Arc::new(LiveRules::new(Policy::default()));
        let asker = Arc::new(AnyClient::or(Arc::new(questions.clone())));
        let host = hosts.make(Arc::<LiveRules>::clone(&gate), asker, Some(&id));
        let log = hosts.log_of(&host);
        let (sources, audit, typed) = (log.as_ref().map(LogKeeper::sources), Arc::clone(&audit), typed.clone());
        let parts = Parts {
            host,
            request: Request { agent: Some(id), ..request.clone() },
            environment: environment.clone(),
            store: store.clone(),
            secrets: Arc::clone(&secrets),
            questions,
            models: models(model.clone(), around.clone()),
            sign_ins: sign_ins(sign_in.clone(), Arc::clone(&secrets)),
            before_applying: Box::new(move |loaded: &Loaded| {
                gate.replace(rules(&typed, loaded, &[&discovery_name(&loaded.desired)]));
                if let Some(sources) = &sources {
                    sources.expect(&loaded.desired);
                }
                audit(loaded.settings.audit);
            }),
        };
        let then = async move {
            if let Some(log) = log {
                log.close().await;
            }
        };
        AgentParts { parts, then: Box::pin(then) }
    })
}

/// Signs in as `toolrack login` does, with the browser of whoever looks at the dashboard.
fn sign_ins(sign_in: SignIn, secrets: Arc<Interpolate>) -> SignIns {
    Box::new(move |server, http, page: SignInPage| {
        let (sign_in, secrets) = (sign_in.clone(), Arc::clone(&secrets));
        Box::pin(async move {
            let refused = |error: &AuthError| NoSignIn {
                code: error.code(),
                message: secrets.conceal(&format!("cannot sign in to `{server}`: {error}")).into_owned(),
                hint: error.hint().map(str::to_owned),
            };
            let bad_url = |why: String| refused(&AuthError::Config { why });
            let url = secrets.url(&server, &http).await.map_err(|error| bad_url(error.to_string()))?;
            let url = Url::parse(url.trim()).map_err(|_| bad_url("its url is none".to_owned()))?;
            let visitor = Visitor::bind(page).await.map_err(|error| refused(&error.into()))?;
            let to = Destination { server: &server, url: &url, spec: &http };
            sign_in.login(to, &[], &visitor).await.map(drop).map_err(|error| refused(&error))
        })
    })
}

/// Finds a model as `toolrack ask` does.
fn models(typed: ModelArgs, around: Around) -> Models {
    Box::new(move |name, loaded| {
        let (mut model, around) = (typed.clone(), around.clone());
        model.model = name.or(model.model);
        let wishes = Wishes { model, limits: LimitArgs::default(), configured: loaded.settings.model.clone() };
        Box::pin(async move {
            let chosen = wishes.chosen(&around).await;
            let refused =
                |failure: Failure| NoModel { code: failure.code, message: failure.message, hint: failure.hint };
            chosen.map_err(refused).map(|Chosen { model, max_tokens, limits }| ChosenModel {
                model,
                max_tokens: max_tokens.map(Into::into),
                limits,
            })
        })
    })
}

pub(super) async fn show(record: &Record, no_open: bool, world: &World) -> Result<(), Failure> {
    let up = Up::from(record);
    if world.screen.json() {
        world.screen.document(&up).await?;
    } else {
        world.screen.verbatim(up.url.clone()).await?;
        world.screen.note(&format!("MCP clients: {} with `Authorization: Bearer {}`", up.mcp, up.token));
    }
    if !no_open && world.screen.interactive() && !world.screen.json() {
        // A machine without a browser has the address on its screen.
        let _ = open::that_detached(&up.url);
    }
    Ok(())
}

/// Where the one who listens there is a daemon of the same person, it is as good as a new one.
async fn in_use(address: &str, args: &ServeArgs, world: &World) -> Result<Exit, Failure> {
    match Record::read(world.places.data()) {
        Some(record) if record.address == address && record.is_alive() => {
            world.screen.note(&format!("a daemon is up already (process {})", record.pid));
            show(&record, args.no_open, world).await?;
            Ok(Exit::Ok)
        }
        _ => Err(not_started(&StartError::InUse(args.listen))),
    }
}

fn not_started(error: &StartError) -> Failure {
    let (exit, code, hint) = match error {
        StartError::Remote(_) => (Exit::Usage, "REMOTE", "listen on 127.0.0.1, or say --allow-remote"),
        StartError::InUse(_) => (Exit::Other, "ADDRESS_IN_USE", "choose another port with --listen 127.0.0.1:0"),
        _ => (Exit::Other, "NOT_LISTENING", "choose another address with --listen"),
    };
    Failure::new(exit, code, with_causes(error)).hint(hint)
}
