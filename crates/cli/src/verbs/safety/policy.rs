//! Runs `toolrack policy test`, `list`, `answers` and `forget`. A standing answer (`always`) of the user lets a tool
//! run without a question. Claims are what a server says about a tool, such as that it only reads. `Context` is what a
//! command works with: its configuration, database, screen and servers.

pub(crate) mod args;
pub(crate) mod render;

use serde::Serialize;
use serde_json::{Map, Value};
use toolrack_config::{Entry, Loaded, Scope};
use toolrack_daemon::shown::answers::{ForgottenAnswers, ShownAnswer};
use toolrack_host::{Caller, CatalogTool, DefaultEffect, GateRequest, Policy, ServerName, Way, mcp::Annotations};
use toolrack_store::{OwnerFilter, StandingAnswer};

use crate::{
    args::RulesArgs,
    arguments, builtin,
    context::Context,
    database,
    error::{Exit, Failure},
    notebook::{ConfiguredServer, Notebook},
    render::count,
    verbs::{reach::no_such_server, talk::ask},
};
use args::{ForgetAnswersArgs, PolicyVerb, TestPolicyArgs};
use render::{CallVerdict, RuleLine, TestDocument};

/// `policy list --json`.
#[derive(Debug, Serialize)]
struct ListDocument {
    rules: Vec<RuleLine>,
    otherwise: DefaultEffect,
    allow_read_only: bool,
}

/// `policy answers --json`.
#[derive(Debug, Serialize)]
struct AnswersDocument {
    answers: Vec<ShownAnswer>,
}

pub(crate) async fn run(verb: PolicyVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        PolicyVerb::Test(args) => test(args, context).await,
        PolicyVerb::List => list(context).await,
        PolicyVerb::Answers => answers(context).await,
        PolicyVerb::Forget(args) => forget(args, context).await,
    }
}

async fn test(args: TestPolicyArgs, context: &Context) -> Result<Exit, Failure> {
    let typed_arguments = arguments::parse(&args.arguments)?;
    let caller = parse_caller(&args.client)?;
    let loaded = context.load().await?;
    for problem in loaded.idle_rules() {
        context.screen.problem(&problem);
    }
    let Some((server, tool)) = args.selector.split_once('/').filter(|(_, tool)| !tool.is_empty()) else {
        return Err(Failure::usage("which tool of which server?").hint("toolrack policy test fs/write_file path=a"));
    };
    let Some(entry) = loaded.entry(server) else {
        return Err(no_such_server(server, &loaded, Exit::Usage));
    };
    let name = ServerName::new(server).map_err(|error| Failure::usage(error.to_string()))?;
    // The schema of the tool is not known, so an empty one accepts all arguments.
    let (base_arguments, any_schema, is_lenient) = (Map::new(), Value::Object(Map::new()), false);
    let arguments = arguments::fit(base_arguments, typed_arguments, &any_schema, is_lenient)?;
    let claims = known_claims(entry, tool, context).await;
    // Without known claims, the tool counts as one that claims nothing.
    let assumed_claims = claims.clone().unwrap_or_default();
    let policy = policy_for(&loaded, &caller);
    let request = GateRequest::unlisted(&name, tool, &arguments, &assumed_claims).with_caller(&caller);
    let answer = match context.store() {
        Ok(store) => {
            // An answer that a member of a team gave covers only calls of that member.
            let answers = store.answers(OwnerFilter::Of(caller.principal())).await;
            let answers = answers.map_err(|error| database::unusable(&error))?;
            answers.into_iter().find(|answer| answer.server == server && answer.tool == tool)
        }
        // Without a database, no answer is stored.
        Err(_) => None,
    };
    let document = TestDocument::new(&request, claims, &policy.explain(&request), answer);
    if context.screen.prints_json() {
        context.screen.document(&document).await?;
    } else {
        context.screen.page(render::test_page(&document)).await?;
    }
    Ok(Exit::Ok)
}

/// Returns the verdict on a model's call of `tool` without arguments.
pub(crate) fn verdict_for_model(tool: &CatalogTool, loaded: &Loaded) -> CallVerdict {
    let (caller, arguments) = (Caller::local(Way::Agent), Map::new());
    let (name, claims) = (&tool.tool().name, &tool.tool().annotations);
    let request = GateRequest::unlisted(&tool.server, name, &arguments, claims).with_caller(&caller);
    CallVerdict::from(&policy_for(loaded, &caller).explain(&request).verdict)
}

