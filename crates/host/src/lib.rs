//! Connect to any set of MCP servers, of any protocol version and transport, and call their tools through one
//! interface.
//!
//! ```no_run
//! use serde_json::json;
//! use toolrack_host::{Call, Host, ServerSpec};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder().environment(std::env::vars_os()).build();
//! let spec = ServerSpec::stdio("npx", ["-y", "@modelcontextprotocol/server-everything"]);
//! host.add("everything", spec).await?;
//! host.settled().await;
//! println!("{}", host.call(Call::new("everything/echo", json!({"message": "hello"}))?).await?.text);
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```
//!
//! [`Host::apply`] takes the desired set of servers, and [`Host::add`] and [`Host::remove`] change one server.
//! [`Host::catalog`] is an immutable picture of all tools. [`Host::call`] is the only way to run a tool: it asks the
//! [`Gate`] and the [`Asker`], and enforces every bound. [`prelude`] has what most programs use; see `examples/` for
//! askers, native tools and the supervisor of child processes.
//!
//! The modules of this crate, from the interface down to plain data:
//!
//! ```text
//!   host, plan                      the interface; the difference between two sets of servers
//!   policy                          rules for the gate, which decides whether a call may run
//!   call                            the one way to call a tool: asks the gate and the user, sends, shapes the result
//!   server                          one task for each server: connects, lists its tools, watches, reconnects
//!   link                            connections to servers, and the messages of MCP
//!   ask, resolve, event, witness    interfaces of the embedding program: answers, values, events, records
//!   findings                        suspicious texts in tools
//!   catalog                         all tools
//!   pins, validate                  trusted definitions of tools; JSON Schemas, checked with bounded work
//!   definition                      the definition of one tool
//!   egress, invisible               where requests may go; removal of invisible characters
//!   spec, mcp, state, native, glob, quota, principal, who, trace, page, canonical
//!                                   plain data
//!   text, task, deadline            safe text; work in its own task; time limits of any length
//! ```
//!
//! All features are on by default. A program that only starts servers on its machine can do with `default-features =
//! false`, which takes 121 crates, this one included, instead of 205:
//!
//! | feature | what it brings |
//! |---|---|
//! | `http` | servers over HTTP; without it, an entry with a URL fails with an error that names this feature |
//! | `http2`, `gzip`, `charset` | for `http`: HTTP/2, compressed responses, and character encodings other than UTF-8 |
//! | `schema-validation` | JSON Schemas checked in full; without it, results and arguments that the quick check cannot accept count as unchecked, and an entry that asks for strict checks fails with an error that names this feature |
//!
//! This crate touches no files, no environment, no database and no terminal. It reaches such things only through
//! [`HostBuilder::environment`], [`Resolver`], [`Authorizer`], [`Memory`], [`Pins`], [`Artifacts`], [`Answers`] and
//! [`Witness`].

#![cfg_attr(not(feature = "http"), expect(dead_code, reason = "some code is used only by requests over HTTP"))]

pub mod ask;
mod call;
mod canonical;
mod catalog;
mod deadline;
mod definition;
pub mod egress;
mod event;
pub mod findings;
mod glob;
mod host;
mod invisible;
mod link;
pub mod mcp;
mod native;
pub mod page;
pub mod pins;
mod plan;
pub mod policy;
pub mod prelude;
pub mod principal;
pub mod quota;
mod resolve;
mod server;
pub mod spec;
mod state;
mod task;
pub mod text;
mod trace;
mod validate;
mod who;
mod witness;

pub use ask::{Abilities, Asker, NoAsker, SharedAsker};
pub use call::{
    ArgumentsError, Artifact, Call, CallError, CallErrorKind, McpError, ScriptCall, SendCondition, SessionAnswer,
    ShapedContent, ToolOutcome, TypedError,
    counting::{Admitted, Quotas, UsageMeter, Work},
    gate::{AllowAll, DefaultEffect, Gate, GateRequest, Verdict},
};
pub use canonical::{Canonical, CanonicalMap};
pub use catalog::{
    BadNameStyle, BlockKind, Budget, Catalog, CatalogTool, Change, Cleaned, Dashes, Hit, NameCap, NameStyle, Naming,
    Offer, Provider, Selection, ShownAs, ToolBlock, ToolDefinition, ToolProfile, UnknownTool, UnknownWire,
    UnusableTool, Wire, clean, signature,
};
pub use definition::DefinitionHash;
pub use egress::Egress;
pub use event::{CallEnd, Event, EventCall};
pub use glob::{BadGlob, Pattern, ToolFilter};
pub use host::{
    Host, HostBuilder, Interpreter, Listing, Relay, ScriptCallError, ScriptOutput, ScriptTools, ServerStatus,
    SubscribeError, Subscriptions, Why, WhyStep,
};
pub use link::framing::sse;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub use link::fuzzing;
#[doc(hidden)]
pub use link::process::child;
pub use link::process::child::{EngineInfo, EngineReport, ImageStatus, SpawnError, inspect_engine};
pub use link::{
    BadRecording, Direction, LinkError, NotRecorded, OnMessage, OnProgress, Recorder, Recording, RecordingTooLarge,
    RefusedPart, RpcError, WireMessage, process::supervisor,
};
pub use mcp::{Content, Tool};
pub use native::Native;
pub use pins::{Pins, Quarantined};
pub use policy::Policy;
pub use principal::Principal;
pub use quota::{OverQuota, Quantity, Quota, QuotaSet};
pub use resolve::{
    AnswerQuery, Answers, Artifacts, Authorizer, Challenge, ChildPlan, ContainerPlan, Destination, KeepError, Memory,
    NewAnswer, NotAuthorized, ResolveError, Resolver, Signature, Verbatim,
};
pub use spec::{Desired, Era, Limits, PinMode, ServerName, ServerSpec, Start, Timeouts};
pub use state::{FailureText, State};
pub use task::run_in_own_task;
pub use text::Conceal;
pub use toolrack_supervisor::Confinement;
pub use trace::{TraceContext, Tracer};
pub use validate::{Mismatch, MismatchKind, SchemaProblem, Unfit, Validator, plainly_fits};
pub use who::{BadWho, Who};
pub use witness::{Caller, ClientTransport, Decision, Fact, GatedCall, RecordedArguments, Way, Witness};

// Compiles the examples of the page that registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
