//! The verbs are the subcommands of the program. Most of them load the configuration, connect the servers, ask the host
//! (which runs the servers) and show the answer.
//!
//! Each verb has one file, or a file and a folder of the same name. They contain the arguments (`args`), the work, and
//! the output (`render`). The rest of the program knows only the list below. A new verb needs its file, a `mod` in the
//! folder of similar verbs, and a line here. A verb prints its result and returns. Afterwards, [`crate::run`] closes
//! what the verb started, even if the verb was interrupted.

pub(crate) mod about_program;
mod command_line;
mod configure;
mod dispatch;
mod input;
mod look;
pub(crate) mod offers;
mod reach;
mod safety;
mod serving;
mod talk;

use std::{
    io::{self, IsTerminal as _},
    path::Path,
};

use crate::{
    args::{self, Global, OffersArgs},
    error::Failure,
    output,
};

pub(crate) use command_line::{Cli, take_inline_configurations};
pub(crate) use dispatch::RunMode;
use safety::secret::args::SecretVerb;

// Each line is `Name(arguments) => function, options;`. Verbs with `lent` can run in a daemon, and those with `broken`
// run even if the configuration is broken. Those with `alone` read no configuration and connect to nothing, so they
// work even while a package is built. Functions with `words` get the whole command line. Verbs with `tape` use servers,
// so that `record` and `replay` can run them.
dispatch::verbs! {
    /// Add a server to the configuration and try it
    Add(configure::add::args::AddArgs) => configure::add::run, words;
    /// Add a server that is written as JSON
    AddJson(configure::add::args::AddJsonArgs) => configure::add::add_json;
    /// Add servers that other programs on this machine have configured
    Import(configure::import::ImportArgs) => configure::import::run;
    /// Connect to all servers and show their states
    List(look::list::ListArgs) => look::list::run, lent, tape;
    /// Show how a server is configured, and where
    Get(configure::get::GetArgs) => configure::get::run;
    /// Remove a server from the configuration
    Remove(configure::remove::RemoveArgs) => configure::remove::run;
    /// Switch a server on
    Enable(configure::switch::SwitchArgs) => configure::switch::enable;
    /// Switch a server off without removing it
    Disable(configure::switch::SwitchArgs) => configure::switch::disable;
    /// Show the tools of the servers
    Tools(offers::tools::ToolsArgs) => offers::tools::run, lent, tape;
    /// Call a tool and print its result
    Call(offers::call::CallArgs) => offers::call::run, lent, tape;
    /// Ask a model, which may call the tools of the servers
    Ask(Box<talk::ask::AskArgs>) => talk::ask::run, tape;
    /// Talk with a model, which may call the tools of the servers
    Chat(Box<talk::chat::ChatArgs>) => talk::chat::run, tape;
    /// Keep the servers running, with a dashboard, a control API and one MCP endpoint in front of all
    #[command(visible_alias = "up")]
    Serve(serving::serve::args::ServeArgs) => serving::serve::run;
    /// Run `serve` in the background: start, inspect and stop it
    #[command(subcommand)]
    Daemon(serving::daemon::DaemonVerb) => serving::daemon::run, words;
    /// Put Toolrack into the configuration of another program, or take it out again
    Connect(serving::connect::ConnectArgs) => serving::connect::run, broken;
    /// Run as an MCP server over stdio that has the tools of all servers
    Gateway(serving::gateway::GatewayArgs) => serving::gateway::run;
    /// Show the resources and resource templates of the servers
    #[command(after_help = "Examples:
  toolrack resources
  toolrack resources docs --json")]
    Resources(OffersArgs) => offers::resources::list, lent, tape;
    /// Print a resource
    Read(offers::resources::ReadArgs) => offers::resources::read, lent, tape;
    /// Show the prompts of the servers
    #[command(after_help = "Examples:
  toolrack prompts
  toolrack prompts github")]
    Prompts(OffersArgs) => offers::prompts::list, lent, tape;
    /// Fill in a prompt and print it
    Prompt(offers::prompts::PromptArgs) => offers::prompts::get, lent, tape;
    /// Run a command and record the messages of its servers
    Record(offers::recordings::RecordArgs) => offers::recordings::record;
    /// Run a command with answers from a recording, and start no server
    Replay(offers::recordings::ReplayArgs) => offers::recordings::replay;
    /// List, show, export and delete conversations with models
    #[command(subcommand)]
    Sessions(talk::sessions::args::SessionsVerb) => talk::sessions::run;
    /// Sign in to a server with a browser
    Login(safety::sign_in::args::LoginArgs) => safety::sign_in::login;
    /// Sign out of a server, and revoke its tokens
    Logout(safety::sign_in::args::LogoutArgs) => safety::sign_in::logout;
    /// Show where you are signed in
    #[command(subcommand)]
    Auth(safety::sign_in::args::AuthVerb) => safety::sign_in::auth;
    /// Explain why a tool is available, or why not
    Why(look::why::WhyArgs) => look::why::run, tape;
    /// Connect to servers step by step and show the result of each step
    Test(look::test::TestArgs) => look::test::run, tape;
    /// Show what servers wrote to stderr and to their log
    Logs(look::logs::LogsArgs) => look::logs::run;
    /// Show the audit log of calls and decisions, and check that it was not changed
    #[command(subcommand)]
    Audit(safety::audit::args::AuditVerb) => safety::audit::run;
    /// Show which calls run, which need your approval and which are refused, and why
    #[command(subcommand)]
    Policy(safety::policy::args::PolicyVerb) => safety::policy::run;
    /// Show what this project would start, and what waits for your agreement
    Pending(safety::trust::args::PendingArgs) => safety::trust::pending;
    /// Agree to run the servers of this project, and to use tools that have changed
    Trust(safety::trust::args::TrustArgs) => safety::trust::trust;
    /// Withdraw an agreement that you gave with `trust`
    Untrust(safety::trust::args::UntrustArgs) => safety::trust::untrust;
    /// Store secrets that entries name as ${secret:NAME}
    #[command(subcommand)]
    Secret(safety::secret::args::SecretVerb) => safety::secret::run;
    /// Manage the members of a team that `serve --team` serves, and their tokens
    #[command(subcommand)]
    Team(safety::team::args::TeamVerb) => safety::team::run;
    /// Move the data of Toolrack into another database
    #[command(subcommand)]
    Store(safety::store::args::StoreVerb) => safety::store::run, broken;
    /// Look for problems, and show what to do about them
    Doctor(look::doctor::DoctorArgs) => look::doctor::run, broken;
    /// Show the configuration files that are used, their combined configuration, and their problems
    #[command(subcommand)]
    Config(configure::config::ConfigVerb) => configure::config::run, broken;
    #[command(flatten)]
    AboutProgram(about_program::args::AboutProgram) => about_program::run, alone;
}

