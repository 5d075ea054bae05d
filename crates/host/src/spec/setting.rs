//! The settings that errors name when a bound is reached.

use std::fmt;

use serde::Serialize;

macro_rules! settings {
    ($($variant:ident $key:literal $of:literal,)*) => {
        /// A bound of one server that its entry can set. Errors name bounds by this type, so that they never name a
        /// setting that does not exist.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        #[non_exhaustive]
        pub enum Setting {
            $(#[doc = concat!("`", $key, "`: ", $of, ".")] #[serde(rename = $key)] $variant,)*
        }

        impl Setting {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the key in an entry.
            #[must_use]
            pub fn key(self) -> &'static str {
                match self {
                    $(Self::$variant => $key,)*
                }
            }
        }
    };
}

settings! {
    StartupTimeout "startup_timeout" "see [`Timeouts::startup`](super::Timeouts::startup)",
    ListTimeout "list_timeout" "see [`Timeouts::list`](super::Timeouts::list)",
    CallTimeout "call_timeout" "see [`Timeouts::call`](super::Timeouts::call)",
    MaxCallTime "max_call_time" "see [`Timeouts::call_total`](super::Timeouts::call_total)",
    OpenTimeout "open_timeout" "see [`Http::open_timeout`](super::Http::open_timeout)",
    ReadTimeout "read_timeout" "see [`Http::read_timeout`](super::Http::read_timeout)",
    ProbeTimeout "probe_timeout" "see [`Http::probe_timeout`](super::Http::probe_timeout)",
    PostTimeout "post_timeout" "see [`Http::post_timeout`](super::Http::post_timeout)",
    MaxMessageBytes "max_message_bytes" "see [`Limits::message_bytes`](super::Limits::message_bytes)",
    MaxListBytes "max_list_bytes" "see [`Limits::listing_bytes`](super::Limits::listing_bytes)",
    MaxListItems "max_list_items" "see [`Limits::items`](super::Limits::items)",
    MaxListPages "max_list_pages" "see [`Limits::pages`](super::Limits::pages)",
    MaxSchemaDepth "max_schema_depth" "see [`Limits::schema_depth`](super::Limits::schema_depth)",
}

/// Writes the key.
impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.key())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_of_its_bound_names_each_setting_and_the_default() {
        let documentation = concat!(include_str!("bounds.rs"), include_str!("../spec.rs")).replace("\n    ///", "");
        for setting in Setting::ALL {
            let named = format!("Configured as `{setting}`.");
            let described = documentation.lines().find(|line| line.contains(&named));
            assert!(described.is_some_and(|line| line.contains("Default ")), "{setting}");
        }
    }
}
