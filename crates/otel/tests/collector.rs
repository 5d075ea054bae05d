//! Spans as a collector receives them.

// Makes clippy allow `unwrap` in this file, which is compiled only for tests.
#![cfg(test)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value as AnyValue, trace::v1::Span,
};
use prost::Message as _;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};
use toolrack_host::{Call, Desired, Host, ServerName, ServerSpec, TraceContext};
use toolrack_otel::Exporter;
use toolrack_testkit::SideEffects;
use tracing_subscriber::layer::SubscriberExt as _;

const PATIENCE: Duration = Duration::from_secs(20);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Starts a collector. Returns its URL, and the bodies of the requests that it receives.
async fn collector() -> (String, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let (pass, bodies) = mpsc::unbounded_channel();
    // On a thread of its own, because closing the exporter blocks the thread of the test.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = listener.into_std().unwrap();
        runtime.block_on(async {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = Vec::new();
                let body = loop {
                    if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                        break None;
                    }
                    if let Some(body) = body_of(&request) {
                        break Some(body);
                    }
                };
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
                if body.is_none_or(|body| pass.send(body).is_err()) {
                    return;
                }
            }
        });
    });
    (url, bodies)
}

/// Returns the body of a request, once it has arrived in full.
fn body_of(request: &[u8]) -> Option<Vec<u8>> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    assert!(head.contains("content-type: application/x-protobuf"), "{head}");
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
    request.get(end..end + length).map(<[u8]>::to_vec)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &AnyValue| match value {
        AnyValue::StringValue(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let all = span.attributes.iter();
    all.filter_map(|attribute| Some((attribute.key.as_str(), text(attribute.value.as_ref()?.value.as_ref()?))))
        .collect()
}

#[tokio::test]
async fn a_call_is_a_span_of_the_caller_s_trace_which_the_server_continues() {
    let (url, mut bodies) = collector().await;
    let exporter = Exporter::new("tested", Some(&url)).unwrap();
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(exporter.layer()));

    let effects = SideEffects::new();
    let host = Host::builder().tracer(Arc::new(exporter.tracer())).build();
    let server = toolrack_testkit::fake_server_path();
    let spec = ServerSpec::stdio(server.display().to_string(), ["stdio", "--log", effects.path_str(), "--log-all"]);
    host.apply(Desired::from([(ServerName::new("fake").unwrap(), spec)])).await;
    host.settled().await;
    let from = TraceContext::new(&format!("00-{TRACE}-b7ad6b7169203331-01")).map(|from| from.baggage("who=me"));
    let arguments = json!({"text": "x"}).as_object().cloned().unwrap();
    let call = |trace| host.call(Call::from_map("fake/echo", arguments.clone()).trace(trace));
    timeout(PATIENCE, call(from)).await.unwrap().unwrap();
    timeout(PATIENCE, call(None)).await.unwrap().unwrap();
    host.shutdown().await;
    drop(subscriber);
    exporter.close();

    let reported: Vec<_> = effects.read().lines.into_iter().filter(|line| line["method"] == "tools/call").collect();
    let metas: Vec<_> = reported.iter().map(|line| &line["params"]["_meta"]).collect();
    let body = timeout(PATIENCE, bodies.recv()).await.unwrap().unwrap();
    let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let resource = sent.resource_spans[0].resource.as_ref().unwrap();
    assert!(format!("{resource:?}").contains("tested"), "{resource:?}");
    let spans: Vec<&Span> =
        sent.resource_spans.iter().flat_map(|of| &of.scope_spans).flat_map(|of| &of.spans).collect();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["connect", "call", "call"]);

    let [_, first, second] = spans.as_slice() else { panic!("{names:?}") };
    assert_eq!((hex(&first.trace_id).as_str(), hex(&first.parent_span_id).as_str()), (TRACE, "b7ad6b7169203331"));
    assert_eq!(metas[0]["traceparent"], format!("00-{TRACE}-{}-01", hex(&first.span_id)));
    assert_eq!(metas[0]["baggage"], "who=me");
    let attributes = attributes(first);
    assert_eq!((attributes["server"].as_str(), attributes["tool"].as_str()), ("fake", "echo"));
    assert_eq!(attributes["end"], "Ok");

    assert_ne!(hex(&second.trace_id), TRACE, "a call without a trace begins one");
    assert_eq!(metas[1]["traceparent"], format!("00-{}-{}-01", hex(&second.trace_id), hex(&second.span_id)));
}
