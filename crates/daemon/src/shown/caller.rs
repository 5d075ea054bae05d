//! The form in which the API shows who wants a call.

use serde::Serialize;
use toolrack_host::{Caller, text};
use utoipa::ToSchema;

/// Who wants a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Caller)]
pub(crate) struct CallerView {
    /// The way of the call: `cli`, a command that a user typed; `daemon`, the control API and the dashboard;
    /// `gateway`, an MCP client; `agent`, a model in a conversation; `program`, a program that embeds Toolrack.
    way: String,
    /// The tenant, the subject and the name of the calling principal; `null` for the only user of a machine.
    tenant: Option<String>,
    subject: Option<String>,
    name: Option<String>,
    /// How a client of the gateway is connected: `http` or `stdio`.
    over: Option<String>,
    /// The name that the client gives itself. Any client can claim any name.
    client: Option<String>,
    /// Distinguishes clients of the gateway that have the same name. It grants no access.
    session: Option<String>,
    /// The `id` that the client gave to its call or turn.
    request: Option<String>,
    /// The conversation in whose turn the call is made.
    conversation: Option<String>,
    /// The agent of `toolrack.toml` in whose world it is made.
    agent: Option<String>,
}

impl From<&Caller> for CallerView {
    fn from(caller: &Caller) -> Self {
        let one_line = |name: Option<&str>| name.map(|name| text::for_line(name).into_owned());
        let principal = caller.principal();
        let of_member = |part: &str| one_line((!principal.is_local()).then_some(part));
        Self {
            way: caller.way().word().to_owned(),
            tenant: of_member(principal.tenant()),
            subject: of_member(principal.subject()),
            name: of_member(principal.name()),
            over: caller.transport().map(|over| over.word().to_owned()),
            client: one_line(caller.client_name()),
            session: one_line(caller.session()),
            request: one_line(caller.request()),
            conversation: one_line(caller.conversation()),
            agent: one_line(caller.agent()),
        }
    }
}
