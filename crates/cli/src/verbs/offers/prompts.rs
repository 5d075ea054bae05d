//! Runs `toolrack prompts` and `toolrack prompt`.

pub(crate) mod render;

use clap::Args;
use toolrack_host::{Host, ServerName};

use crate::{
    args::{OffersArgs, OneOffArgs},
    arguments,
    context::Context,
    error::{Exit, Failure},
    notebook::OfferList,
    verbs::reach::{self, Target},
};
use render::{FilledDocument, ServerPrompts};

/// `prompt`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack prompt github/summarize_issue number=7
  toolrack prompt https://example.com/mcp greeting name=Ada
  toolrack prompt greeting name=Ada -- npx -y my-server")]
pub(crate) struct PromptArgs {
    /// The prompt: server/prompt; after the address of a server, or before `--` and a command, only the prompt's own
    /// name
    #[arg(value_name = "PROMPT")]
    pub(crate) selector: String,

    /// The arguments of the prompt: NAME=VALUE
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    #[command(flatten)]
    pub(crate) one_off: OneOffArgs,
}

pub(crate) async fn list(OffersArgs { filter: args, .. }: OffersArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let (offers, failures) = super::ask_named_servers(context, &loaded, &args.servers, list_prompts).await?;
    let conceal = context.concealer();
    let to_offer_list =
        |offer: &ServerPrompts| (offer.server.clone(), OfferList::from_prompts(&offer.prompts, &conceal));
    context.note_offers(&loaded, offers.iter().map(to_offer_list).collect()).await;
    let warnings = reach::failure_messages(&failures);
    let document = render::document(&offers, &warnings);
    super::show(context, &failures, &document, || render::page(&offers), "there are no prompts").await?;
    reach::conclude(context, failures, &args.servers)
}

/// Returns the prompts of `servers`, and the failures of those that do not answer.
pub(crate) async fn list_for_servers(host: &Host, servers: &[ServerName]) -> (Vec<ServerPrompts>, Vec<Failure>) {
    super::ask_each_server(host, servers, list_prompts).await
}

async fn list_prompts(host: Host, server: ServerName) -> Result<ServerPrompts, Failure> {
    let prompts = host.prompts(server.as_str()).await.map_err(|error| Failure::from_call_error(&error))?;
    Ok(ServerPrompts { server: server.to_string(), prompts })
}

pub(crate) async fn get(args: PromptArgs, context: &Context) -> Result<Exit, Failure> {
    let typed_arguments = arguments::parse(&args.arguments).and_then(arguments::into_strings)?;
    let loaded = context.load().await?;
    let server_and_prompt = match args.selector.split_once('/') {
        // The command line itself describes the server.
        _ if context.one_off().is_some() => Some(reach::split_one_off_selector(&args.selector)),
        // `connect_to` reports a server that does not exist.
        Some((server, prompt)) => Some((server.to_owned(), prompt.to_owned())),
        None => match Target::parse(&args.selector, &loaded)? {
            Target::Tool { server, tool } if !tool.is_empty() => Some((server.to_string(), tool)),
            _ => None,
        },
    };
    let Some((server, prompt)) = server_and_prompt else {
        return Err(Failure::usage(format!("`{}` names no prompt: write server/prompt", args.selector))
            .hint("`toolrack prompts` shows all prompts"));
    };
    let (host, server) = reach::connect_to(context, &loaded, &server).await?;
    let filled_prompt = host
        .get_prompt(server.as_str(), &prompt, &typed_arguments)
        .await
        .map_err(|error| Failure::from_call_error(&error))?;
    if context.screen.prints_json() {
        let document = FilledDocument {
            server: server.as_str(),
            prompt: &prompt,
            description: filled_prompt.description.as_deref(),
            messages: &filled_prompt.messages,
        };
        context.screen.document(&document).await?;
    } else {
        context.screen.verbatim(render::filled_page(&filled_prompt)).await?;
    }
    Ok(Exit::Ok)
}
