//! Runs scripts of models in a sandbox.
//!
//! [`QuickJs`] is the [`Interpreter`] for a server that [`Host::scripts`](toolrack_host::Host::scripts) makes. It runs
//! JavaScript that calls tools as functions, several at once if the script wants. The model sees only the output of the
//! script. A script has only the language and its tools: no files, no network, no modules, no timers, no other thread.
//!
//! The modules:
//! - `run` starts a thread for a script, receives the script's requests from that thread, makes the calls with
//!   [`ScriptTools`] of `toolrack-host`, and sends the answers back.
//! - `engine` runs on that thread, with QuickJS and the one script.
//! - `watch` is the state that `run` and `engine` share: the output, the deadline, and whether one of them has ended.
//!
//! ```no_run
//! use std::sync::Arc;
//! use toolrack_code::QuickJs;
//! use toolrack_host::{Desired, Host, Selection, ServerName, ServerSpec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().environment(std::env::vars_os()).build();
//! let files = ServerSpec::stdio("npx", ["-y", "@modelcontextprotocol/server-filesystem", "."]);
//! let mut desired = Desired::from([(ServerName::new("files")?, files)]);
//! host.apply(desired.clone()).await;
//! host.settled().await;
//! let name = ServerName::new("code")?;
//! desired.insert(name.clone(), host.scripts(&name, Selection::all(), Arc::new(QuickJs::default())));
//! host.apply(desired).await;
//! host.settled().await;
//! # Ok(())
//! # }
//! ```

mod engine;
mod run;
mod watch;

use std::{fmt::Write as _, num::NonZeroUsize, time::Duration};

use futures::future::BoxFuture;
use toolrack_host::{Interpreter, ScriptOutput, ScriptTools};

use crate::watch::AbandonedThreads;

/// The bounds of one script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bounds {
    /// How long the script may compute in total. The time for which it waits for tools does not count, because each
    /// call has its own time-outs. Default 10 s.
    pub compute: Duration,
    /// How much memory the script may use, in bytes. Default 64 MiB.
    pub memory: usize,
    /// How many calls the script may make, searches included. Default 100.
    pub calls: NonZeroUsize,
    /// How many calls run at once; further calls wait. Default 8.
    pub parallel: NonZeroUsize,
    /// How many bytes the script may print. Longer output is cut, with a note for the model. Default 200,000.
    pub output: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            compute: Duration::from_secs(10),
            memory: 64 * 1024 * 1024,
            calls: const { NonZeroUsize::new(100).expect("a hundred is not zero") },
            parallel: const { NonZeroUsize::new(8).expect("eight is not zero") },
            output: 200_000,
        }
    }
}

/// JavaScript in QuickJS: a fresh interpreter for each script, on a thread of its own.
///
/// When the time of a script is over, or its caller stops waiting, QuickJS ends the script at its next step. Some steps
/// take very long, such as comparing long texts. The caller then gets its answer at once, and the thread, now
/// abandoned, continues until that step is done. While four abandoned threads of one `QuickJs` and its clones run, it
/// refuses further scripts. A dropped runtime and an exiting process do not wait for these threads.
#[derive(Clone, Debug)]
pub struct QuickJs {
    bounds: Bounds,
    manual: String,
    abandoned_threads: AbandonedThreads,
}

impl QuickJs {
    /// Runs scripts within `bounds`.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let Bounds { compute, memory, calls, output, .. } = bounds;
        let mut manual = include_str!("manual.txt").trim_end().to_owned();
        let _ = write!(
            manual,
            " A script may compute for {} s with {} MiB, make {calls} calls and print {output} bytes.\nTools:",
            compute.as_secs_f32(),
            memory / (1024 * 1024),
        );
        Self { bounds, manual, abandoned_threads: AbandonedThreads::default() }
    }
}

impl Default for QuickJs {
    fn default() -> Self {
        Self::new(Bounds::default())
    }
}

impl Interpreter for QuickJs {
    fn manual(&self) -> &str {
        &self.manual
    }

    fn signature(&self, server: &str, tool: &str, parameters: &[String], result: &str) -> String {
        let argument_object =
            if parameters.is_empty() { String::new() } else { format!("{{ {} }}", parameters.join(", ")) };
        format!("tools{}{}({argument_object}): {result}", member_access(server), member_access(tool))
    }

    fn run(&self, code: String, tools: ScriptTools) -> BoxFuture<'_, ScriptOutput> {
        Box::pin(run::run(code, tools, self.bounds, &self.abandoned_threads))
    }
}

/// Returns the JavaScript that accesses a member: `.name`, or `["name"]` if `name` is not an identifier.
fn member_access(name: &str) -> String {
    let is_identifier = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || char == '$');
    if is_identifier && !name.starts_with(|first: char| first.is_ascii_digit()) && !name.is_empty() {
        format!(".{name}")
    } else {
        format!("[{}]", serde_json::Value::from(name))
    }
}

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_javascript_that_a_model_can_copy() {
        let js = QuickJs::default();
        let parameters = ["path: string".to_owned(), "head?: integer".to_owned()];
        assert_eq!(
            js.signature("fs", "read", &parameters, "string"),
            "tools.fs.read({ path: string, head?: integer }): string"
        );
        assert_eq!(js.signature("my-fs", "2 \"x", &[], "any"), r#"tools["my-fs"]["2 \"x"](): any"#);
    }

    #[test]
    fn the_manual_names_the_bounds() {
        let manual = QuickJs::default().manual;
        assert!(manual.ends_with("compute for 10 s with 64 MiB, make 100 calls and print 200000 bytes.\nTools:"));
    }
}
