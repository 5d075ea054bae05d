//! Runs `toolrack pending`, `toolrack trust` and `toolrack untrust`. A server that a project configures (an entry)
//! waits (is pending) until the user agrees to run it. `Context` is what a command works with: its configuration,
//! database, screen and servers.

pub(crate) mod args;
mod changes;
mod quarantine;
mod render;
mod tools;

use serde::Serialize;
use toolrack_config::{Entry, Loaded};
use toolrack_host::spec::Trust;
use toolrack_store::{Approval, Refusal};

use crate::{
    context::Context,
    error::{Exit, Failure},
    render::count,
    verbs::{configure::edits, reach},
};
use args::{PendingArgs, TrustArgs, TrustVerb, UntrustArgs};
use render::PendingEntry;

/// The output of `trust --json`.
#[derive(Debug, Serialize)]
struct TrustDocument<'a> {
    trusted: &'a [PendingEntry<'a>],
}

/// The output of `trust --refuse --json`.
#[derive(Debug, Serialize)]
struct RefuseDocument<'a> {
    refused: &'a [PendingEntry<'a>],
}

/// The output of `untrust --json`.
#[derive(Debug, Serialize)]
struct UntrustDocument {
    untrusted: Vec<String>,
}

pub(crate) async fn pending(args: PendingArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let approvals = context.approvals().await?;
    let refusals = context.refusals().await?;
    let (refused, waiting_entries): (Vec<_>, Vec<_>) = pending_entries(&loaded, &args.servers, &approvals)?
        .into_iter()
        .partition(|entry| is_refused(entry, &refusals));
    if context.screen.prints_json() {
        context.screen.document(&render::Document { pending: &waiting_entries, refused: &refused }).await?;
    } else {
        if waiting_entries.is_empty() {
            context.screen.note("nothing is pending here");
        } else {
            context.screen.page(render::page(&waiting_entries, context.screen.layout())).await?;
            context.screen.note("`toolrack trust` agrees to run exactly this");
        }
        if !refused.is_empty() {
            let names: Vec<_> =
                refused.iter().map(|pending_entry| format!("`{}`", pending_entry.entry().name)).collect();
            let names = names.join(", ");
            context.screen.note(&format!("you refused {names}; `toolrack trust SERVER` agrees after all"));
        }
    }
    let must_fail = args.exit_code && !waiting_entries.is_empty();
    Ok(if must_fail { Exit::NotTrusted } else { Exit::Ok })
}

