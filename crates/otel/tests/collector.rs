//! Spans and metrics as a collector receives them.

// Makes clippy allow `unwrap` in this file, which is compiled only for tests.
#![cfg(test)]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::any_value::Value as AnyValue,
    metrics::v1::{AggregationTemporality, NumberDataPoint, metric::Data, number_data_point::Value as Number},
    trace::v1::Span,
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
use toolrack_otel::{Exporter, Measure, MetricsExporter, Pace, Reading};
use toolrack_testkit::EffectLog;
use tracing_subscriber::layer::SubscriberExt as _;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(20);
/// The trace id of the caller.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Starts a collector. Returns its URL with this path, and the bodies of the requests that it receives.
async fn collector(path: &str) -> (String, mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{path}", listener.local_addr().unwrap());
    let (sender, bodies) = mpsc::unbounded_channel();
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
                if body.is_none_or(|body| sender.send(body).is_err()) {
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
async fn the_span_of_a_call_belongs_to_the_trace_of_its_caller_and_the_server_continues_it() {
    let (url, mut bodies) = collector("/v1/traces").await;
    let exporter = Exporter::new("tested", Some(&url)).unwrap();
    let subscriber = tracing::subscriber::set_default(tracing_subscriber::registry().with(exporter.layer()));

    let effects = EffectLog::new();
    let host = Host::builder().tracer(Arc::new(exporter.tracer())).build();
    let server = toolrack_testkit::fake_server_path();
    let spec = ServerSpec::stdio(server.display().to_string(), ["stdio", "--log", effects.path_str(), "--log-all"]);
    host.apply(Desired::from([(ServerName::new("fake").unwrap(), spec)])).await;
    host.settled().await;
    let caller = TraceContext::new(&format!("00-{TRACE}-b7ad6b7169203331-01")).map(|context| context.baggage("who=me"));
    let arguments = json!({"text": "x"}).as_object().cloned().unwrap();
    let call = |trace| host.call(Call::from_map("fake/echo", arguments.clone()).trace(trace));
    timeout(PATIENCE, call(caller)).await.unwrap().unwrap();
    timeout(PATIENCE, call(None)).await.unwrap().unwrap();
    host.shutdown().await;
    drop(subscriber);
    exporter.close();

    let calls: Vec<_> = effects.read().lines.into_iter().filter(|line| line["method"] == "tools/call").collect();
    let metas: Vec<_> = calls.iter().map(|line| &line["params"]["_meta"]).collect();
    let body = timeout(PATIENCE, bodies.recv()).await.unwrap().unwrap();
    let sent = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    let resource = sent.resource_spans[0].resource.as_ref().unwrap();
    assert!(format!("{resource:?}").contains("tested"), "{resource:?}");
    let spans: Vec<&Span> =
        sent.resource_spans.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans).collect();
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["connect", "call", "call"]);

    let [_, first, second] = spans.as_slice() else { panic!("{names:?}") };
    assert_eq!((hex(&first.trace_id).as_str(), hex(&first.parent_span_id).as_str()), (TRACE, "b7ad6b7169203331"));
    assert_eq!(metas[0]["traceparent"], format!("00-{TRACE}-{}-01", hex(&first.span_id)));
    assert_eq!(metas[0]["baggage"], "who=me");
    let attributes = attributes(first);
    assert_eq!((attributes["server"].as_str(), attributes["tool"].as_str()), ("fake", "echo"));
    assert_eq!(attributes["end"], "Ok");

    assert_ne!(hex(&second.trace_id), TRACE, "a call without a trace begins a new one");
    assert_eq!(metas[1]["traceparent"], format!("00-{}-{}-01", hex(&second.trace_id), hex(&second.span_id)));
}

