//! Defines the arguments of the verbs about the rules for calls.

use clap::{Args, Subcommand};

/// `policy …`.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  toolrack policy test fs/write_file path=/etc/hosts
  toolrack policy list
  toolrack policy answers")]
pub(crate) enum PolicyVerb {
    /// Show whether a call would run, which rule decides that, and why other rules do not; calls and starts nothing
    Test(TestPolicyArgs),
    /// Show every rule, and the place where it is written
    #[command(after_help = "Examples:
  toolrack policy list
  toolrack policy list --agent reviewer --json")]
    List,
    /// Show your standing answers: the tools that always run without a question
    #[command(after_help = "Examples:
  toolrack policy answers
  toolrack policy answers --json")]
    Answers,
    /// Delete standing answers, so that you are asked again
    Forget(ForgetAnswersArgs),
}

/// `policy test`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack policy test fs/write_file path=/etc/hosts
  toolrack policy test fs/write_file path=notes.md --client gateway/claude-code
  toolrack policy test github/create_issue --client cli --json")]
pub(crate) struct TestPolicyArgs {
    /// The tool: server/tool
    #[arg(value_name = "TOOL")]
    pub(crate) selector: String,

    /// Arguments: name=value, or name:=JSON
    #[arg(value_name = "NAME=VALUE")]
    pub(crate) arguments: Vec<String>,

    /// Who would call: agent, gateway, api, cli or program; after a / may follow the name that the client gives itself
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
    /// The tool whose answers to delete: server/tool, or a server for all of its tools
    #[arg(value_name = "TOOL", required_unless_present = "all")]
    pub(crate) about: Option<String>,

    /// Delete all standing answers
    #[arg(long, conflicts_with = "about")]
    pub(crate) all: bool,
}
