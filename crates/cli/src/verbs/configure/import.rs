//! Runs `toolrack import`. An offer is a server in a configuration file of another program. `Context` is what a command
//! works with: its configuration, database, screen and servers.

mod render;

use clap::Args;
use inquire::{InquireError, MultiSelect};
use toolrack_config::{
    Loaded, Scope as ConfigScope, closest,
    edit::{self, Options},
    import::{self, Client, Found, Offer, Sealed},
    project_root,
    trust::content_hash,
};

use super::{edits, entry_secrets};
use crate::{
    args::{Scope, WriteArgs, program_parser},
    context::Context,
    error::{Exit, Failure},
    verbs::input,
};
use render::{AddedServer, Document, ListedOffer, OfferState};

/// `import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack import                          show what there is, and choose
  toolrack import cursor claude-code       only of these programs
  toolrack import --server github --server fs=files
  toolrack import --all

Servers in a project's file (.cursor/mcp.json, .vscode/mcp.json, ...) are added only when you choose them by name.")]
pub(crate) struct ImportArgs {
    /// Only servers of these programs
    #[arg(value_name = "PROGRAM", value_parser = program_parser())]
    pub(crate) clients: Vec<Client>,

    /// Add all servers from your own files whose names are not ambiguous
    #[arg(long, conflicts_with = "server")]
    pub(crate) all: bool,

    /// Add this server, or add it under the name NEW; may be given more than once
    #[arg(long, value_name = "NAME[=NEW]")]
    pub(crate) server: Vec<String>,

    /// Write secrets into the file as they are, instead of keeping them among the stored secrets
    #[arg(long)]
    pub(crate) plain: bool,

    #[command(flatten)]
    pub(crate) write: WriteArgs,
}

/// An offer that was chosen, and the name that the server will have here.
struct Choice<'a> {
    offer: &'a Offer,
    name: String,
}

pub(crate) async fn run(args: ImportArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let clients = if args.clients.is_empty() { Client::ALL.to_vec() } else { args.clients.clone() };
    let (environment, folder) = (context.environment.clone(), context.folder.clone());
    // Some of these files are large, and a home folder may be far away.
    let import_sources = tokio::task::spawn_blocking(move || import::look(&environment, &folder, &clients))
        .await
        .map_err(|_| Failure::new(Exit::Other, "INTERNAL", "the files of other programs were not read"))?;
    for problem in &import_sources.problems {
        context.screen.problem(problem);
    }
    let listed_offers: Vec<_> = import_sources
        .offers
        .iter()
        .map(|offer| ListedOffer::new(offer, offer_state(offer, &import_sources, &loaded)))
        .collect();
    let is_choosing =
        context.screen.is_interactive() && !args.all && args.server.is_empty() && !context.screen.prints_json();
    if !context.screen.prints_json() {
        context.screen.page(render::page(&listed_offers, context.screen.layout())).await?;
    }
    let choices = if args.all {
        all_unambiguous(&listed_offers, args.write.scope.is_some(), context)
    } else if args.server.is_empty() {
        if is_choosing { choose(&listed_offers).await? } else { Vec::new() }
    } else {
        args.server.iter().map(|word| choose_by_name(word, &import_sources)).collect::<Result<_, _>>()?
    };
    let mut added = Vec::new();
    let mut first_failure = None;
    for choice in choices {
        match add(&choice, &args, context).await {
            Ok(server) => added.push(server),
            Err(failure) if first_failure.is_none() => first_failure = Some(failure),
            Err(failure) => context.screen.warning(&failure.message),
        }
    }
    print_outcome(&listed_offers, &added, &args, context).await?;
    first_failure.map_or(Ok(Exit::Ok), Err)
}

async fn print_outcome(
    listed_offers: &[ListedOffer<'_>],
    added: &[AddedServer],
    args: &ImportArgs,
    context: &Context,
) -> Result<(), Failure> {
    let screen = &context.screen;
    if screen.prints_json() {
        return screen.document(&Document { offers: listed_offers, added, dry_run: args.write.dry_run }).await;
    }
    for server in added {
        screen.page(if args.write.dry_run { server.diff.clone() } else { render::outcome(server) }).await?;
    }
    let is_new = |offer: &ListedOffer<'_>| offer.state == OfferState::New;
    if listed_offers.is_empty() {
        screen.note("no other program has servers that could be imported");
    } else if added.is_empty() && !listed_offers.iter().any(is_new) {
        screen.note("there is nothing new to import");
    } else if added.is_empty() && args.all {
        screen.note("nothing was added; `--server NAME` chooses a single one");
    } else if added.is_empty() {
        screen.note(
            "nothing was added; `toolrack import --all` adds all from your own files, `--server NAME` a single one",
        );
    } else if !args.write.dry_run {
        screen.note("`toolrack list` connects to them");
    }
    Ok(())
}

/// Compares an offer with the servers that are configured here, and with earlier offers of the same name.
fn offer_state(offer: &Offer, import_sources: &Found, loaded: &Loaded) -> OfferState {
    if let Some(entry) = loaded.entry(&offer.name) {
        let is_same = entry.hash == offer.hash
            || entry.view == offer.view
            || entry.hash == entry_secrets::hash_without_secrets(&offer.name, &offer.entry);
        return if is_same { OfferState::Same } else { OfferState::Taken };
    }
    // There always is a first offer of this name: at least `offer` itself has the name.
    let first = import_sources.named(&offer.name).next();
    match first {
        Some(first) if std::ptr::eq(first, offer) => OfferState::New,
        Some(first) if first.hash == offer.hash => OfferState::Same,
        _ => OfferState::Rival,
    }
}

/// Returns a choice for each new server in the user's own files of other programs. Skips servers with ambiguous names.
/// Also skips servers that are used in only one other folder, unless the user has chosen a scope (`has_destination`).
/// The screen says which servers are skipped.
fn all_unambiguous<'a>(listed_offers: &[ListedOffer<'a>], has_destination: bool, context: &Context) -> Vec<Choice<'a>> {
    let mut choices = Vec::new();
    let project = project_root(&context.folder);
    for new_offer in listed_offers.iter().filter(|offer| offer.state == OfferState::New) {
        let offer = new_offer.offer;
        let has_rival =
            listed_offers.iter().any(|other| other.state == OfferState::Rival && other.offer.name == offer.name);
        if offer.from_project {
            let program = offer.client.title();
            context
                .screen
                .note(&format!("`{}` comes from a project file of {program}: to add it, use --server", offer.name));
        } else if has_rival {
            let hint = format!("toolrack import {} --server {}", offer.client.id(), offer.name);
            context.screen.warning(&format!("`{}` means several things: choose one, such as {hint}", offer.name));
        } else if let Some(folder) = offer.private_to.as_ref().filter(|folder| !has_destination && **folder != project)
        {
            let folder = folder.display();
            context.screen.note(&format!("`{}` is for {folder} alone: choose it with --server", offer.name));
        } else {
            choices.push(Choice { offer, name: offer.name.clone() });
        }
    }
    choices
}