/// Returns the policy for calls of this caller.
fn policy_for(loaded: &Loaded, caller: &Caller) -> Policy {
    match caller.way() {
        Way::Cli => loaded.settings.policy.clone(),
        // All other callers may also use the tools of the built-in servers, which only read.
        _ => {
            let (typed_rules, own_servers) = (RulesArgs::default(), []);
            ask::rules(&typed_rules, loaded, &own_servers)
        }
    }
}

/// Returns the server's claims about the tool when the server was last connected; `None` if they are not known.
async fn known_claims(entry: &Entry, tool: &str, context: &Context) -> Option<Annotations> {
    if entry.scope == Scope::BuiltIn {
        return builtin::annotations_of(tool);
    }
    // The notebook has the tools that servers listed when they were last connected.
    let (notebook, server, tool) =
        (Notebook::below(context.places.data()), ConfiguredServer::from(entry), tool.to_owned());
    tokio::task::spawn_blocking(move || notebook.annotations_of(&server, &tool)).await.ok().flatten()
}

/// Parses a caller, such as `gateway/claude-code`.
fn parse_caller(typed_caller: &str) -> Result<Caller, Failure> {
    let (way, name) = match typed_caller.split_once('/') {
        Some((way, name)) => (way, Some(name)),
        None => (typed_caller, None),
    };
    let way = match way {
        "agent" => Way::Agent,
        "gateway" => Way::Gateway,
        "api" | "daemon" => Way::Daemon,
        "cli" => Way::Cli,
        "program" => Way::Program,
        _ => {
            return Err(Failure::usage("--client is agent, gateway, api, cli or program").hint("--client gateway/NAME"));
        }
    };
    let caller = Caller::local(way);
    Ok(match name {
        Some(name) => caller.with_client(name),
        None => caller,
    })
}

async fn list(context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    for problem in loaded.idle_rules() {
        context.screen.problem(&problem);
    }
    let policy = &loaded.settings.policy;
    let rules: Vec<_> = policy.rules().map(RuleLine::from).collect();
    let (otherwise, allow_read_only) = policy.default_effect();
    if context.screen.prints_json() {
        context.screen.document(&ListDocument { rules, otherwise, allow_read_only }).await?;
        return Ok(Exit::Ok);
    }
    if rules.is_empty() {
        let file = context.places.settings();
        context.screen.note(&format!("there are no rules; `[policy]` in {} is where they go", file.display()));
    }
    context.screen.page(render::list_page(&rules, otherwise, allow_read_only)).await?;
    Ok(Exit::Ok)
}

async fn answers(context: &Context) -> Result<Exit, Failure> {
    let answers: Vec<StandingAnswer> =
        context.store()?.answers(OwnerFilter::All).await.map_err(|error| database::unusable(&error))?;
    if context.screen.prints_json() {
        context
            .screen
            .document(&AnswersDocument { answers: answers.into_iter().map(ShownAnswer::from).collect() })
            .await?;
        return Ok(Exit::Ok);
    }
    if answers.is_empty() {
        context.screen.note("there are no standing answers");
    }
    context.screen.page(render::answers_page(&answers)).await?;
    Ok(Exit::Ok)
}

async fn forget(args: ForgetAnswersArgs, context: &Context) -> Result<Exit, Failure> {
    // A word without `/`, which is the name of a server, becomes an `Err`.
    let (server, tool) = match args.about.as_deref().map(|about| about.split_once('/').ok_or(about)) {
        None => (None, None),
        Some(Ok((server, tool))) => (Some(server), Some(tool)),
        Some(Err(server)) => (Some(server), None),
    };
    let forgotten = context.store()?.forget_answers(server, tool, OwnerFilter::All, &Caller::local(Way::Cli)).await;
    let forgotten = forgotten.map_err(|error| database::unusable(&error))?;
    if forgotten == 0 && !args.all {
        let failure = Failure::new(Exit::Usage, "NO_ANSWER", "there is no standing answer about this");
        return Err(failure.hint("`toolrack policy answers` shows all standing answers"));
    }
    if context.screen.prints_json() {
        context.screen.document(&ForgottenAnswers { forgotten }).await?;
    } else {
        context.screen.note(&format!("{} taken back", count(forgotten, "answer")));
    }
    Ok(Exit::Ok)
}
