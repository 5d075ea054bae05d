//! Lists the layers of the sandbox: the parts of the Linux kernel that take rights from a server whose entry
//! (configuration) asks for a sandbox.

#[cfg(target_os = "linux")]
pub(crate) mod namespaces;
#[cfg(target_os = "linux")]
mod ruleset;
#[cfg(target_os = "linux")]
mod seccomp;

#[cfg(target_os = "linux")]
use crate::stage::{Command, Isolation};

macro_rules! layers {
    ($($(#[doc = $about:literal])+ $layer:ident $word:literal $module:ident;)+) => {
        /// A layer of the sandbox.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Layer {
            $($(#[doc = $about])+ $layer,)+
        }

        impl Layer {
            /// All layers, in the order in which a server's process enters them.
            pub const ALL: &[Self] = &[$(Self::$layer,)+];

            /// Returns the name for users.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$layer => $word,)+
                }
            }

            /// Returns a text for users: what the layer protects on this system, or why it protects nothing. Blocks for
            /// some milliseconds. To find out about namespaces, it starts the running program once more, which must
            /// call [`run_if_asked`](crate::run_if_asked).
            #[must_use]
            pub fn coverage(self) -> String {
                #[cfg(target_os = "linux")]
                return match self {
                    $(Self::$layer => $module::coverage(),)+
                };
                #[cfg(not(target_os = "linux"))]
                "not in this system: an entry with `sandbox` does not start".to_owned()
            }

            /// Takes the rights from this process that the server must not have. This process then becomes the server.
            ///
            /// # Errors
            /// The reason why the server must not start: the system cannot enforce this layer, or the entry names a
            /// file that does not exist.
            #[cfg(target_os = "linux")]
            pub(crate) fn apply(self, command: &Command<'_>, isolation: Option<Isolation>) -> Result<(), String> {
                match self {
                    $(Self::$layer => $module::apply(command, isolation),)+
                }
            }
        }
    };
}

// Every layer: its name for users, and the module with its functions `apply` and `coverage`.
layers! {
    /// Processes, shared memory, and the files that no entry names. A server also starts where the system lacks this
    /// layer.
    Namespaces "namespaces" namespaces;
    /// Files, TCP ports and signals.
    Landlock "landlock" ruleset;
    /// System calls.
    Seccomp "seccomp" seccomp;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test reads a page of the guide")]
    fn the_guide_names_every_layer() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/sandbox.md");
        let page = std::fs::read_to_string(page).unwrap();
        let layers = page.split("\n\n").find(|part| part.starts_with("**Layers.**")).unwrap().to_lowercase();
        for layer in Layer::ALL {
            assert!(layers.contains(layer.word()), "{layer:?}");
        }
    }
}
