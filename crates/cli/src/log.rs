//! Writes diagnostics to stderr, for `-v`.

use std::io::{self, Write};

use toolrack_host::text;
use tracing::subscriber::set_global_default;
use tracing_subscriber::{EnvFilter, Layer as _, layer::SubscriberExt as _};

use crate::{args::Global, traces::Traces};

/// Starts logging: warnings, and more with each `-v`. The messages of `rmcp` are limited to errors, and to warnings
/// with `-vv`, because it logs session ids. Those of `sqlx` are limited to warnings (slow statements), because it logs
/// every statement. Spans go to `traces`.
///
/// With `with_time`, each line says when it was written, for a log that is read later.
pub(crate) fn start(global: &Global, with_time: bool, traces: &Traces) {
    let filter = match (global.verbose, global.quiet) {
        (0, true) => "error,rmcp=error",
        (0, false) => "warn,rmcp=error",
        (1, _) => "info,rmcp=error",
        (_, _) => "debug,rmcp=warn,sqlx=warn",
    };
    let (filter, shows_targets) = (EnvFilter::new(filter), global.verbose > 1);
    // A second start, as in tests, has no effect. `try_init` is not used: whether it also logs the messages of the
    // crate `log` depends on a feature that any crate of the build can switch on.
    let _ = match traces.layer() {
        None => {
            let lines = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_target(shows_targets);
            let lines = lines.with_writer(|| EscapingStderr);
            match with_time {
                true => set_global_default(lines.finish()),
                false => set_global_default(lines.without_time().finish()),
            }
        }
        // The filter applies only to the log, not to the traces.
        Some(traces) => {
            let lines = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_target(shows_targets)
                .with_writer(|| EscapingStderr);
            let lines = if with_time { lines.boxed() } else { lines.without_time().boxed() };
            set_global_default(tracing_subscriber::registry().with(lines.with_filter(filter)).with(traces))
        }
    };
}

/// Writes lines that may contain foreign text to stderr, without anything that a terminal would interpret.
struct EscapingStderr;

impl Write for EscapingStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let escaped_line = text::for_line(text.trim_end_matches('\n'));
        let mut stderr = io::stderr().lock();
        writeln!(stderr, "{escaped_line}")?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
