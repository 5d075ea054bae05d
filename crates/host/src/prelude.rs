//! Exports what most programs that embed the host use: `use toolrack_host::prelude::*;`.
//!
//! ```
//! use serde_json::json;
//! use toolrack_host::prelude::*;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder()
//!     // A gate is a function of a call.
//!     .gate(Arc::new(|call: &GateRequest<'_>| match call.tool {
//!         "search" => Verdict::allow("searching changes nothing"),
//!         _ => Verdict::confirm("it may change something"),
//!     }))
//!     // An asker that only decides about calls is a function, too.
//!     .asker(Arc::new(|question: Confirm| async move { question.read_only }))
//!     .build();
//! host.add("docs", ServerSpec::http("http://127.0.0.1:9/mcp")).await?;
//! let call = Call::new("docs/search", json!({"query": "lifetimes"}))?.timeout(Duration::from_secs(30));
//! # host.shutdown().await;
//! match host.call(call).await {
//!     Ok(outcome) => println!("{:?}", outcome.typed::<Vec<String>>()),
//!     Err(error) => println!("{error}"),
//! }
//! # Ok(())
//! # }
//! ```

pub use std::{sync::Arc, time::Duration};

pub use crate::{
    Abilities, Asker, Call, CallError, Catalog, Desired, Event, Gate, GateRequest, Host, NoAsker, Policy, ServerName,
    ServerSpec, State, ToolOutcome, TypedError, Verdict,
    ask::{Confirm, Confirmed, Elicitation, Elicited},
};