/// Finds the offer that `NAME` or `NAME=NEW` means.
fn choose_by_name<'a>(word: &str, import_sources: &'a Found) -> Result<Choice<'a>, Failure> {
    let (name, new_name) = word.split_once('=').unwrap_or((word, word));
    let mut offers = import_sources.offers.iter().filter(|offer| offer.name == name);
    let Some(offer) = offers.next() else {
        let names = import_sources.offers.iter().map(|offer| offer.name.as_str());
        return Err(Failure::new(Exit::Usage, "UNKNOWN_SERVER", format!("no other program has a server `{name}`"))
            .with_suggestion(closest(name, names), "`toolrack import` lists the servers")
            .server(name));
    };
    if let Some(rival) = offers.find(|other| other.hash != offer.hash) {
        let (first, second) = (offer.client, rival.client);
        let message = format!("`{name}` of {} and of {} differ", first.title(), second.title());
        let hint = format!("say whose: toolrack import {} --server {word}", first.id());
        return Err(Failure::usage(message).hint(hint).server(name));
    }
    Ok(Choice { offer, name: new_name.to_owned() })
}

/// Lets the user choose from the new servers.
async fn choose<'a>(listed_offers: &'a [ListedOffer<'a>]) -> Result<Vec<Choice<'a>>, Failure> {
    let new_offers: Vec<&ListedOffer<'_>> =
        listed_offers.iter().filter(|offer| matches!(offer.state, OfferState::New | OfferState::Rival)).collect();
    if new_offers.is_empty() {
        return Ok(Vec::new());
    }
    let labels: Vec<String> = new_offers.iter().map(|offer| render::line(offer)).collect();
    let answer = tokio::task::spawn_blocking(move || {
        let prompt = MultiSelect::new("Add which?", labels).with_help_message("space chooses, enter adds, esc leaves");
        prompt.raw_prompt().map(|options| options.into_iter().map(|option| option.index).collect::<Vec<_>>())
    })
    .await
    .map_err(|_| Failure::new(Exit::Other, "INTERNAL", "cannot ask"))?;
    let chosen_indexes = match answer {
        // A user who leaves the list has chosen nothing.
        Err(InquireError::OperationCanceled) => Vec::new(),
        answer => answer.map_err(|error| input::no_answer_failure(&error))?,
    };
    let to_choice = |index: usize| {
        new_offers.get(index).map(|new_offer| Choice { offer: new_offer.offer, name: new_offer.offer.name.clone() })
    };
    Ok(chosen_indexes.into_iter().filter_map(to_choice).collect())
}

async fn add(choice: &Choice<'_>, args: &ImportArgs, context: &Context) -> Result<AddedServer, Failure> {
    // A server for one folder must not start to run in all other folders.
    let default = if choice.offer.private_to.is_some() { Scope::Local } else { Scope::default() };
    let edit_target = edits::target_for_new_entry(args.write.scope.unwrap_or(default), context);
    let (mut entry, mut sealed_secrets) = (choice.offer.entry.clone(), Sealed::default());
    if !args.plain {
        entry_secrets::take_out(&mut sealed_secrets, &choice.name, &mut entry, context).await?;
    }
    let hash = content_hash(&entry);
    let run_edit = |options: Options| {
        let (name, path, entry) = (choice.name.clone(), edit_target.path.clone(), entry.clone());
        edits::run(&choice.name, move || edit::add(&path, &name, &entry, options))
    };
    // Tries the edit before a secret is stored. Otherwise an edit that fails would leave a secret behind.
    let mut edit_result =
        run_edit(Options { replace: false, dry_run: true }).await.map_err(|failure| match failure.code {
            "EXISTS" => failure.hint(format!("give it another name: --server {}=NEW", choice.offer.name)),
            _ => failure,
        })?;
    if !args.write.dry_run {
        entry_secrets::store(&sealed_secrets, context).await?;
        edit_result = run_edit(Options { replace: false, dry_run: false }).await?;
        entry_secrets::report_stored(&sealed_secrets, context);
    }
    if edit_target.scope == ConfigScope::Project && !args.write.dry_run {
        edits::approve_written(&choice.name, &hash, context).await?;
    }
    let notes = choice.offer.notes.clone();
    let (name, scope) = (choice.name.clone(), edit_target.scope.as_str());
    Ok(AddedServer {
        name,
        scope,
        path: edit_result.path,
        client: choice.offer.client.id(),
        diff: edit_result.diff,
        notes,
    })
}
