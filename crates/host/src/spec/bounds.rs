//! Bounds on the time of a server, and on the size of its messages.

use std::time::Duration;

/// Time bounds of one server. Each is an error that names it when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From start to a finished handshake. Configured as `startup_timeout`. Default 30 s.
    pub startup: Duration,
    /// For one complete listing, all pages. Configured as `list_timeout`. Default 30 s.
    pub list: Duration,
    /// Silence in a call; progress starts it anew. Configured as `call_timeout`. Default 60 s.
    pub call: Duration,
    /// A call's whole time, whatever progress says. Configured as `max_call_time`. Default 10 min. A question to a
    /// person stops both clocks.
    pub call_total: Duration,
    /// Each of the two waits of a shutdown (after closing stdin, after TERM).
    /// Configured as `shutdown_timeout`. Default 2 s.
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

/// Size and count bounds of one server. Each is an error or a counted warning that names it when it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One message on the wire: a stdio line, a JSON body, an SSE event.
    /// Configured as `max_message_bytes`. Default 8 MiB.
    pub message_bytes: usize,
    /// Text of one result that goes to the model; the rest is kept as an artifact. Configured as `max_output_bytes`.
    /// Default 200,000 bytes.
    pub output_bytes: usize,
    /// Pages of one listing. Configured as `max_list_pages`. Default 1,000.
    pub pages: usize,
    /// Items of one listing. Configured as `max_list_items`. Default 100,000.
    pub items: usize,
    /// One response to a list request, in place of [`Self::message_bytes`], and all pages of one listing together.
    /// Configured as `max_list_bytes`. Default 64 MiB.
    pub listing_bytes: usize,
    /// How deep arrays and objects may nest in one item of a list, such as the schema of a tool. An item over it is set
    /// aside, and the others are used. Configured as `max_schema_depth`. Default 64; at most
    /// [`Self::MOST_SCHEMA_DEPTH`].
    pub schema_depth: usize,
    /// Calls, and lists of prompts and resources, in flight; the next one waits for its turn within its own time.
    /// Configured as `max_calls_in_flight`. Default 64.
    pub in_flight: usize,
    /// Requests of the server being answered at once. More are refused, or wait where they are questions of one answer
    /// (2026-07-28). Configured as `max_server_requests`. Default 8.
    pub server_requests: usize,
}

impl Limits {
    /// The largest [`Self::schema_depth`]: anything deeper cannot be parsed.
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
