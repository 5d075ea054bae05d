//! Bounds on the time of a server, and on the size of its messages.

use std::time::Duration;

/// Time bounds of one server. The error of a reached bound names its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The time from the start to the end of the handshake. Configured as `startup_timeout`. Default 30 s.
    pub startup: Duration,
    /// The time for one complete listing, all pages. Configured as `list_timeout`. Default 30 s.
    pub list: Duration,
    /// The longest silence in a call; progress restarts it. Configured as `call_timeout`. Default 60 s.
    pub call: Duration,
    /// The longest total time of a call, even with progress. Configured as `max_call_time`. Default 10 min. A question
    /// to a user pauses both clocks.
    pub call_total: Duration,
    /// The time of each of the two waits of a shutdown (after closing stdin, after TERM). Configured as
    /// `shutdown_timeout`. Default 2 s.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            startup: Duration::from_secs(30),
            list: Duration::from_secs(30),
            call: Duration::from_secs(60),
            call_total: Duration::from_secs(600),
            shutdown: Duration::from_secs(2),
        }
    }
}

/// Size and count bounds of one server. The error or counted warning of a reached bound names its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The size of one message on the wire: a stdio line, a JSON body, an SSE event. Configured as `max_message_bytes`.
    /// Default 8 MiB.
    pub message_bytes: usize,
    /// The text of one result for the model; the rest is stored as an artifact. Configured as `max_output_bytes`.
    /// Default 200,000 bytes.
    pub output_bytes: usize,
    /// The pages of one listing. Configured as `max_list_pages`. Default 1,000.
    pub pages: usize,
    /// The items of one listing. Configured as `max_list_items`. Default 100,000.
    pub items: usize,
    /// The size of one response to a list request, instead of [`Self::message_bytes`], and of all pages of one listing
    /// together. Configured as `max_list_bytes`. Default 64 MiB.
    pub listing_bytes: usize,
    /// How deep arrays and objects may nest in one item of a list, such as the schema of a tool. An item that nests
    /// deeper is left out, and the others are used. Configured as `max_schema_depth`. Default 64; at most
    /// [`Self::MOST_SCHEMA_DEPTH`].
    pub schema_depth: usize,
    /// The concurrent calls and lists of prompts and resources; the next one waits within its own time-out. Configured
    /// as `max_calls_in_flight`. Default 64.
    pub in_flight: usize,
    /// The concurrently answered requests of the server. More are refused, or wait if they are questions of one answer
    /// (2026-07-28). Configured as `max_server_requests`. Default 8.
    pub server_requests: usize,
}

impl Limits {
    /// The largest [`Self::schema_depth`]: deeper schemas cannot be parsed.
    pub const MOST_SCHEMA_DEPTH: usize = 100;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 8 * 1024 * 1024,
            output_bytes: 200_000,
            pages: 1_000,
            items: 100_000,
            listing_bytes: 64 * 1024 * 1024,
            schema_depth: 64,
            in_flight: 64,
            server_requests: 8,
        }
    }
}
