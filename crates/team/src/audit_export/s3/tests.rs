use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, VecDeque},
    path::Path,
    sync::atomic::{AtomicU32, AtomicUsize},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::Response as Answer,
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use tokio::{net::TcpListener, task::JoinSet};
use toolrack_store::audit::hex;

use super::*;
use crate::TeamFile;

const NAME: &str = "tenants/acme/heads/0000000001.jws";
const SECRET: &str = "s3cret-of-the-key";

/// What the service answers to a request.
enum Next {
    /// This status and this body.
    Status(u16, &'static str),
    /// Nothing, ever.
    Silence,
    /// This status, and a body without an end.
    Endless(u16),
}

/// A request that the service has got.
struct Seen {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
    body: Bytes,
}

/// What the service is to answer, and what it has seen.
#[derive(Default)]
struct Script {
    next: Mutex<VecDeque<Next>>,
    seen: Mutex<Vec<Seen>>,
    /// How many bytes of endless bodies the service has sent.
    sent: AtomicUsize,
}

/// A service on loopback that answers by a script, and an object store that writes to it.
struct Stage {
    script: Arc<Script>,
    object_store: S3Store,
    origin: String,
    /// How many times credentials were read.
    reads: Arc<AtomicU32>,
    _tasks: JoinSet<()>,
}

impl Stage {
    async fn new(next: impl IntoIterator<Item = Next>) -> Self {
        let script = Arc::new(Script { next: Mutex::new(next.into_iter().collect()), ..Script::default() });
        let router = Router::new().fallback(answer).with_state(Arc::clone(&script));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.unwrap() });
        let (object_store, reads) = object_store(&origin, "30s");
        Self { script, object_store, origin, reads, _tasks: tasks }
    }

    /// A stage whose service has already shown that it refuses to overwrite objects, so that each object is sent once.
    async fn known_as_conditional(next: impl IntoIterator<Item = Next>) -> Self {
        let stage = Self::new(next).await;
        stage.object_store.refuses_overwrite.store(true, Ordering::Relaxed);
        stage
    }

    async fn put(&self) -> Result<(), ObjectStoreError> {
        self.object_store.put(NAME, "ours".into()).await
    }

    fn methods(&self) -> Vec<String> {
        self.script.seen.lock().iter().map(|seen| seen.method.clone()).collect()
    }
}

/// An object store that writes to `endpoint`, and how many times it has read credentials. The third read fails.
fn object_store(endpoint: &str, timeout: &str) -> (S3Store, Arc<AtomicU32>) {
    let reads = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&reads);
    let read: ReadS3Credentials = Box::new(move || {
        let number = counter.fetch_add(1, Ordering::Relaxed);
        let secret_access_key = format!("{SECRET}\n");
        Box::pin(async move {
            match number {
                2 => Err("`audit_export.s3.access_key_id` has no value".to_owned()),
                _ => Ok(S3Credentials { access_key_id: format!("ID{number}"), secret_access_key, session_token: None }),
            }
        })
    });
    let table = table(&format!("endpoint = \"{endpoint}\""), &format!("timeout = \"{timeout}\""));
    (S3Store::new(&table, &Egress::default(), read).unwrap(), reads)
}

fn table(s3: &str, more: &str) -> AuditExportTable {
    let text = format!(
        "url = \"https://tools.example\"\n[audit_export]\nto = \"s3://acme-audit/of/tools/\"\nsigning_key = \"x\"\n{more}\n\
         [audit_export.s3]\naccess_key_id = \"x\"\nsecret_access_key = \"x\"\n{s3}"
    );
    TeamFile::parse(&text, Path::new("/team")).unwrap().audit_export.unwrap()
}

async fn answer(State(script): State<Arc<Script>>, request: Request) -> Answer {
    let (parts, body) = request.into_parts();
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let headers = parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = to_bytes(body, 1024).await.unwrap();
    let (path, query) = (parts.uri.path().to_owned(), parts.uri.query().unwrap_or_default().to_owned());
    script.seen.lock().push(Seen { method: parts.method.to_string(), path, query, headers, body });
    let next = script.next.lock().pop_front();
    let (status, body) = match next {
        Some(Next::Status(status, body)) => (status, Body::from(body)),
        Some(Next::Silence) => std::future::pending().await,
        Some(Next::Endless(status)) => {
            let chunks = futures::stream::repeat_with(move || {
                script.sent.fetch_add(1024, Ordering::Relaxed);
                Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'o'; 1024]))
            });
            (status, Body::from_stream(chunks))
        }
        None => (500, Body::from("this answer is not expected")),
    };
    // The location is at this service, so that a test sees a client that follows it.
    Answer::builder().status(status).header("location", "/elsewhere").body(body).unwrap()
}

