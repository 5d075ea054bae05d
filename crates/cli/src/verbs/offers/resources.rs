//! Runs `toolrack resources` and `toolrack read`.

pub(crate) mod render;

use std::path::PathBuf;

use clap::Args;
use tokio::sync::broadcast;
use toolrack_host::{Event, Host, ServerName, State, SubscribeError, Subscriptions};

use super::{call, deliver};
use crate::{
    args::{OffersArgs, OneOffArgs},
    context::Context,
    error::{Exit, Failure},
    notebook::OfferList,
    verbs::reach,
};
use render::{ReadDocument, ServerResources};

/// `read`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack read docs file:///readme.md
  toolrack read docs file:///logo.png -o logo.png
  toolrack read docs file:///status --follow
  toolrack read https://example.com/mcp file:///readme.md
  toolrack read file:///readme.md -- npx -y my-server")]
pub(crate) struct ReadArgs {
    /// The server, by name or address; leave it out if its command follows after `--`
    #[arg(value_name = "SERVER")]
    pub(crate) server: String,

    /// The URI of the resource
    #[arg(value_name = "URI")]
    pub(crate) uri: Option<String>,

    /// Write the resource into this file as it is, decoded if it is not text; - for stdout
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print the resource again each time that the server reports a change, until Ctrl-C
    #[arg(short, long, visible_alias = "watch")]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn list(OffersArgs { filter: args, .. }: OffersArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let (offers, failures) = super::ask_named_servers(context, &loaded, &args.servers, list_resources).await?;
    let conceal = context.concealer();
    let to_offer_list =
        |offer: &ServerResources| (offer.server.clone(), OfferList::from_resources(&offer.resources, &conceal));
    context.note_offers(&loaded, offers.iter().map(to_offer_list).collect()).await;
    let warnings = reach::failure_messages(&failures);
    let document = render::document(&offers, &warnings);
    super::show(context, &failures, &document, || render::page(&offers), "there are no resources").await?;
    reach::conclude(context, failures, &args.servers)
}

/// Returns the resources of `servers`, and the failures of those that do not answer.
pub(crate) async fn list_for_servers(host: &Host, servers: &[ServerName]) -> (Vec<ServerResources>, Vec<Failure>) {
    super::ask_each_server(host, servers, list_resources).await
}

async fn list_resources(host: Host, server: ServerName) -> Result<ServerResources, Failure> {
    let (resources, templates) =
        futures::future::try_join(host.resources(server.as_str()), host.resource_templates(server.as_str()))
            .await
            .map_err(|error| Failure::from_call_error(&error))?;
    Ok(ServerResources { server: server.to_string(), resources, templates })
}

pub(crate) async fn read(args: ReadArgs, context: &Context) -> Result<Exit, Failure> {
    let (host, server) = reach::connect_to(context, &context.load().await?, &args.server).await?;
    if args.follow {
        return Box::pin(follow(&args, &host, &server, context)).await;
    }
    print(&args, &host, &server, context).await?;
    Ok(Exit::Ok)
}

/// Prints the resource as it is now.
async fn print(args: &ReadArgs, host: &Host, server: &ServerName, context: &Context) -> Result<(), Failure> {
    // The parser has refused a command line without a URI.
    let uri = args.uri.as_deref().unwrap_or_default();
    let contents = host.read_resource(server.as_str(), uri).await.map_err(|error| Failure::from_call_error(&error))?;
    if context.screen.prints_json() {
        let document = ReadDocument { server: server.as_str(), uri, contents: &contents };
        return if args.follow {
            context.screen.record(&document).await
        } else {
            context.screen.document(&document).await
        };
    }
    let pieces: Vec<_> = contents.iter().map(call::render::raw_contents).collect();
    let mut plain_text = render::read_plain(&contents);
    if args.follow && !plain_text.ends_with('\n') {
        // The next version must begin on a new line.
        plain_text.push('\n');
    }
    let text = deliver::TextForms { escaped: render::read_page(&contents), plain: Some(plain_text) };
    deliver::deliver(&pieces, text, args.output.as_deref(), &context.screen).await
}

/// Prints the resource, and again after each change, until stdout is closed. Subscribes first, so that no change is
/// missed.
///
/// # Errors
/// When the server has no subscriptions or refuses this one, and when it is gone for good.
async fn follow(args: &ReadArgs, host: &Host, server: &ServerName, context: &Context) -> Result<Exit, Failure> {
    let mut events = host.events();
    let max_resources = 1;
    let subscriptions = Subscriptions::new(max_resources);
    let uri = args.uri.as_deref().unwrap_or_default();
    subscriptions.subscribe(host, server.as_str(), uri).await.map_err(|error| match error {
        SubscribeError::Call(error) => Failure::from_call_error(&error),
        other => Failure::new(Exit::Other, "SUBSCRIPTIONS", other.to_string()).server(server.as_str()),
    })?;
    loop {
        print(args, host, server, context).await?;
        if context.screen.is_stdout_closed() {
            return Ok(Exit::Ok);
        }
        // If a daemon runs this command, the outbox (its queue of output) holds everything back until the command ends
        // or the outbox is opened.
        context.screen.outbox().inspect(|outbox| outbox.open());
        tokio::select! {
            // Only one resource can have changed.
            _ = subscriptions.updated() => {}
            failure = wait_until_lost(host, server, &mut events) => return Err(failure),
        }
    }
}

/// Waits until the host makes no further attempt to connect to `server`, and returns the failure of the server. A
/// server that is connected again is not lost: the host then subscribes again.
async fn wait_until_lost(host: &Host, server: &ServerName, events: &mut broadcast::Receiver<Event>) -> Failure {
    loop {
        // Missed events do not matter, because the state below is the present one.
        let is_closed = matches!(events.recv().await, Err(broadcast::error::RecvError::Closed));
        let status = host.status().into_iter().find(|status| status.name == *server);
        let missing_server_failure =
            || Failure::new(Exit::Unreachable, "SERVER_FAILED", format!("`{server}` no longer exists"));
        match status {
            Some(status) if !is_final(&status.state) && !is_closed => {}
            Some(status) => return reach::server_failure(host, &status).unwrap_or_else(missing_server_failure),
            None => return missing_server_failure(),
        }
    }
}

/// Returns whether `state` is final: the host does not try to connect again by itself.
fn is_final(state: &State) -> bool {
    matches!(state, State::Failed { .. } | State::NeedsAuth { .. } | State::Disabled | State::PendingTrust)
}
