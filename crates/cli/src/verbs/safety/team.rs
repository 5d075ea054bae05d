//! Runs `toolrack team token`, `members`, `tokens`, `revoke`, `remove`, `audit`, `quotas` and `replicas`. `Context` is
//! what a command works with: its configuration, database, screen and servers.

pub(crate) mod args;
mod audit;
mod quotas;
mod render;
mod replicas;

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use toolrack_host::{
    Caller, Principal, Way,
    principal::{BadPrincipal, Kind},
    text,
};
use toolrack_store::{MemberIdentity, NewToken, Purpose, TeamStore, TokenFilter};
use toolrack_team::{Endpoint, Secret};

use crate::{
    context::Context,
    database,
    error::{Exit, Failure},
    render::count,
};
use args::{RemoveMemberArgs, RevokeArgs, TeamVerb, TenantArgs, TokenArgs};
use render::{MemberToken, MembersDocument, NewTokenDocument};

/// The issuer of members that `team token` makes: they do not sign in at a provider.
pub(super) const ISSUER: &str = "toolrack";

/// `team revoke --json`.
#[derive(Debug, Serialize)]
struct RevokeDocument {
    /// The number of tokens that were revoked.
    revoked: usize,
}

/// `team remove --json`.
#[derive(Debug, Serialize)]
struct RemoveDocument<'a> {
    removed: &'a str,
}

pub(crate) async fn run(verb: TeamVerb, context: &Context) -> Result<Exit, Failure> {
    match verb {
        TeamVerb::Token(args) => token(&args, context).await,
        TeamVerb::Members(args) => members(&args, context).await,
        TeamVerb::Tokens(args) => tokens(&args, context).await,
        TeamVerb::Revoke(args) => revoke(&args, context).await,
        TeamVerb::Remove(args) => remove(&args, context).await,
        TeamVerb::Audit(args) => audit::run(&args, context).await,
        TeamVerb::Quotas(args) => quotas::run(&args, context).await,
        TeamVerb::Replicas(args) => replicas::run(&args, context).await,
    }
}

/// Returns the caller for the audit log: the operator of the machine, who typed the command.
fn operator() -> Caller {
    Caller::local(Way::Cli)
}

/// Opens the tables of a team in the database.
async fn team_store(context: &Context) -> Result<TeamStore, Failure> {
    context.store()?.with_team().await.map_err(|error| database::unusable(&error))
}

async fn token(args: &TokenArgs, context: &Context) -> Result<Exit, Failure> {
    let store = &team_store(context).await?;
    let member = member_from_options(args, store).await?;
    store.put_member(&member, &operator()).await.map_err(|error| database::unusable(&error))?;
    let secret =
        Secret::new(Purpose::Personal).map_err(|error| Failure::new(Exit::Other, "NO_RANDOM", error.to_string()))?;
    let ends_at = Utc::now() + args.lasts;
    let new_token = NewToken {
        label: args.label.clone(),
        profile: args.profile.clone(),
        ends_at: Some(ends_at),
        ..NewToken::new(secret.hash(), Purpose::Personal)
    };
    let owner = MemberIdentity { issuer: member.issuer(), subject: member.subject() };
    let id = store.keep_token(owner, &new_token, &operator()).await.map_err(|error| database::unusable(&error))?;
    let id = id.ok_or_else(|| Failure::new(Exit::Other, "NO_MEMBER", "the member was removed meanwhile"))?;
    let ends_at = ends_at.to_rfc3339_opts(SecondsFormat::Secs, true);
    if context.screen.prints_json() {
        let profile = args.profile.as_deref();
        let document = NewTokenDocument { token: secret.reveal(), id, member: (&member).into(), profile, ends_at };
        context.screen.document(&document).await?;
        return Ok(Exit::Ok);
    }
    context.screen.verbatim(secret.reveal().to_owned()).await?;
    context
        .screen
        .note(&format!("for {member} ({}), until {ends_at}; the token is not shown again", member.role().word()));
    if let Some(profile) = &args.profile {
        context.screen.note(&format!("the token opens {} and nothing else", Endpoint::of(Some(profile))));
    }
    context.screen.note(&format!("`toolrack team revoke {id}` revokes the token"));
    Ok(Exit::Ok)
}

