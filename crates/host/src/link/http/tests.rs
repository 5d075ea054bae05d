//! The headers of a request, and how it is authorized.

use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::*;
use crate::{
    link::inbound::InboundParts,
    resolve::{Challenge, Destination, NotAuthorized, Signature, Verbatim},
    spec::Limits,
};

/// A client for a server with this configuration.
async fn transport(spec: &Http, authorizer: Option<&Arc<dyn Authorizer>>) -> HttpTransport {
    let server = ServerName::new("server").unwrap();
    let resolver: Arc<dyn Resolver> = Arc::new(Verbatim);
    let plan = HttpPlan {
        server: &server,
        spec,
        resolver: &resolver,
        authorizer,
        clients: &Clients::default(),
        egress: &Egress::default(),
        supervisor: None,
        bounds: Bounds::of(&Limits::default()),
    };
    let inbound = Inbound::new(server.clone(), InboundParts::unwatched());
    HttpTransport::new(&plan, &inbound, &Arc::default()).await.unwrap()
}

#[tokio::test]
async fn a_header_of_the_protocol_replaces_a_configured_one_of_the_same_name() {
    let names = ["accept", "last-event-id", "mcp-method", "mcp-param-region", "x-other"];
    let headers = names.map(|name| (name.to_owned(), "configured".to_owned())).into();
    let spec = Http { url: "http://127.0.0.1:1/mcp".to_owned(), headers, ..Http::default() };
    let transport = transport(&spec, None).await;
    transport.set_protocol(Era::Modern, None);
    let call = OutgoingRequest {
        id: 1,
        method: "tools/call",
        name: None,
        headers: vec![(HeaderName::from_static("mcp-param-region"), HeaderValue::from_static("eu"))],
        body: Bytes::from_static(b"{}"),
        cancellable: true,
    };
    let last_event = HeaderValue::from_static("7");
    let session_headers = transport.0.session_headers.load_full();
    let post = Outgoing::Message { body: call.body.clone(), request: Some(&call) };
    let stream = Outgoing::Stream { last_event: Some(&last_event) };
    for (outgoing, name, value) in [
        (&stream, "last-event-id", "7"),
        (&stream, "accept", "text/event-stream"),
        (&post, "mcp-param-region", "eu"),
        (&post, "mcp-method", "tools/call"),
        (&post, "x-other", "configured"),
    ] {
        let (builder, _) = transport.0.build_request(outgoing, &session_headers).await.unwrap();
        let request = builder.build().unwrap();
        let values: Vec<_> = request.headers().get_all(name).iter().collect();
        assert_eq!(values, [value], "{name}");
    }
}

/// Records for which server, and for which other URL, requests are signed.
#[derive(Default)]
struct RecordingAuthorizer(Mutex<Vec<(String, Option<String>)>>);

impl Authorizer for RecordingAuthorizer {
    fn sign<'a>(
        &'a self,
        destination: Destination<'a>,
        _: &'a Method,
    ) -> BoxFuture<'a, Result<Option<Signature>, NotAuthorized>> {
        self.0.lock().push((destination.url.to_string(), destination.posts_to.map(Url::to_string)));
        Box::pin(async { Ok(None) })
    }

    fn challenged<'a>(&'a self, _: Destination<'a>, _: Challenge) -> BoxFuture<'a, Result<(), NotAuthorized>> {
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test]
async fn both_endpoints_of_http_with_sse_belong_to_one_sign_in() {
    let recorded = Arc::new(RecordingAuthorizer::default());
    let authorizer: Arc<dyn Authorizer> = Arc::<RecordingAuthorizer>::clone(&recorded);
    let spec = Http { url: "http://127.0.0.1:1/sse".to_owned(), ..Http::default() };
    let down = transport(&spec, Some(&authorizer)).await;
    let up = down.for_url(Url::parse("http://127.0.0.1:1/message?session=1").unwrap());
    for transport in [&down, &up] {
        let stream = Outgoing::Stream { last_event: None };
        let (_request, _) = transport.0.build_request(&stream, &SessionHeaders::default()).await.unwrap();
    }
    let server = || spec.url.clone();
    let posts_to = "http://127.0.0.1:1/message?session=1".to_owned();
    assert_eq!(*recorded.0.lock(), [(server(), None), (server(), Some(posts_to))]);
}
