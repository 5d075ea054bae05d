//! Turns the list of verbs into an enum for clap, and into the code that runs each verb.
//!
//! The [`Context`](crate::context::Context) is what a command works with: its configuration, database, screen and
//! servers. A running daemon can run a verb for the process of a command; it then lends that verb a context with the
//! daemon's servers.

/// How a verb is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// The verb runs only if the configuration is valid.
    NeedsValidConfig,
    /// Like [`Self::NeedsValidConfig`], but a running daemon can run the verb in place of the command's own process.
    Lent,
    /// The verb runs even if the configuration is broken, because it shows the problems.
    AcceptsBrokenConfig,
    /// The verb reads no configuration and connects to nothing, so it always works.
    WithoutConfig,
}

/// Makes [`Verb`](super::Verb) from lines of the form `Name(Args) => function;` or `Name(Args) => function, options;`.
///
/// The function gets the arguments and the context. With the option `words`, it gets the arguments, the whole command
/// line and the context. With `alone`, it gets the arguments, the whole command line and the screen. `lent`, `broken`
/// and `alone` also choose a [`RunMode`]. The option `tape` stands after them: `record` and `replay` can run the verb.
macro_rules! verbs {
    ($($(#[$($about:tt)*])* $name:ident($args:ty) => $run:path $(, $option:ident)*;)+) => {
        /// A verb with its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Verb {
            $($(#[$($about)*])* $name($args),)+
        }

        impl Verb {
            /// How the verb is run.
            pub(crate) fn run_mode(&self) -> RunMode {
                match self {
                    $(Self::$name(_) => $crate::verbs::dispatch::run_mode!($($option)*),)+
                }
            }

            /// Returns whether `record` and `replay` can run the verb, because it uses servers.
            pub(crate) fn runs_with_tape(&self) -> bool {
                match self {
                    $(Self::$name(_) => $crate::verbs::dispatch::runs_with_tape!($($option)*),)+
                }
            }

            /// Runs the verb; `words` is the whole command line.
            ///
            /// # Errors
            /// The verb's own failures, and a broken configuration if the verb needs a valid one.
            pub(crate) async fn run(
                self,
                words: &[std::ffi::OsString],
                context: &$crate::context::Context,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                if matches!(self.run_mode(), RunMode::NeedsValidConfig | RunMode::Lent) {
                    context.check_strict().await?;
                }
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run!($run, args, words, context $(, $option)*),)+
                }
            }

            /// Runs the verb in a context that a daemon lends, if it [can be lent](RunMode::Lent).
            ///
            /// # Errors
            /// As [`Self::run`]; any other verb is refused.
            pub(crate) async fn run_lent(
                self,
                context: &$crate::context::Context,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                context.check_strict().await?;
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run_lent!($run, args, context $(, $option)*),)+
                }
            }
        }
    };
}

/// Turns the options of a line into a [`RunMode`]. Without an option, with `words`, and with `tape` alone, the mode is
/// `NeedsValidConfig`.
macro_rules! run_mode {
    ($(words)? $(tape)?) => {
        RunMode::NeedsValidConfig
    };
    (lent $(tape)?) => {
        RunMode::Lent
    };
    (broken) => {
        RunMode::AcceptsBrokenConfig
    };
    (alone) => {
        RunMode::WithoutConfig
    };
}

/// Turns the options of a line into whether `record` and `replay` can run the verb.
macro_rules! runs_with_tape {
    ($(lent)? tape) => {
        true
    };
    ($($other:ident)?) => {
        false
    };
}

/// Calls the function of a verb. Verbs with `lent` are run most often, so their futures are not boxed.
macro_rules! run {
    ($run:path, $args:ident, $words:ident, $context:ident, lent $(, tape)?) => {
        $run($args, $context).await
    };
    ($run:path, $args:ident, $words:ident, $context:ident, words) => {
        Box::pin($run($args, $words, $context)).await
    };
    ($run:path, $args:ident, $words:ident, $context:ident, alone) => {
        Box::pin($run($args, $words, &$context.screen)).await
    };
    ($run:path, $args:ident, $words:ident, $context:ident $(, broken)? $(, tape)?) => {
        Box::pin($run($args, $context)).await
    };
}

/// Like [`run`], but for a daemon. Must not call verbs that a daemon cannot run: `serve` calls this, so its future
/// would contain itself.
macro_rules! run_lent {
    ($run:path, $args:ident, $context:ident, lent $(, tape)?) => {
        $run($args, $context).await
    };
    ($run:path, $args:ident, $context:ident $(, $option:ident)*) => {{
        let _ = $args;
        Err($crate::error::Failure::new($crate::error::Exit::Other, "INTERNAL", "a daemon cannot run this command"))
    }};
}

pub(super) use {run, run_lent, run_mode, runs_with_tape, verbs};
