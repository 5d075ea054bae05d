//! Defines the arguments of the verbs that manage the members of a team. A team has tenants, each with servers and data
//! of its own, and each tenant has members: people and services. Replicas are several daemons that serve one team
//! together.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{Args, Subcommand, ValueEnum};
use toolrack_host::{ToolProfile, principal::Role};

use crate::{args::parse_seconds, verbs::safety::audit::args::NewestRows};

/// `team …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack team token ann --tenant acme --role operator
  toolrack team token nightly --service --tenant acme --lasts 30d
  toolrack team members
  toolrack team tokens --tenant acme
  toolrack team revoke 0199f3c2a5b47d0e8c1f6a2b3c4d5e6f
  toolrack team remove ann
  toolrack team audit --team team.toml --since 1h
  toolrack team quotas --team team.toml
  toolrack team replicas --team team.toml

These commands change the database of `toolrack serve --team`, which applies changes of members and tokens within a second.")]
pub(crate) enum TeamVerb {
    /// Make a personal token for a member, and print it once
    Token(TokenArgs),
    /// Show the members
    Members(TenantArgs),
    /// Show which tokens members have, without the secret texts of the tokens
    Tokens(TenantArgs),
    /// Revoke a token, or all tokens of a member
    Revoke(RevokeArgs),
    /// Remove a member with all their tokens
    #[command(visible_alias = "rm")]
    Remove(RemoveMemberArgs),
    /// Show the audit log of the team: sign-ins, refused requests, members, and what its tenants did
    Audit(TeamAuditArgs),
    /// Show how much of their quotas the tenants, members and profiles have used
    Quotas(TeamQuotasArgs),
    /// Show the daemons that serve the team together, and how many tenants each serves
    Replicas(ReplicasArgs),
}

impl TeamVerb {
    /// The team file that the command line names.
    pub(crate) fn team_file(&self) -> Option<&Path> {
        match self {
            Self::Audit(args) => Some(&args.team),
            Self::Quotas(args) => Some(&args.team),
            Self::Replicas(args) => Some(&args.team),
            _ => None,
        }
    }
}

/// `team token`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team token ann --tenant acme
  toolrack team token ann --role operator --group eng --label laptop
  toolrack team token nightly --service --tenant acme --lasts 30d
  toolrack team token review-bot --service --tenant acme --profile review

It adds the member if the team has none of this name. Otherwise the options change the member. It shows the token once, \
because it stores only the hash.")]
pub(crate) struct TokenArgs {
    /// The name of the member, unique in the team
    #[arg(value_name = "MEMBER")]
    pub(crate) member: String,
    /// The tenant of the member, as the team file names it; a new member needs one
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
    /// The role of the member; a new member is a user
    #[arg(long, value_name = "ROLE", value_enum)]
    pub(crate) role: Option<RoleWord>,
    /// A group of the member, which replaces the earlier groups; may be given more than once
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Vec<String>,
    /// The member is a program, not a person
    #[arg(long)]
    pub(crate) service: bool,
    /// What the token is for, as a note for you
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) label: String,
    /// Make the token valid only for the MCP endpoint of this profile of the tenant
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub(crate) profile: Option<String>,
    /// How long the token is valid: up to 3650d
    #[arg(long, value_name = "TIME", default_value = "90d", value_parser = token_life)]
    pub(crate) lasts: Duration,
}

/// The roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleWord {
    Viewer,
    User,
    Operator,
    Auditor,
    Admin,
    Scraper,
}

impl From<RoleWord> for Role {
    fn from(word: RoleWord) -> Self {
        match word {
            RoleWord::Viewer => Self::Viewer,
            RoleWord::User => Self::User,
            RoleWord::Operator => Self::Operator,
            RoleWord::Auditor => Self::Auditor,
            RoleWord::Admin => Self::Admin,
            RoleWord::Scraper => Self::Scraper,
        }
    }
}

/// `team members`, `team tokens`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team members
  toolrack team tokens --tenant acme --json")]
pub(crate) struct TenantArgs {
    /// Only those of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
}

/// `team revoke`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team revoke 0199f3c2a5b47d0e8c1f6a2b3c4d5e6f
  toolrack team revoke --member ann")]
pub(crate) struct RevokeArgs {
    /// The id of the token, as `toolrack team tokens` shows it
    #[arg(value_name = "TOKEN-ID", required_unless_present = "member")]
    pub(crate) id: Option<String>,
    /// Revoke all tokens of the member with this name or, with --issuer, with this id at the issuer
    #[arg(long, value_name = "MEMBER", conflicts_with = "id")]
    pub(crate) member: Option<String>,
    /// The identity provider at which the member signs in; members that `team token` adds have none
    #[arg(long, value_name = "URL", default_value = super::ISSUER, requires = "member")]
    pub(crate) issuer: String,
}

/// `team remove`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team remove ann
  toolrack team remove u-17 --issuer https://login.example")]
pub(crate) struct RemoveMemberArgs {
    /// The name of the member; with --issuer, the id at the issuer
    #[arg(value_name = "MEMBER")]
    pub(crate) member: String,
    /// The identity provider at which the member signs in; members that `team token` adds have none
    #[arg(long, value_name = "URL", default_value = super::ISSUER)]
    pub(crate) issuer: String,
}

/// Parses the name of a profile.
fn profile(word: &str) -> Result<String, String> {
    let name = ToolProfile::is_name(word).then(|| word.to_owned());
    name.ok_or_else(|| "the name of a profile has 1 to 64 letters, digits, `-` and `_`".to_owned())
}

/// `team audit`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team audit --team team.toml
  toolrack team audit --team team.toml --tenant acme --since 1h --denied
  toolrack team audit --team team.toml --server github --limit 200 --json")]
pub(crate) struct TeamAuditArgs {
    /// The team file, as `serve --team` reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) team: PathBuf,

    /// Only rows about this tenant, including changes of its members
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,

    #[command(flatten)]
    pub(crate) newest: NewestRows,
}

/// `team quotas`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team quotas --team team.toml
  toolrack team quotas --team team.toml --tenant acme --json

The daemon stores the use at least every ten seconds. How many calls run at this moment (`calls_at_once`) is not \
stored: ask the daemon itself, with `GET /api/v1/quotas`.")]
pub(crate) struct TeamQuotasArgs {
    /// The team file, as `serve --team` reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) team: PathBuf,

    /// Only quotas of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) tenant: Option<String>,
}

/// `team replicas`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack team replicas --team team.toml
  toolrack team replicas --team team.toml --json

A replica stays in the list until another one removes it, `heartbeat_timeout` after its last heartbeat.")]
pub(crate) struct ReplicasArgs {
    /// The team file, as `serve --team` reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) team: PathBuf,
}

/// Parses a time of up to ten years.
fn token_life(word: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(word).ok_or("write a time such as 90d, 2w or 12h")?;
    match (60.0..=3650.0 * 86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err("it must be between 1m and 3650d".to_owned()),
    }
}