/// Returns the values of a metric by the text of their first label.
fn values(points: &[NumberDataPoint]) -> BTreeMap<String, f64> {
    let label = |point: &NumberDataPoint| match point.attributes.first()?.value.as_ref()?.value.as_ref()? {
        AnyValue::StringValue(text) => Some(text.clone()),
        _ => None,
    };
    let number = |point: &NumberDataPoint| match point.value {
        Some(Number::AsDouble(number)) => number,
        other => panic!("{other:?}"),
    };
    points.iter().map(|point| (label(point).unwrap_or_default(), number(point))).collect()
}

/// Returns the values of the counter `calls` and of the gauge `states` in the body of a request.
fn calls_and_states(body: &[u8]) -> (BTreeMap<String, f64>, BTreeMap<String, f64>) {
    let sent = ExportMetricsServiceRequest::decode(body).unwrap();
    assert!(format!("{:?}", sent.resource_metrics[0].resource).contains("tested"));
    let (mut calls, mut states) = (BTreeMap::new(), BTreeMap::new());
    for metric in sent.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics).flat_map(|s| &s.metrics) {
        match (metric.name.as_str(), metric.data.as_ref().unwrap()) {
            ("calls", Data::Sum(sum)) => {
                assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
                calls = values(&sum.data_points);
            }
            ("states", Data::Gauge(gauge)) => states = values(&gauge.data_points),
            other => panic!("{other:?}"),
        }
        assert!(metric.description.ends_with('.'), "{metric:?}");
    }
    (calls, states)
}

#[tokio::test]
async fn metrics_are_read_and_sent_at_each_interval_and_once_more_at_the_end() {
    let (url, mut bodies) = collector("/v1/metrics").await;
    let reads = Arc::new(AtomicU32::new(0));
    let counting = Arc::clone(&reads);
    let labelled = |label: &str, value| Reading { labels: vec![("server", label.to_owned())], value };
    let measures = vec![
        Measure {
            name: "calls",
            help: "Calls that ended.",
            is_counter: true,
            read: Box::new(move || {
                let reads = counting.fetch_add(1, Ordering::Relaxed) + 1;
                vec![labelled("a", f64::from(reads)), labelled("b", 7.0)]
            }),
        },
        Measure {
            name: "states",
            help: "What is there now.",
            is_counter: false,
            read: Box::new(move || {
                // From the second reading on, the series `old` is gone, and there is a series `new`.
                vec![if reads.load(Ordering::Relaxed) < 2 { labelled("old", 1.0) } else { labelled("new", 1.0) }]
            }),
        },
    ];
    let pace = Pace { interval: Duration::from_millis(20), timeout: PATIENCE };
    let exporter = MetricsExporter::new("tested", Some(&url), pace, measures).unwrap();
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let body = timeout(PATIENCE, bodies.recv()).await.unwrap().unwrap();
        seen.push(calls_and_states(&body));
    }
    let expected = |series: &[(&str, f64)]| series.iter().map(|(label, value)| ((*label).to_owned(), *value)).collect();
    assert_eq!(seen[0], (expected(&[("a", 1.0), ("b", 7.0)]), expected(&[("old", 1.0)])));
    let second = (expected(&[("a", 2.0), ("b", 7.0)]), expected(&[("new", 1.0)]));
    assert_eq!(seen[1], second, "a series that is gone is not repeated");
    exporter.close();
    let mut last = 0.0;
    while let Ok(body) = bodies.try_recv() {
        last = calls_and_states(&body).0["a"];
    }
    assert!(last >= 3.0, "the last values are sent at the end: {last}");
}

#[tokio::test]
async fn closing_ends_although_no_collector_listens() {
    let measure = Measure { name: "calls", help: "Calls that ended.", is_counter: true, read: Box::new(Vec::new) };
    let pace = Pace { interval: Duration::from_millis(1), timeout: Duration::from_millis(50) };
    let exporter = MetricsExporter::new("tested", Some("http://127.0.0.1:1/v1/metrics"), pace, vec![measure]).unwrap();
    let closing = tokio::task::spawn_blocking(move || exporter.close());
    timeout(PATIENCE, closing).await.unwrap().unwrap();
}
