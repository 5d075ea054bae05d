//! The server scenarios of the official conformance suite, of both revisions, against the gateway in front of a
//! [server](fixture) that has what they ask for.
//!
//! `server-sse-polling` tests little of the gateway itself, which closes no stream before its answer; so it also runs
//! against the gateway in front of a server that closes its streams early. The extensions (`tasks-*`, `sep-2640-*`)
//! cannot apply: they are not offered.

use std::process::Stdio;

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};
use toolrack_daemon::gateway::{AnyClient, GatewayOptions};
use toolrack_host::{Host, NameCap, NameStyle, ServerSpec, spec::Protocol};

use super::{fixture, installed};
use crate::world::World;

async fn passes(scenario: &str, version: &str) {
    let modern = version.starts_with("2026");
    let protocol = if modern { Protocol::Modern } else { Protocol::Legacy };
    passes_in_front_of(fixture::server(protocol), scenario, version).await;
}

async fn passes_in_front_of(server: ServerSpec, scenario: &str, version: &str) {
    // The suite calls tools by the names that their server gave them.
    let host = Host::builder()
        .naming((NameStyle::Tool, NameCap::Chars64))
        .asker(std::sync::Arc::new(AnyClient::new()))
        .build();
    let world = World::around(host, [("fixture", server)], GatewayOptions::default()).await;
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(installed().join(".bin/node"))
        .arg(installed().join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--scenario", scenario, "--spec-version", version, "--url", &world.url])
        .current_dir(results.path())
        .output()
        .await
        .unwrap();
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{scenario} at {version}: {}\n{printed}", output.status);
    world.end().await;
}

macro_rules! scenarios {
    ($version:literal: $($test:ident $scenario:literal,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                passes($scenario, $version).await;
            }
        )*
    };
}

/// The scenarios that both revisions have.
macro_rules! common {
    ($version:literal) => {
        scenarios! { $version:
            completion "completion-complete",
            tools_list "tools-list",
            simple_text "tools-call-simple-text",
            image "tools-call-image",
            audio "tools-call-audio",
            embedded_resource "tools-call-embedded-resource",
            mixed_content "tools-call-mixed-content",
            tool_error "tools-call-error",
            with_progress "tools-call-with-progress",
            json_schema "json-schema-2020-12",
            multiple_streams "server-sse-multiple-streams",
            resources_list "resources-list",
            resources_text "resources-read-text",
            resources_binary "resources-read-binary",
            resources_template "resources-templates-read",
            prompts_list "prompts-list",
            prompts_simple "prompts-get-simple",
            prompts_arguments "prompts-get-with-args",
            prompts_resource "prompts-get-embedded-resource",
            prompts_image "prompts-get-with-image",
            dns_rebinding "dns-rebinding-protection",
        }
    };
}

mod legacy {
    use super::passes;

    common! { "2025-11-25" }
    scenarios! { "2025-11-25":
        initialize "server-initialize",
        session_lifecycle "server-session-lifecycle",
        logging "logging-set-level",
        ping "ping",
        with_logging "tools-call-with-logging",
        sampling "tools-call-sampling",
        elicitation "tools-call-elicitation",
        elicitation_defaults "elicitation-sep1034-defaults",
        polling "server-sse-polling",
        elicitation_enums "elicitation-sep1330-enums",
        resources_subscribe "resources-subscribe",
        resources_unsubscribe "resources-unsubscribe",
    }
}

/// The server closes the stream of the call, and the gateway reconnects to get the answer, while its own client waits.
#[tokio::test]
async fn polling_in_front_of_a_server_that_closes_its_streams() {
    let mut child = Command::new(installed().join(".bin/node"))
        .arg(installed().join("../polling-server.mjs"))
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.strip_prefix("listening ").unwrap();
    passes_in_front_of(ServerSpec::http(url), "server-sse-polling", "2025-11-25").await;
}

mod modern {
    use super::passes;

    common! { "2026-07-28" }
    scenarios! { "2026-07-28":
        stateless "server-stateless",
        not_found "sep-2164-resource-not-found",
        caching "caching",
        headers "http-header-validation",
        custom_headers "http-custom-header-server-validation",
        input_elicitation "input-required-result-basic-elicitation",
        input_sampling "input-required-result-basic-sampling",
        input_roots "input-required-result-basic-list-roots",
        input_state "input-required-result-request-state",
        input_several "input-required-result-multiple-input-requests",
        input_rounds "input-required-result-multi-round",
        input_missing "input-required-result-missing-input-response",
        input_of_a_prompt "input-required-result-non-tool-request",
        input_result_type "input-required-result-result-type",
        input_unsupported "input-required-result-unsupported-methods",
        input_tampered_state "input-required-result-tampered-state",
        input_capabilities "input-required-result-capability-check",
        input_more "input-required-result-ignore-extra-params",
        input_validated "input-required-result-validate-input",
    }
}