pub(crate) async fn trust(args: TrustArgs, context: &Context) -> Result<Exit, Failure> {
    match args.verb {
        Some(TrustVerb::Diff(args)) => return tools::diff(args, context).await,
        Some(TrustVerb::Approve(args)) => return tools::approve(args, context).await,
        None => {}
    }
    let loaded = context.load().await?;
    let approvals = context.approvals().await?;
    for name in &args.servers {
        if edits::find_entry(&loaded, name)?.project.is_none() {
            context.screen.note(&format!("`{name}` is your own and needs no agreement"));
        }
    }
    let mut waiting_entries = pending_entries(&loaded, &args.servers, &approvals)?;
    if args.refuse {
        return refuse(&waiting_entries, context).await;
    }
    if args.servers.is_empty() {
        let refusals = context.refusals().await?;
        waiting_entries.retain(|entry| !is_refused(entry, &refusals));
    }
    if waiting_entries.is_empty() {
        context.screen.note("nothing is pending here");
    } else if !args.yes {
        context.require_askable_user("what a project brings runs only when a user agrees to it")?;
        // On stderr, as the question: stdout has only what was trusted.
        context.screen.message(&render::page(&waiting_entries, context.screen.layout()));
        let question = format!("Run {} as shown?", count(waiting_entries.len(), "server"));
        if !context.confirm(&question).await {
            return Err(Failure::new(Exit::NotTrusted, "NOT_TRUSTED", "nothing was trusted"));
        }
    }
    for pending_entry in &waiting_entries {
        // Approve exactly what was shown: an entry that has changed meanwhile has another hash.
        context.approve(pending_entry.entry()).await?;
    }
    if context.screen.prints_json() {
        context.screen.document(&TrustDocument { trusted: &waiting_entries }).await?;
    } else {
        let was_seen = !args.yes;
        context.screen.page(render::trusted_page(&waiting_entries, was_seen, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

/// Refuses the entries in their present form: once one changes, it waits for an agreement again.
async fn refuse(waiting_entries: &[PendingEntry<'_>], context: &Context) -> Result<Exit, Failure> {
    for pending_entry in waiting_entries {
        context.refuse(pending_entry.entry()).await?;
    }
    if context.screen.prints_json() {
        context.screen.document(&RefuseDocument { refused: waiting_entries }).await?;
    } else if waiting_entries.is_empty() {
        context.screen.note("nothing is pending here");
    } else {
        context.screen.page(render::refused_page(waiting_entries, context.screen.layout())).await?;
    }
    Ok(Exit::Ok)
}

pub(crate) async fn untrust(args: UntrustArgs, context: &Context) -> Result<Exit, Failure> {
    // `load` would fail for a broken `--mcp-config`, which does not matter here.
    let loaded = context.read().await;
    let mut approvals = context.approvals().await?;
    // An approval belongs to the folder of the entry's file, which may be below the project's root.
    approvals.retain(|approval| approval.project.starts_with(&loaded.project));
    for name in &args.servers {
        if !approvals.iter().any(|approval| approval.name == *name) {
            return Err(not_trusted(name, &loaded));
        }
    }
    approvals.retain(|approval| args.all || args.servers.contains(&approval.name));
    for approval in &approvals {
        context.revoke(&approval.project, &approval.name).await?;
    }
    let names: Vec<_> = approvals.into_iter().map(|approval| approval.name).collect();
    if context.screen.prints_json() {
        context.screen.document(&UntrustDocument { untrusted: names }).await?;
    } else if names.is_empty() {
        context.screen.note("nothing is trusted here");
    } else {
        let lines: Vec<_> = names.iter().map(|name| render::revoked_line(name)).collect();
        context.screen.page(lines.join("\n")).await?;
    }
    Ok(Exit::Ok)
}

/// Returns the entries that wait for the user's agreement. Returns only those in `server_names`, unless `server_names`
/// is empty.
///
/// # Errors
/// When a named server does not exist, or its entry is broken.
fn pending_entries<'a>(
    loaded: &'a Loaded,
    server_names: &[String],
    approvals: &'a [Approval],
) -> Result<Vec<PendingEntry<'a>>, Failure> {
    for name in server_names {
        if !edits::find_entry(loaded, name)?.is_valid {
            // It also reports an entry that is broken.
            return Err(reach::no_such_server(name, loaded, Exit::Usage));
        }
    }
    let is_waiting = |entry: &&Entry| {
        entry.trust == Trust::Pending
            && entry.is_valid
            && (server_names.is_empty() || server_names.contains(&entry.name))
    };
    let entries = loaded.entries.iter().filter(is_waiting);
    Ok(entries.map(|entry| PendingEntry::new(entry, earlier_approval(entry, approvals))).collect())
}

/// Returns whether the user refused the entry in its present form.
fn is_refused(pending_entry: &PendingEntry<'_>, refusals: &[Refusal]) -> bool {
    let entry = pending_entry.entry();
    let (project, present_hash) = (entry.project.as_deref(), &entry.agreement);
    project.is_some_and(|project| refusals.iter().any(|refusal| refusal.covers(project, &entry.name, present_hash)))
}

/// Returns the approval of an earlier version of the entry.
fn earlier_approval<'a>(entry: &Entry, approvals: &'a [Approval]) -> Option<&'a Approval> {
    let project = entry.project.as_ref()?;
    approvals.iter().find(|approval| approval.project == *project && approval.name == entry.name)
}

fn not_trusted(name: &str, loaded: &Loaded) -> Failure {
    let failure = match loaded.entry(name) {
        Some(entry) if entry.project.is_none() => {
            Failure::usage(format!("`{name}` is your own and needs no agreement that could be taken back"))
                .hint(format!("toolrack disable {name}"))
        }
        Some(_) => Failure::usage(format!("you have not agreed to run `{name}`")),
        None => reach::no_such_server(name, loaded, Exit::Usage),
    };
    failure.server(name)
}
