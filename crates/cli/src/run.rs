//! Runs a command: parses the words of the command line, runs their verb, and returns the exit code.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::{CommandFactory as _, ValueEnum};
use toolrack_config::Environment;
use toolrack_host::Tracer;

use crate::{
    args::{Color, Global},
    asker,
    borrower::{self, BorrowOutcome},
    completion,
    context::{CommandLine, Context, DatabaseChoice, Surroundings, working_folder},
    error::{Exit, Failure},
    log,
    screen::Screen,
    stop::StopSignals,
    traces::Traces,
    verbs::{self, Cli, Verb},
};

/// Runs the command of the command line `words`, which begin with the program's name.
pub(crate) fn run(mut words: Vec<OsString>) -> ExitCode {
    let environment = Environment::of_process();
    if completion::answer_if_asked(&words, &environment) {
        return Exit::Ok.into();
    }
    if words.get(1).is_some_and(|word| word == "help") {
        words = with_help_option(&words);
    }
    let cli = match Cli::parse_words(&words) {
        Ok(cli) => cli,
        Err(error) => return show_clap_error(&error, &words, &environment).into(),
    };
    let is_detached = matches!(&cli.verb, Verb::Serve(args) if args.detached);
    let (traces, trace_problem) = Traces::begin(&environment);
    log::start(&cli.global, is_detached, &traces);
    let screen = Arc::new(Screen::new(&cli.global, &environment));
    if let Some(why) = trace_problem {
        screen.warning(&why);
    }
    let exit = match run_in_runtime(cli, words, environment, &screen, traces.tracer()) {
        Ok(exit) => exit,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit
        }
    };
    traces.close();
    exit.into()
}

/// Turns `toolrack help VERB` into `toolrack VERB --help`. Leaves out words behind the verb. Clap would take them, and
/// the `--help` behind them, for the arguments of the verb, and run it.
fn with_help_option(words: &[OsString]) -> Vec<OsString> {
    let root = Cli::command();
    let mut command = &root;
    let mut help_words: Vec<OsString> = words.iter().take(1).cloned().collect();
    for word in words.iter().skip(2) {
        match command.find_subcommand(word) {
            Some(subcommand) => command = subcommand,
            // Only the first word has to be a verb, so that a mistyped one is an error.
            None if help_words.len() > 1 => break,
            None => {
                help_words.push(word.clone());
                break;
            }
        }
        help_words.push(word.clone());
    }
    help_words.push("--help".into());
    help_words
}

/// Shows what clap reports: help and the version are data for stdout, everything else is a mistake of the user.
fn show_clap_error(error: &clap::Error, words: &[OsString], environment: &Environment) -> Exit {
    let words = words_before_dashes(words);
    let json = words.clone().any(|word| word == "--json");
    let screen = Screen::new(&Global { json, color: color_in(words), ..Global::default() }, environment);
    if !error.use_stderr() {
        screen.usage(error);
        return Exit::Ok;
    }
    if json {
        screen.failure(&one_line_failure(error));
    } else {
        screen.usage(error);
    }
    Exit::Usage
}

/// Returns the words of a command line that clap could not parse, up to a `--`. Leaves out words that are not text,
/// because they are no options.
fn words_before_dashes(words: &[OsString]) -> impl Iterator<Item = &str> + Clone {
    words.iter().take_while(|word| *word != "--").filter_map(|word| word.to_str())
}

/// Turns clap's error into a failure with a message of one line, for `--json`.
fn one_line_failure(error: &clap::Error) -> Failure {
    let rendered = error.render().to_string();
    let lines = || rendered.lines().map(str::trim).filter(|line| !line.is_empty());
    let usage = lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or("toolrack");
    let is_name = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let command = usage.split(' ').take_while(is_name).collect::<Vec<_>>().join(" ");
    let help = format!("{command} --help");
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::usage(format!("`{command}` takes a command")).hint(help);
    }
    let tip = lines().find_map(|line| line.strip_prefix("tip: ").map(str::to_owned));
    let message =
        lines().take_while(|line| !["tip: ", "Usage: ", "For more"].iter().any(|start| line.starts_with(start)));
    let message = message.collect::<Vec<_>>().join(" ");
    Failure::usage(message.strip_prefix("error: ").unwrap_or(&message)).hint(tip.unwrap_or(help))
}

/// Finds the value of `--color` in a command line that clap could not parse.
fn color_in<'a>(mut words: impl Iterator<Item = &'a str>) -> Color {
    let mut color = Color::default();
    while let Some(word) = words.next() {
        let value = if word == "--color" { words.next() } else { word.strip_prefix("--color=") };
        if let Some(Ok(typed_color)) = value.map(|value| Color::from_str(value, false)) {
            color = typed_color;
        }
    }
    color
}

fn run_in_runtime(
    cli: Cli,
    words: Vec<OsString>,
    environment: Environment,
    screen: &Arc<Screen>,
    tracer: Option<Arc<dyn Tracer>>,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Other, "INTERNAL", format!("cannot start: {error}")))?;
    let result = match cli.verb {
        // Such a verb reads no configuration, so it works everywhere, even while a package is built.
        Verb::AboutProgram(verb) => runtime.block_on(verbs::about_program::run(verb, &words, screen)),
        _ => runtime.block_on(run_verb(cli, words, environment, screen, tracer)),
    };
    // A thread that waits for the terminal would block an orderly shutdown forever.
    runtime.shutdown_background();
    result
}