/// The right signature of a request as it arrived, by the rules of AWS (Signature Version 4, in the query).
fn signature(seen: &Seen, secret: &str) -> String {
    let field = |name: &str| {
        let pair = seen.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        pair.unwrap().replace("%2F", "/").replace("%3B", ";")
    };
    let (query, _) = seen.query.split_once("&X-Amz-Signature=").unwrap();
    let names = field("X-Amz-SignedHeaders");
    let headers: String = names.split(';').map(|name| format!("{name}:{}\n", seen.headers[name])).collect();
    let request = format!("{}\n{}\n{query}\n{headers}\n{names}\nUNSIGNED-PAYLOAD", seen.method, seen.path);
    let credential = field("X-Amz-Credential");
    let (_, scope) = credential.split_once('/').unwrap();
    let date = field("X-Amz-Date");
    let signed = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&Sha256::digest(request)));
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let key = scope.split('/').fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part));
    hex(&mac(&key, &signed))
}

#[tokio::test]
async fn an_object_is_written_only_where_none_is_and_what_arrives_is_what_was_signed() {
    let stage = Stage::new([Next::Status(200, ""), Next::Status(412, ""), Next::Status(200, "ours")]).await;
    assert_eq!(stage.put().await, Ok(()));
    assert_eq!(stage.methods(), ["PUT", "PUT", "GET"], "the first object is sent once more");
    for seen in stage.script.seen.lock().iter() {
        assert_eq!(seen.path, format!("/acme-audit/of/tools/{NAME}"));
        let (_, sent) = seen.query.split_once("&X-Amz-Signature=").unwrap();
        assert_eq!(sent, signature(seen, SECRET));
        assert_ne!(sent, signature(seen, "another"));
        if seen.method == "PUT" {
            assert_eq!((&seen.body, &*seen.headers["if-none-match"]), (&Bytes::from("ours"), "*"));
            assert_eq!(seen.headers["x-amz-checksum-sha256"], STANDARD.encode(Sha256::digest("ours")));
            assert!(seen.query.contains("if-none-match") && seen.query.contains("x-amz-checksum-sha256"));
        }
    }
    stage.script.next.lock().extend([Next::Status(200, ""), Next::Status(200, "")]);
    assert_eq!((stage.put().await, stage.put().await), (Ok(()), Ok(())), "each further object is sent once");
}