/// Returns the member that the options describe: an existing one with the changes of the options, or a new one.
async fn member_from_options(args: &TokenArgs, store: &TeamStore) -> Result<Principal, Failure> {
    let owner = MemberIdentity { issuer: ISSUER, subject: &args.member };
    let existing_member = store.member(owner).await.map_err(|error| database::unusable(&error))?;
    let tenant = args.tenant.as_deref().or(existing_member.as_ref().map(Principal::tenant)).ok_or_else(|| {
        Failure::usage(format!("the team has no member `{}` yet: say which tenant it belongs to", args.member))
            .hint(format!("toolrack team token {} --tenant TENANT", shell_words::quote(&args.member)))
    })?;
    let kind = match &existing_member {
        _ if args.service => Kind::Service,
        Some(existing_member) => existing_member.kind(),
        None => Kind::Person,
    };
    let role = args.role.map(Into::into).or(existing_member.as_ref().map(Principal::role)).unwrap_or_default();
    let groups: Vec<&str> = match &existing_member {
        Some(existing_member) if args.group.is_empty() => existing_member.groups().collect(),
        _ => args.group.iter().map(String::as_str).collect(),
    };
    let invalid_member = |error: BadPrincipal| Failure::usage(error.to_string());
    let member = Principal::new(kind, tenant, ISSUER, &args.member).map_err(invalid_member)?;
    Ok(member.in_groups(groups).map_err(invalid_member)?.with_role(role))
}

async fn members(args: &TenantArgs, context: &Context) -> Result<Exit, Failure> {
    let members = team_store(context).await?.members(args.tenant.as_deref()).await;
    let members = members.map_err(|error| database::unusable(&error))?;
    let list = MembersDocument { members: members.iter().map(Into::into).collect() };
    show(&list, render::members_page(&list), "members", context).await
}

async fn tokens(args: &TenantArgs, context: &Context) -> Result<Exit, Failure> {
    let token_filter = args.tenant.as_deref().map_or(TokenFilter::All, TokenFilter::OfTenant);
    let tokens =
        team_store(context).await?.team_tokens(token_filter).await.map_err(|error| database::unusable(&error))?;
    let list = render::TokensDocument { tokens: tokens.iter().map(MemberToken::from).collect() };
    show(&list, render::tokens_page(&list), "tokens", context).await
}

/// Shows a list: as JSON, or as `page`, which must be empty if the list is empty. `plural` names its items in messages.
async fn show(list: &impl Serialize, page: String, plural: &str, context: &Context) -> Result<Exit, Failure> {
    if context.screen.prints_json() {
        context.screen.document(list).await?;
        return Ok(Exit::Ok);
    }
    if page.is_empty() {
        context.screen.note(&format!("there are no {plural}; `toolrack team token NAME --tenant TENANT` makes one"));
    }
    context.screen.page(page).await?;
    Ok(Exit::Ok)
}

async fn revoke(args: &RevokeArgs, context: &Context) -> Result<Exit, Failure> {
    let token_filter = match (&args.id, &args.member) {
        (_, Some(member)) => TokenFilter::Of(MemberIdentity { issuer: &args.issuer, subject: member }),
        (Some(id), None) => TokenFilter::Id(id),
        (None, None) => return Err(Failure::usage("say which token").hint("`toolrack team tokens` shows their ids")),
    };
    let store = team_store(context).await?;
    let revoked = store.revoke_tokens(token_filter, &operator()).await.map_err(|error| database::unusable(&error))?;
    if revoked == 0 {
        if let Some(id) = &args.id {
            let message = format!("the team has no token with the id `{}`", text::for_line(id));
            return Err(Failure::usage(message).hint("`toolrack team tokens` shows their ids"));
        }
        // A known member without tokens is no mistake. An unknown one may be misspelt, or be of another issuer.
        if let Some(member) = &args.member {
            let owner = MemberIdentity { issuer: &args.issuer, subject: member };
            if store.member(owner).await.map_err(|error| database::unusable(&error))?.is_none() {
                return Err(no_such_member(member, &args.issuer));
            }
        }
    }
    if context.screen.prints_json() {
        context.screen.document(&RevokeDocument { revoked }).await?;
        return Ok(Exit::Ok);
    }
    context.screen.page(format!("revoked {}", count(revoked, "token"))).await?;
    Ok(Exit::Ok)
}

fn no_such_member(member: &str, issuer: &str) -> Failure {
    let message = format!("the team has no member `{}` of {}", text::for_line(member), text::for_line(issuer));
    Failure::usage(message).hint("`toolrack team members` shows them, with their issuers")
}

async fn remove(args: &RemoveMemberArgs, context: &Context) -> Result<Exit, Failure> {
    let owner = MemberIdentity { issuer: &args.issuer, subject: &args.member };
    let was_member = team_store(context)
        .await?
        .remove_member(owner, &operator())
        .await
        .map_err(|error| database::unusable(&error))?;
    if !was_member {
        return Err(no_such_member(&args.member, &args.issuer));
    }
    if context.screen.prints_json() {
        context.screen.document(&RemoveDocument { removed: &args.member }).await?;
        return Ok(Exit::Ok);
    }
    context.screen.page(format!("removed {} and all its tokens", text::for_line(&args.member))).await?;
    context
        .screen
        .note("the daemon also deletes what is stored for this member: within a second, or when the daemon starts");
    Ok(Exit::Ok)
}
