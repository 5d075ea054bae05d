//! The verbs about the rules for calls.

use clap::{Args, Subcommand};

/// `policy …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack policy test fs/write_file path=/etc/hosts
  toolrack policy list
  toolrack policy answers")]
pub(crate) enum PolicyVerb {
    /// Say whether a call would run, which rule decides that, and why other rules do not; calls and starts nothing
    Test(TestPolicyArgs),
    /// Show every rule, with where it is written
    #[command(after_help = "Examples:
  toolrack policy list
  toolrack policy list --agent reviewer --json")]
    List,
    /// Show the tools that always run because you said so when asked
    #[command(after_help = "Examples:
  toolrack policy answers
  toolrack policy answers --json")]
    Answers,
    /// Take such answers back: you are asked again
    Forget(ForgetAnswersArgs),
}

/// `policy test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack policy test fs/write_file path=/etc/hosts
  toolrack policy test fs/write_file path=notes.md --client gateway/claude-code
  toolrack policy test github/create_issue --client cli --json")]
pub(crate) struct TestPolicyArgs {
    /// Which tool: server/tool
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,

    /// Arguments: name=value, or name:=JSON
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// Who would call: agent, gateway, api, cli or program, and behind a / what it calls itself
    #[arg(long, value_name = "CLIENT", default_value = "agent")]
    pub(crate) client: String,
}

/// `policy forget`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack policy forget fs/write_file
  toolrack policy forget fs
  toolrack policy forget --all")]
pub(crate) struct ForgetAnswersArgs {
    /// About which tool: server/tool, or a server for all of its tools
    #[arg(value_name = "TOOL", required_unless_present = "all")]
    pub(crate) about: Option<String>,

    /// All of them
    #[arg(long, conflicts_with = "about")]
    pub(crate) all: bool,
}