/// Runs the verb until it ends or a signal stops it, then closes everything that it has opened.
async fn run_verb(
    mut cli: Cli,
    words: Vec<OsString>,
    environment: Environment,
    screen: &Arc<Screen>,
    tracer: Option<Arc<dyn Tracer>>,
) -> Result<Exit, Failure> {
    let mut stop = StopSignals::new()?;
    let own_signals = OwnSignals::for_verb(&cli.verb);
    cli.verb.check(&cli.global)?;
    let args_text = match borrower::run(&cli, &words, &environment, screen, &mut stop).await? {
        BorrowOutcome::Done(exit) => return Ok(exit),
        BorrowOutcome::RunAlone(args_text) => args_text,
    };
    let inline_configs = tokio::select! {
        biased;
        exit = stop.requested() => return Ok(exit),
        inline_configs = verbs::take_inline_configurations(&mut cli.global, screen) => inline_configs?,
    };
    tokio::select! {
        biased;
        exit = stop.requested() => return Ok(exit),
        result = asker::read_answers_file(&mut cli.global) => result?,
    }
    let database_choice = cli.verb.team_file().map_or(DatabaseChoice::InDataFolder, DatabaseChoice::OfTeamFile);
    let command_line = CommandLine { global: cli.global, inline_configs, args_text };
    let surroundings = Surroundings { environment, folder: working_folder()?, screen: Arc::clone(screen), tracer };
    let context = tokio::select! {
        biased;
        // The database may be on a server that does not answer.
        exit = stop.requested() => return Ok(exit),
        context = Context::open(command_line, surroundings, database_choice) => context?,
    };
    let result = tokio::select! {
        biased;
        exit = wait_for_signal(&mut stop, own_signals) => Ok(exit),
        result = Box::pin(cli.verb.run(&words, &context)) => result,
    };
    // If the given answers did not match a form, that is the reason for all later failures.
    let result = context.terminal().form_failure().map_or(result, Err);
    screen.end_status_line();
    if let Err(failure) = &result {
        screen.failure(failure);
    }
    let exit = result.unwrap_or_else(|failure| failure.exit);
    if own_signals != OwnSignals::Nothing {
        // Forget the signals that the verb has handled itself.
        stop = StopSignals::new()?;
    }
    tokio::select! {
        result = close(&context) => match result {
            Err(failure) if exit == Exit::Ok => Err(failure),
            Err(failure) => {
                screen.failure(&failure);
                Ok(exit)
            }
            Ok(()) => Ok(exit),
        },
        // A user who presses Ctrl-C again does not want to wait; the supervisors (the parent processes of servers) end
        // the remaining processes.
        exit = stop.requested() => Ok(exit),
    }
}

/// Closes everything that the verb has opened, and writes the recording if there is one.
async fn close(context: &Context) -> Result<(), Failure> {
    context.close().await;
    if let Ok(store) = context.store() {
        store.close_at_exit().await;
    }
    if let Some(database_server) = context.database_server() {
        Box::pin(database_server.close()).await;
    }
    context.write_recording().await
}

/// The signals that a verb handles itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnSignals {
    Nothing,
    Interrupts,
    Everything,
}

impl OwnSignals {
    /// A conversation handles Ctrl-C itself, and a daemon handles all signals.
    fn for_verb(verb: &Verb) -> Self {
        match verb {
            Verb::Chat(_) => Self::Interrupts,
            Verb::Serve(_) => Self::Everything,
            _ => Self::Nothing,
        }
    }
}

/// Waits for a signal that ends the verb. Returns its exit code.
async fn wait_for_signal(stop: &mut StopSignals, own_signals: OwnSignals) -> Exit {
    match own_signals {
        OwnSignals::Nothing => stop.requested().await,
        OwnSignals::Interrupts => stop.terminated().await,
        OwnSignals::Everything => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    #[test]
    fn help_for_a_verb_never_runs_it() {
        for (words, expected) in [
            ("toolrack help", "toolrack --help"),
            ("toolrack help call", "toolrack call --help"),
            ("toolrack help policy test", "toolrack policy test --help"),
            ("toolrack help add fs npx -y server", "toolrack add --help"),
            ("toolrack help call -- npx server", "toolrack call --help"),
            ("toolrack help no-such-verb", "toolrack no-such-verb --help"),
            ("toolrack help --json call", "toolrack --json --help"),
        ] {
            let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
            let expected: Vec<OsString> = expected.split(' ').map(OsString::from).collect();
            assert_eq!(with_help_option(&words), expected);
        }
    }

    #[test]
    fn options_are_found_behind_a_word_that_is_not_text_and_not_behind_dashes() {
        let mut words: Vec<OsString> =
            ["toolrack", "call", "x", "--json", "--", "--color=never"].map(OsString::from).into();
        words[2] = OsString::from_vec(vec![0xff]);
        assert_eq!(words_before_dashes(&words).collect::<Vec<_>>(), ["toolrack", "call", "--json"]);
        assert_eq!(color_in(words_before_dashes(&words)), Color::Auto);
    }
}
