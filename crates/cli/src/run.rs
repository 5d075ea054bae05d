//! From the words of the command line to the exit code.

use std::{ffi::OsString, process::ExitCode, sync::Arc};

use clap::{Parser, ValueEnum};
use toolrack_config::Environment;
use toolrack_host::Tracer;

use crate::{
    args::{Cli, Color, Global, Verb},
    completion,
    error::{Exit, Failure},
    guest::visit::{Visited, visit},
    log,
    screen::Screen,
    stop::Stop,
    traces::Traces,
    verbs,
    wire::World,
};

/// Runs the command that `words` (with the program's name in front) ask for.
pub(crate) fn run(words: Vec<OsString>) -> ExitCode {
    let environment = Environment::of_process();
    if completion::answer_if_asked(&words, &environment) {
        return Exit::Ok.into();
    }
    let cli = match Cli::try_parse_from(&words) {
        Ok(cli) => cli,
        Err(error) => return misunderstood(&error, &words, &environment).into(),
    };
    let is_detached = matches!(&cli.verb, Verb::Serve(args) if args.detached);
    let (traces, untraced) = Traces::begin(&environment);
    log::start(cli.global.verbose, cli.global.quiet, is_detached, &traces);
    let screen = Arc::new(Screen::new(&cli.global, &environment));
    if let Some(why) = untraced {
        screen.warning(&why);
    }
    let exit = match start(cli, words, environment, &screen, traces.tracer()) {
        Ok(exit) => exit,
        Err(failure) => {
            screen.failure(&failure);
            failure.exit
        }
    };
    traces.close();
    exit.into()
}

/// Help and versions are data and no mistake; everything else that clap says is one.
fn misunderstood(error: &clap::Error, words: &[OsString], environment: &Environment) -> Exit {
    let words = words.iter().map_while(|word| word.to_str().filter(|word| *word != "--"));
    let json = words.clone().any(|word| word == "--json");
    let screen = Screen::new(&Global { json, color: color_in(words), ..Global::default() }, environment);
    if !error.use_stderr() {
        screen.usage(error);
        return Exit::Ok;
    }
    if json {
        let rendered = error.render().to_string();
        let lines: Vec<_> = rendered.lines().map(str::trim).collect();
        let message = lines.first().copied().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        screen.failure(&Failure::usage(message).hint("toolrack --help"));
    } else {
        screen.usage(error);
    }
    Exit::Usage
}

/// What was said of colour in words that could not be understood as a whole.
fn color_in<'a>(mut words: impl Iterator<Item = &'a str>) -> Color {
    let mut color = Color::default();
    while let Some(word) = words.next() {
        let when = if word == "--color" { words.next() } else { word.strip_prefix("--color=") };
        if let Some(Ok(named)) = when.map(|when| Color::from_str(when, false)) {
            color = named;
        }
    }
    color
}

fn start(
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
        // It looks at nothing outside of the program, and so it works where nothing else does: in a package's build.
        Verb::Itself(verb) => runtime.block_on(verbs::itself::run(verb, &words, screen)),
        _ => runtime.block_on(to_the_end(cli, words, environment, screen, tracer)),
    };
    // A thread that waits for the terminal would hold an orderly shutdown up for ever.
    runtime.shutdown_background();
    result
}

/// Runs the verb, or drops it when a signal comes; either way everything that was started is closed.
async fn to_the_end(
    cli: Cli,
    words: Vec<OsString>,
    environment: Environment,
    screen: &Arc<Screen>,
    tracer: Option<Arc<dyn Tracer>>,
) -> Result<Exit, Failure> {
    let mut stop = Stop::new()?;
    // What Ctrl-C means in a conversation is its own business, and a daemon ends in its own way.
    let hears = match cli.verb {
        Verb::Chat(_) => Hears::Interrupts,
        Verb::Serve(_) => Hears::Everything,
        _ => Hears::Nothing,
    };
    let brought = match visit(&cli, &words, &environment, screen, &mut stop).await? {
        Visited::Done(exit) => return Ok(exit),
        Visited::Alone(brought) => brought,
    };
    let world = World::open(cli.global, environment, Arc::clone(screen)).await?.traced(tracer);
    if let Some(brought) = brought {
        world.bring(brought);
    }
    let result = tokio::select! {
        biased;
        exit = ended(&mut stop, hears) => Ok(exit),
        result = Box::pin(verbs::run(cli.verb, &words, &world)) => result,
    };
    screen.settle();
    if let Err(failure) = &result {
        screen.failure(failure);
    }
    let exit = result.unwrap_or_else(|failure| failure.exit);
    if hears != Hears::Nothing {
        // Each signal so far has had its meaning.
        stop = Stop::new()?;
    }
    tokio::select! {
        () = world.close() => Ok(exit),
        // Whoever presses Ctrl-C again does not want to wait; the supervisors end what is left.
        again = stop.requested() => Ok(again),
    }
}

/// Which signals a verb hears itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hears {
    Nothing,
    Interrupts,
    Everything,
}

/// The exit code of the signal that ends the verb.
async fn ended(stop: &mut Stop, hears: Hears) -> Exit {
    match hears {
        Hears::Nothing => stop.requested().await,
        Hears::Interrupts => stop.terminated().await,
        Hears::Everything => std::future::pending().await,
    }
}