impl Verb {
    /// The team file that the command line names. It says which database the command uses.
    pub(crate) fn team_file(&self) -> Option<&Path> {
        match self {
            Self::Serve(args) => args.team.as_deref(),
            Self::Team(verb) => verb.team_file(),
            _ => None,
        }
    }

    /// Checks what only the user's own process can check, such as its stdin. Called before servers are started, and
    /// before a daemon is asked to run the verb.
    ///
    /// # Errors
    /// When two options want stdin, when the file of `--output` cannot be written, or when `--output` and `--json` are
    /// combined.
    pub(crate) fn check(&self, global: &Global) -> Result<(), Failure> {
        let json = global.json;
        let takes_stdin = match self {
            Self::Gateway(_) | Self::Chat(_) => true,
            Self::Call(args) => args.args.as_deref() == Some("-"),
            Self::AddJson(args) => args.entry == "-",
            Self::Serve(args) => args.with_parent,
            // At a terminal, the user types the value.
            Self::Secret(SecretVerb::Set(_)) => !io::stdin().is_terminal(),
            _ => false,
        };
        if takes_stdin && global.mcp_config.iter().any(|word| args::is_stdin(word)) {
            return Err(Failure::usage(
                "this command reads stdin for something else, so `--mcp-config -` cannot read it",
            )
            .hint("write the configuration into a file, or give it as JSON"));
        }
        let output = match self {
            Self::Call(args) => args.output.as_deref(),
            Self::Read(args) => args.output.as_deref(),
            _ => None,
        };
        match output {
            // clap detects this only if both options come after the verb.
            Some(_) if json => {
                Err(Failure::usage("`--output` writes content as it is, and `--json` prints a document: leave one out"))
            }
            Some(file) if !output::is_stdout(file) => output::check_writable(file),
            _ => Ok(()),
        }
    }
}
