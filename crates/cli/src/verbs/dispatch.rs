//! Makes the command line and its dispatch from the list of verbs.

/// How a verb is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In a world whose configuration is sound.
    Sound,
    /// As [`Self::Sound`], and a running daemon can do it for the process that was asked to.
    Lent,
    /// In any world: it shows what is wrong with the configuration.
    Broken,
    /// Without a world: it uses nothing outside the program, so it works where nothing else does.
    Alone,
}

/// Makes [`Verb`](super::Verb) of lines `Name(Words) => function;`.
///
/// The function takes the words and a world. `words` hands it the whole command line between these two, `lent` and
/// `broken` choose a [`Way`], and `alone` hands it the whole command line and a screen instead of a world.
macro_rules! verbs {
    ($($(#[$($about:tt)*])* $name:ident($words:ty) => $run:path $(, $way:ident)?;)+) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Verb {
            $($(#[$($about)*])* $name($words),)+
        }

        impl Verb {
            /// How it is run.
            pub(crate) fn way(&self) -> Way {
                match self {
                    $(Self::$name(_) => $crate::verbs::dispatch::way!($($way)?),)+
                }
            }

            /// Runs it; `words` is the whole command line it came from.
            ///
            /// # Errors
            /// As the verb says, and when the configuration is broken and the verb needs it.
            pub(crate) async fn run(
                self,
                words: &[std::ffi::OsString],
                world: &$crate::wire::World,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                if matches!(self.way(), Way::Sound | Way::Lent) {
                    world.refuse_broken().await?;
                }
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run!($run, args, words, world $(, $way)?),)+
                }
            }

            /// Runs it in the world of a daemon, if it [can be lent](Way::Lent).
            ///
            /// # Errors
            /// As [`Self::run`]; any other verb is refused.
            pub(crate) async fn run_lent(
                self,
                world: &$crate::wire::World,
            ) -> Result<$crate::error::Exit, $crate::error::Failure> {
                world.refuse_broken().await?;
                match self {
                    $(Self::$name(args) => $crate::verbs::dispatch::run_lent!($run, args, world $(, $way)?),)+
                }
            }
        }
    };
}

/// The [`Way`] that a line of the list names.
macro_rules! way {
    ($(words)?) => {
        Way::Sound
    };
    (lent) => {
        Way::Lent
    };
    (broken) => {
        Way::Broken
    };
    (alone) => {
        Way::Alone
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

/// As [`run`], for a daemon: what a daemon cannot do must not be part of it, because `serve` is a verb too.
macro_rules! run_lent {
    ($run:path, $args:ident, $world:ident, lent) => {
        $run($args, $world).await
    };
    ($run:path, $args:ident, $world:ident $(, $way:ident)?) => {{
        let _ = $args;
        Err($crate::error::Failure::new($crate::error::Exit::Other, "INTERNAL", "a daemon cannot run this command"))
    }};
}

pub(super) use {run, run_lent, verbs, way};