#[tokio::test]
async fn an_object_that_exists_counts_as_written_only_if_it_has_the_same_content() {
    let contents = [("ours", true), ("ourS", false), ("our", false), ("ours and more", false), ("", false)];
    for (existing, is_same) in contents {
        let stage = Stage::new([Next::Status(412, ""), Next::Status(200, existing)]).await;
        let occupied = Err(ObjectStoreError::Occupied { name: NAME.to_owned() });
        assert_eq!(stage.put().await, if is_same { Ok(()) } else { occupied }, "{existing}");
    }
    let stage = Stage::known_as_conditional([Next::Status(412, ""), Next::Endless(200)]).await;
    assert_eq!(stage.put().await, Err(ObjectStoreError::Occupied { name: NAME.to_owned() }));
    let stage = Stage::known_as_conditional([Next::Status(412, ""), Next::Status(404, "")]).await;
    let gone = stage.put().await;
    assert!(matches!(gone, Err(ObjectStoreError::Failed { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_service_that_would_overwrite_objects_is_refused() {
    let stage = Stage::new([Next::Status(200, ""), Next::Status(200, "")]).await;
    let Err(ObjectStoreError::Refused { why }) = stage.put().await else { panic!("not refused") };
    assert!(why.contains("ignores `If-None-Match`") && why.starts_with(&stage.origin), "{why}");
    stage.script.next.lock().push_back(Next::Status(501, "<Error><Code>NotImplemented</Code></Error>"));
    let Err(ObjectStoreError::Refused { why }) = stage.put().await else { panic!("not refused") };
    assert!(why.contains("501 NotImplemented") && why.contains("does not know conditional writes"), "{why}");
}

#[tokio::test]
async fn an_error_that_lasts_is_refused_with_a_next_step_and_one_that_may_pass_is_a_failure() {
    for (status, body, next_step) in [
        (403, "<Error><Code>AccessDenied</Code><Message>x</Message></Error>", "needs the rights s3:PutObject"),
        (403, "<Error><Code>InvalidAccessKeyId</Code></Error>", "check `access_key_id`"),
        (403, "<Error><Code>RequestTimeTooSkewed</Code></Error>", "set the clock"),
        (400, "<Error><Code>ExpiredToken</Code></Error>", "give new ones"),
        (400, "no XML", "check `to` of `[audit_export]`"),
        (404, "<Error><Code>NoSuchBucket</Code></Error>", "make the bucket"),
        (301, "<Error><Code>PermanentRedirect</Code></Error>", "`endpoint` and `region`"),
    ] {
        let stage = Stage::known_as_conditional([Next::Status(status, body)]).await;
        let Err(ObjectStoreError::Refused { why }) = stage.put().await else { panic!("{status}: not refused") };
        let shown = format!("{} refuses to write {NAME} ({status}", stage.origin);
        assert!(why.starts_with(&shown) && why.contains(next_step), "{why}");
        assert_eq!(stage.methods(), ["PUT"], "{status}: no redirect is followed");
    }
    for status in [307, 408, 409, 429, 500, 503] {
        let answers = [Next::Status(status, "<Code>SlowDown</Code>"), Next::Status(200, "")];
        let stage = Stage::known_as_conditional(answers).await;
        let failed = format!("{} fails to write {NAME} ({status} SlowDown)", stage.origin);
        assert_eq!(stage.put().await, Err(ObjectStoreError::Failed { why: failed }));
        assert_eq!(stage.put().await, Ok(()), "the next attempt succeeds");
    }
    let stage = Stage::known_as_conditional([Next::Status(412, ""), Next::Status(403, "")]).await;
    let Err(ObjectStoreError::Refused { why }) = stage.put().await else { panic!("not refused") };
    assert!(why.contains("to read") && why.contains("s3:GetObject"), "{why}");
}

#[tokio::test]
async fn no_answer_of_the_service_is_read_without_end_or_shown_as_it_is() {
    let stage = Stage::known_as_conditional([Next::Endless(403)]).await;
    let refused = stage.put().await;
    assert!(matches!(refused, Err(ObjectStoreError::Refused { .. })), "{refused:?}");
    let sent = stage.script.sent.load(Ordering::Relaxed);
    assert!(sent < 64 * 1024 * 1024, "the service could send more than the buffers of sockets hold: {sent}");
    let long = "<Code>\u{1b}[31mred\nline 2 and very, very, very, very, very, very, very, very much more</Code>";
    let stage = Stage::known_as_conditional([Next::Status(403, long)]).await;
    let Err(ObjectStoreError::Refused { why }) = stage.put().await else { panic!("not refused") };
    assert!(!why.contains(['\u{1b}', '\n']) && !why.contains("much more"), "{why}");
}

#[tokio::test]
async fn silence_and_an_address_without_a_service_are_failures_that_show_no_signature() {
    let stage = Stage::new([Next::Silence]).await;
    let (impatient, _) = object_store(&stage.origin, "200ms");
    let Err(ObjectStoreError::Failed { why }) = impatient.put(NAME, "ours".into()).await else { panic!("no failure") };
    assert_eq!(why, format!("{} does not answer in time (`timeout` of `[audit_export]`)", stage.origin));
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (unreachable, _) = object_store(&origin, "30s");
    let Err(ObjectStoreError::Failed { why }) = unreachable.put(NAME, "ours".into()).await else {
        panic!("no failure")
    };
    assert!(why.starts_with(&format!("{origin} cannot be reached: ")), "{why}");
    assert!(!why.contains("Amz") && !why.contains("ID0") && !why.contains(SECRET), "{why}");
}

#[tokio::test]
async fn credentials_are_read_again_for_each_round_and_never_shown() {
    let answers = [Next::Status(200, ""), Next::Status(200, ""), Next::Status(200, "")];
    let stage = Stage::known_as_conditional(answers).await;
    assert_eq!((stage.put().await, stage.put().await), (Ok(()), Ok(())));
    assert_eq!(stage.reads.load(Ordering::Relaxed), 1);
    assert_eq!((stage.object_store.begin_round().await, stage.put().await), (Ok(()), Ok(())));
    let ids = |seen: &Seen| seen.query.split("X-Amz-Credential=").nth(1).unwrap()[..3].to_owned();
    assert_eq!(stage.script.seen.lock().iter().map(ids).collect::<Vec<_>>(), ["ID0", "ID0", "ID1"]);
    let why = "`audit_export.s3.access_key_id` has no value".to_owned();
    assert_eq!(stage.object_store.begin_round().await, Err(ObjectStoreError::Refused { why }));
    let shown = format!("{:?}", stage.object_store);
    assert!(shown.contains("acme-audit") && !shown.contains("ID1") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn a_bucket_is_at_aws_in_its_region_or_at_the_endpoint() {
    let at = |s3: &str, name: &str| bucket_of(&table(s3, "").s3.unwrap(), name).unwrap().base_url().to_string();
    let region = "region = \"eu-central-1\"";
    assert_eq!(at(region, "audit"), "https://audit.s3.eu-central-1.amazonaws.com/");
    assert_eq!(at(region, "audit.acme"), "https://s3.eu-central-1.amazonaws.com/audit.acme/");
    assert_eq!(at("endpoint = \"https://s3.example:9000\"", "audit"), "https://s3.example:9000/audit/");
}
