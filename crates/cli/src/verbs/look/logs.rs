//! Runs `toolrack logs`.

mod render;

use std::time::Duration;

use clap::Args;
use serde::Serialize;
use toolrack_store::{LogLine, LogQuery};

use crate::{
    args::ServersArgs,
    context::Context,
    error::{Exit, Failure},
    verbs::configure::edits,
};
use render::Line;

/// `logs`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack logs github
  toolrack logs github --lines 200
  toolrack logs --follow")]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) filter: ServersArgs,

    /// Show at most this many of the newest lines
    #[arg(short = 'n', long, value_name = "COUNT", default_value_t = 50)]
    pub(crate) lines: usize,

    /// Wait for more, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
}

/// How often to look for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The most lines that are read at once while following.
const MAX_BATCH_LINES: usize = 1_000;

/// The output of `logs --json`. With `--follow`, each line of a log is one line of JSON instead.
#[derive(Debug, Serialize)]
struct Document<'a> {
    lines: Vec<Line<'a>>,
}

pub(crate) async fn run(args: LogsArgs, context: &Context) -> Result<Exit, Failure> {
    let loaded = context.load().await?;
    let mut servers = Vec::new();
    for name in &args.filter.servers {
        let source = edits::find_entry(&loaded, name)?.source.path.as_ref();
        // A server that no file configures has an empty source in the log.
        servers.push((name.clone(), source.map(|path| path.display().to_string()).unwrap_or_default()));
    }
    // With `--lines 0`, this also reads the newest line: `--follow` prints the lines after it.
    let query = LogQuery { servers, after: None, limit: args.lines.max(1) };
    let newest = context.stored_log_lines(&query).await?;
    let lines = if args.lines == 0 { &[] } else { &*newest };
    if context.screen.prints_json() && !args.follow {
        context.screen.document(&Document { lines: lines.iter().map(Line::from).collect() }).await?;
        return Ok(Exit::Ok);
    }
    if lines.is_empty() && !args.follow && args.lines > 0 {
        context.screen.note("nothing has been written yet; servers write while a command uses them");
    }
    show(lines, context).await?;
    if !args.follow {
        return Ok(Exit::Ok);
    }
    let last_id = newest.last().map_or(0, |line| line.id);
    follow(LogQuery { after: Some(last_id), limit: MAX_BATCH_LINES, ..query }, context).await
}

/// Shows the lines that `query` selects, and then new lines. Ends when the process is stopped, stdout is closed or the
/// store fails.
async fn follow(mut query: LogQuery, context: &Context) -> Result<Exit, Failure> {
    while !context.screen.is_stdout_closed() {
        let lines = context.stored_log_lines(&query).await?;
        query.after = lines.last().map(|line| line.id).or(query.after);
        show(&lines, context).await?;
        // After a full batch, more lines may be stored already.
        if lines.len() < query.limit {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
    Ok(Exit::Ok)
}

async fn show(lines: &[LogLine], context: &Context) -> Result<(), Failure> {
    if !context.screen.prints_json() {
        return context.screen.page(render::page(lines)).await;
    }
    for line in lines {
        context.screen.record(&Line::from(line)).await?;
    }
    Ok(())
}
