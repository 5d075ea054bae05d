//! Makes the command line and its dispatch from the list of verbs.

/// How a verb is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunMode {
    /// In a world whose configuration is valid.
    Sound,
    /// Like [`Self::Sound`], and a running daemon can run the verb for the process of the command.
    Lent,
    /// In any world, because the verb shows what is wrong with the configuration.
    Broken,
    /// Without a world: the verb uses nothing outside the program, so it always works.
    Alone,
}

/// Makes [`Verb`](super::Verb) from lines of the form `Name(Args) => function;` or `Name(Args) => function, option;`.
///
/// The function takes the arguments and a world. With the option `words`, it takes the whole command line between these
/// two; with `alone`, it takes the arguments, the whole command line, and a screen instead of a world. `lent`, `broken`
/// and `alone` also choose a [`RunMode`].
macro_rules! verbs {
    ($($(#[$($about:tt)*])* $name:ident($args:ty) => $run:path $(, $option:ident)?;)+) => {
        /// A verb with its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Verb {
            $($(#[$($about)*])* $name($args),)+
        }

        impl Verb {
            /// How the verb is run.
            pub(crate) fn run_mode(&self) -> RunMode {
                match self {
                    $(Self::$name(_) => $crate::verbs::dispatch::run_mode!($($option)?),)+
                }
            }

            /// Runs the verb; `words` is the whole command line.
            ///
            /// # Errors
            /// The verb's own failures, and a broken configuration if the verb needs a valid one.
            pub(crate) async fn run(
                self,
                words: &[std::ffi::OsString],
                world: &$crate::wire::World,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                if matches!(self.run_mode(), RunMode::Sound | RunMode::Lent) {
                    world.check_strict().await?;
                }
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run!($run, args, words, world $(, $option)?),)+
                }
            }

            /// Runs the verb in a world that a daemon lends, if it [can be lent](RunMode::Lent).
            ///
            /// # Errors
            /// As [`Self::run`]; any other verb is refused.
            pub(crate) async fn run_lent(
                self,
                world: &$crate::wire::World,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                world.check_strict().await?;
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run_lent!($run, args, world $(, $option)?),)+
                }
            }
        }
    };
}

/// The [`RunMode`] that a line of the list names.
macro_rules! run_mode {
    ($(words)?) => {
        RunMode::Sound
    };
    (lent) => {
        RunMode::Lent
    };
    (broken) => {
        RunMode::Broken
    };
    (alone) => {
        RunMode::Alone
    };
}

/// The call of a verb's function. Verbs that can be lent are run most often, so their futures are not boxed.
macro_rules! run {
    ($run:path, $args:ident, $words:ident, $world:ident, lent) => {
        $run($args, $world).await
    };
    ($run:path, $args:ident, $words:ident, $world:ident, words) => {
        Box::pin($run($args, $words, $world)).await
    };
    ($run:path, $args:ident, $words:ident, $world:ident, alone) => {
        Box::pin($run($args, $words, &$world.screen)).await
    };
    ($run:path, $args:ident, $words:ident, $world:ident $(, broken)?) => {
        Box::pin($run($args, $world)).await
    };
}

/// Like [`run`], but for a daemon. Must not call verbs that a daemon cannot run: `serve` calls this, so its future
/// would contain itself.
macro_rules! run_lent {
    ($run:path, $args:ident, $world:ident, lent) => {
        $run($args, $world).await
    };
    ($run:path, $args:ident, $world:ident $(, $option:ident)?) => {{
        let _ = $args;
        Err($crate::error::Failure::new($crate::error::Exit::Other, "INTERNAL", "a daemon cannot run this command"))
    }};
}

pub(super) use {run, run_lent, run_mode, verbs};
