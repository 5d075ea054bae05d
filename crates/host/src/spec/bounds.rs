//! Defines the bounds on the time of a server, and on the size of its messages.
//!
//! The table at the end is the only list of these bounds. A row has the documentation, the key in an entry (a server's
//! configuration), the field with its default, and, for a number, the least and the largest value. The macro `bounds!`
//! makes [`Timeouts`], [`Limits`] and [`Setting`] from the table, and the rows from which the JSON Schema and the
//! reference page of the configuration are written.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::Field;

/// The least and the largest value of a bound in bytes. A smaller value is most likely a mistake in the unit.
const BYTES_RANGE: (u64, u64) = (1024, 1024 * 1024 * 1024);

/// The least and the largest value of a bound on a number, such as the number of items or of calls.
const COUNT_RANGE: (u64, u64) = (1, 1_000_000);

macro_rules! bounds {
    (
        $(
            $(#[doc = $title:literal])+
            $name:ident {
                $($(#[doc = $about:literal])+ $variant:ident $key:literal $field:ident: $kind:ty = $default:expr $(, $range:expr)?;)+
            }
        )+
        // Further settings that errors name. Their rows are in `spec.rs`.
        others { $($other:ident $other_key:literal $see:literal;)+ }
    ) => {
        $(
            $(#[doc = $title])+
            #[derive(Clone, Debug, PartialEq, Eq)]
            pub struct $name {
                $(
                    $(#[doc = $about])+
                    #[doc = concat!("\n\nConfigured as `", $key, "`. Default `", stringify!($default), "`.")]
                    pub $field: $kind,
                )+
            }

            impl $name {
                /// The rows of its fields, in their order.
                pub const FIELDS: &[Field] = &[
                    $(field!(
                        $name.$field, $key, concat!($($about),+), Any, $kind, $default, kind!($kind $(, $range)?), ""
                    ),)+
                ];
            }

            impl Default for $name {
                fn default() -> Self {
                    Self { $($field: $default,)+ }
                }
            }
        )+

        /// A bound of one server that its entry can set. Errors name bounds by this type, so that they never name a
        /// setting that does not exist.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub enum Setting {
            $($(
                #[doc = concat!("`", $key, "`: see [`", stringify!($name), "::", stringify!($field), "`].")]
                #[serde(rename = $key)]
                $variant,
            )+)+
            $(#[doc = concat!("`", $other_key, "`: see [`", $see, "`](super::", $see, ").")] #[serde(rename = $other_key)] $other,)+
        }

        impl Setting {
            /// All variants.
            pub const ALL: &[Self] = &[$($(Self::$variant,)+)+ $(Self::$other,)+];

            /// Returns the key in an entry.
            #[must_use]
            pub fn key(self) -> &'static str {
                match self {
                    $($(Self::$variant => $key,)+)+
                    $(Self::$other => $other_key,)+
                }
            }
        }
    };
}

impl Limits {
    /// The largest [`Self::schema_depth`]: deeper schemas cannot be parsed.
    pub const MAX_SCHEMA_DEPTH: usize = 100;
}

/// Writes the key.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

bounds! {
    /// Time bounds of one server. The error of a reached bound names its setting.
    Timeouts {
        /// The time from the start of the server to a finished handshake.
        StartupTimeout "startup_timeout" startup: Duration = Duration::from_secs(30);
        /// The time for a complete list, such as that of the tools, with all of its pages.
        ListTimeout "list_timeout" list: Duration = Duration::from_secs(30);
        /// How long the server may be silent during a call. Progress restarts the time.
        CallTimeout "call_timeout" call: Duration = Duration::from_secs(60);
        /// The whole time of a call, whether it makes progress or not. If this is not set, it is at least
        /// `call_timeout`. A question to a user stops the clock.
        MaxCallTime "max_call_time" call_total: Duration = Duration::from_secs(600);
        /// Each of the two waits when the server is stopped: after its stdin was closed, and after TERM.
        ShutdownTimeout "shutdown_timeout" shutdown: Duration = Duration::from_secs(2);
    }

    /// Size and count bounds of one server. The error or counted warning of a reached bound names its setting.
    Limits {
        /// The largest message: a line over stdio, a JSON body, an event.
        MaxMessageBytes "max_message_bytes" message_bytes: usize = 8 * 1024 * 1024, BYTES_RANGE;
        /// The largest answer to a request for a list, and all pages of one list together.
        MaxListBytes "max_list_bytes" listing_bytes: usize = 64 * 1024 * 1024, BYTES_RANGE;
        /// How deep arrays and objects may nest in one item of a list, such as the schema of a tool. A deeper item is
        /// set aside.
        MaxSchemaDepth "max_schema_depth" schema_depth: usize = 64, (1, Self::MAX_SCHEMA_DEPTH as u64);
        /// How much text of a result goes to the model; the rest is kept as a file.
        MaxOutputBytes "max_output_bytes" output_bytes: usize = 200_000, (1, BYTES_RANGE.1);
        /// The pages of one list.
        MaxListPages "max_list_pages" pages: usize = 1_000, COUNT_RANGE;
        /// The items of one list.
        MaxListItems "max_list_items" items: usize = 100_000, COUNT_RANGE;
        /// The calls, and the lists of prompts and resources, that are under way at once. The next one waits for its
        /// turn.
        MaxCallsInFlight "max_calls_in_flight" in_flight: usize = 64, COUNT_RANGE;
        /// The requests of the server that are answered at the same time. Further ones are refused; only questions that
        /// came together in one answer (2026-07-28) wait.
        MaxServerRequests "max_server_requests" server_requests: usize = 8, COUNT_RANGE;
    }

    others {
        OpenTimeout "open_timeout" "Http::open_timeout";
        ReadTimeout "read_timeout" "Http::read_timeout";
        ProbeTimeout "probe_timeout" "Http::probe_timeout";
        PostTimeout "post_timeout" "Http::post_timeout";
    }
}
