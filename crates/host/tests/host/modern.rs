//! A real modern server (2026-07-28): the official Rust SDK's own, as a process, over HTTP, and in this process.

use std::{
    borrow::Cow,
    sync::{Arc, Mutex},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde_json::json;
use tokio::runtime::Handle;
use toolrack_host::{Era, Host, OnProgress, ServerSpec, mcp::Progress};
use toolrack_testkit::rmcp_native;

use crate::{
    askers::Person,
    programs::{HttpProgram, testkit_program},
    worlds::{call, catalog_has, host_of, selectors, settle, soon, status, text, to_call, world},
};

/// A server for one test.
struct Real {
    spec: ServerSpec,
    _listening: Option<HttpProgram>,
}

fn over_stdio() -> Real {
    let program = testkit_program("rmcp-server");
    Real { spec: ServerSpec::stdio(program.to_str().unwrap(), ["stdio"]), _listening: None }
}

fn over_http() -> Real {
    let listening = HttpProgram::rmcp();
    Real { spec: listening.spec(), _listening: Some(listening) }
}

async fn is_connected_listed_and_called(real: Real) {
    let host = host_of([("real", real.spec.clone())]).await;
    let status = status(&host, "real");
    assert_eq!(status.era, Some(Era::Modern));
    assert_eq!(status.protocol_version.as_deref(), Some("2026-07-28"));
    assert_eq!(status.server_info.unwrap().name, "rmcp-server");
    assert_eq!(status.instructions.as_deref(), Some("The official Rust SDK's own server."));
    let tools =
        ["ask", "cancellations", "count", "greet", "grow", "wait", "waiters"].map(|tool| format!("real/{tool}"));
    assert_eq!(selectors(&host), tools);
    // Over HTTP the name travels in a header, too, which the server compares.
    assert_eq!(text(&host, "real/greet", json!({"name": "Zoë \u{1f44b}"})).await, "hello, Zoë \u{1f44b}");
    let unknown = host.read_resource("real", "file:///nowhere").await.unwrap_err();
    assert_eq!(unknown.code(), "RPC_ERROR", "{unknown}");
    host.shutdown().await;
}

async fn progress_arrives_in_order(real: Real) {
    let host = host_of([("real", real.spec.clone())]).await;
    let reports = Arc::new(Mutex::new(Vec::new()));
    let on_progress: OnProgress = {
        let reports = reports.clone();
        Arc::new(move |report: Progress| reports.lock().unwrap().push((report.progress, report.message.unwrap())))
    };
    let outcome = host.call(to_call("real/count", json!({"to": 3})).on_progress(on_progress)).await.unwrap();
    assert_eq!(outcome.text, "counted to 3");
    let all = [(1.0, "step 1"), (2.0, "step 2"), (3.0, "step 3")].map(|(step, text)| (step, text.to_owned()));
    assert_eq!(*reports.lock().unwrap(), all);
    host.shutdown().await;
}

async fn a_question_is_answered_in_a_second_round(real: Real) {
    let person = Person::eager().shared();
    let host = Host::builder().asker(person.clone()).build();
    settle(&host, world([("real", real.spec.clone())])).await;
    assert_eq!(text(&host, "real/ask", json!({})).await, "you are Ada");
    assert_eq!(person.asked(), ["form Who are you?"]);
    host.shutdown().await;
}

async fn a_tool_that_is_added_shows_up_in_the_next_catalog(real: Real) {
    let host = host_of([("real", real.spec.clone())]).await;
    let before = host.catalog();
    text(&host, "real/grow", json!({"tool": "branch"})).await;
    catalog_has(&host, "real/branch", true).await;
    assert_eq!(text(&host, "real/branch", json!({})).await, "branch");
    assert!(before.select("real/branch").is_err(), "a catalog never changes");
    assert!(host.catalog().version() > before.version());
    host.shutdown().await;
}

async fn a_call_that_is_dropped_is_cancelled_at_the_server(real: Real) {
    let host = host_of([("real", real.spec.clone())]).await;
    tokio::select! {
        outcome = call(&host, "real/wait", json!({})) => panic!("it answered: {outcome:?}"),
        waits = text(&host, "real/waiters", json!({})) => assert_eq!(waits, "a client waits"),
    }
    // The server sends this answer only when no client waits any more.
    assert_eq!(soon("cancellation", text(&host, "real/cancellations", json!({}))).await, "1");
    host.shutdown().await;
}

/// A native tool: what an embedder writes.
#[derive(Clone, Debug)]
struct Adder {
    versions: &'static [ProtocolVersion],
}

impl ServerHandler for Adder {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}});
        Ok(ListToolsResult::with_all_items(vec![Tool::new("add", "Adds", schema.as_object().cloned().unwrap())]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let number = |name: &str| request.arguments.as_ref()?.get(name)?.as_i64();
        let sum = number("a").zip(number("b")).map(|(a, b)| a + b);
        let sum = sum.ok_or_else(|| ErrorData::invalid_params("two numbers are needed", None))?;
        Ok(CallToolResult::success(vec![ContentBlock::text(sum.to_string())]).into())
    }
}

#[tokio::test(start_paused = true)]
async fn a_native_server_behaves_as_any_other_in_both_eras() {
    let (old, new) = (&[ProtocolVersion::V_2025_11_25], &[ProtocolVersion::V_2026_07_28]);
    let adder =
        |versions: &'static [ProtocolVersion]| ServerSpec::native(rmcp_native("adder", move || Adder { versions }));
    let host = host_of([("old", adder(old)), ("new", adder(new))]).await;
    for (server, era) in [("old", Era::Legacy), ("new", Era::Modern)] {
        assert_eq!(status(&host, server).era, Some(era));
        assert_eq!(text(&host, &format!("{server}/add"), json!({"a": 2, "b": 3})).await, "5");
        let error = call(&host, &format!("{server}/add"), json!({})).await.unwrap_err();
        assert!(error.to_string().contains("two numbers are needed"), "{error}");
    }
    host.shutdown().await;
    assert_eq!(Handle::current().metrics().num_alive_tasks(), 0);
}

macro_rules! over_both_transports {
    ($($test:ident,)*) => {
        mod stdio {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::over_stdio()).await;
                }
            )*
        }

        mod http {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::over_http()).await;
                }
            )*
        }
    };
}

over_both_transports! {
    is_connected_listed_and_called,
    progress_arrives_in_order,
    a_question_is_answered_in_a_second_round,
    a_tool_that_is_added_shows_up_in_the_next_catalog,
    a_call_that_is_dropped_is_cancelled_at_the_server,
}
