//! Entries that cannot work: each gets one clear error that names the entry, the problem and, where possible, the
//! remedy.

use std::{io::Write as _, net::TcpListener, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};

use futures::future::BoxFuture;
use serde_json::json;
use toolrack_host::{
    CallErrorKind, ChildPlan, Host, ResolveError, Resolver, ServerName, ServerSpec, Verbatim,
    spec::{Http, Stdio, Transport},
};
use toolrack_testkit::{FakeHttp, Home, fake_server_path};

use crate::stage::{SLACK, Stage, endpoint};

/// Checks that the entry is refused with this code and these words, and stays configured.
async fn refused(spec: ServerSpec, code: &str, says: &[&str]) {
    refused_by(Stage::of(spec).await, code, says).await;
}

async fn refused_by(stage: Stage, code: &str, says: &[&str]) -> CallErrorKind {
    let status = stage.start().await;
    let error = status.state.error().unwrap_or_else(|| panic!("{:?}", status.state)).to_owned();
    let called = stage.call("echo", json!({})).await.within(stage.spec.timeouts.call + SLACK);
    let (got, words) = called.failure();
    assert_eq!(got, code, "{words}");
    for part in says {
        assert!(words.contains(part), "`{part}` is not in: {words}");
        assert!(error.contains(part), "`{part}` is not in the state: {error}");
    }
    let hint = called.result.as_ref().unwrap_err().hint();
    assert!(hint.is_some(), "no next step for: {words}");
    let why = stage.host.why("faulty/echo");
    assert!(!why.present && why.to_string().contains(says[0]), "{why}");
    stage.finish().await;
    called.result.unwrap_err().kind()
}

fn command(command: &str) -> Stdio {
    Stdio {
        command: command.to_owned(),
        env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        ..Stdio::default()
    }
}

fn stdio(stdio: Stdio) -> ServerSpec {
    ServerSpec::new(Transport::Stdio(stdio))
}

fn http(url: &str) -> ServerSpec {
    ServerSpec::new(Transport::Http(endpoint(url)))
}

#[expect(clippy::disallowed_methods, reason = "makes programs")]
fn file(home: &Home, name: &str, content: &str, mode: u32) -> String {
    let path = home.write(name, content);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_missing_command_is_reported() {
    refused(stdio(command("no-such-mcp-server")), "SPAWN_FAILED", &["no-such-mcp-server", "PATH"]).await;
    refused(stdio(command("/no/such/mcp-server")), "SPAWN_FAILED", &["/no/such/mcp-server"]).await;
}

#[tokio::test]
async fn a_command_that_cannot_be_executed_is_reported() {
    let home = Home::new();
    let text = file(&home, "notes.txt", "buy milk\n", 0o644);
    refused(stdio(command(&text)), "SPAWN_FAILED", &["notes.txt", "executable"]).await;
    let data = file(&home, "data.bin", "\u{1}\u{2}\u{3}", 0o755);
    refused(stdio(command(&data)), "SPAWN_FAILED", &["data.bin"]).await;
    let folder = home.work();
    refused(stdio(command(folder.to_str().unwrap())), "SPAWN_FAILED", &[folder.to_str().unwrap()]).await;
    let script = file(&home, "script", "#!/no/such/interpreter\n", 0o755);
    refused(stdio(command(&script)), "SPAWN_FAILED", &["script", "interpreter"]).await;
    refused(stdio(command("")), "SPAWN_FAILED", &["command"]).await;
}

#[tokio::test]
async fn a_missing_working_folder_is_reported() {
    let home = Home::new();
    let fake = fake_server_path().to_str().unwrap();
    let missing = Stdio { cwd: Some(PathBuf::from("/no/such/folder")), ..command(fake) };
    refused(stdio(missing), "SPAWN_FAILED", &["/no/such/folder"]).await;
    let text = file(&home, "notes.txt", "buy milk\n", 0o644);
    refused(stdio(Stdio { cwd: Some(text.into()), ..command(fake) }), "SPAWN_FAILED", &["notes.txt"]).await;
}

#[tokio::test]
async fn arguments_that_no_process_can_have_are_reported() {
    let fake = fake_server_path().to_str().unwrap();
    let nul = Stdio { args: vec!["stdio\0".to_owned()], ..command(fake) };
    refused(stdio(nul), "SPAWN_FAILED", &["NUL"]).await;
    let large = Stdio { args: vec!["x".repeat(10_000_000)], ..command(fake) };
    refused(stdio(large), "SPAWN_FAILED", &["too long"]).await;
}

/// Refuses placeholders without a value, as the configuration does with `${NAME}`.
struct Unset;

impl Resolver for Unset {
    fn stdio<'a>(&'a self, server: &'a ServerName, spec: &'a Stdio) -> BoxFuture<'a, Result<ChildPlan, ResolveError>> {
        match spec.args.iter().find(|arg| arg.starts_with("${")) {
            Some(arg) => Box::pin(async move { Err(ResolveError::new(format!("args of {server}: {arg} is not set"))) }),
            None => Verbatim.stdio(server, spec),
        }
    }

    fn url<'a>(&'a self, server: &'a ServerName, spec: &'a Http) -> BoxFuture<'a, Result<String, ResolveError>> {
        match spec.url.contains("${") {
            true => {
                Box::pin(
                    async move { Err(ResolveError::new(format!("url of {server}: ${{HOST_OF_FAULTY}} is not set"))) },
                )
            }
            false => Verbatim.url(server, spec),
        }
    }

    fn headers<'a>(
        &'a self,
        server: &'a ServerName,
        spec: &'a Http,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, ResolveError>> {
        match spec.headers.values().any(|value| value.contains("${")) {
            true => {
                Box::pin(async move { Err(ResolveError::new(format!("headers of {server}: ${{KEY}} is not set"))) })
            }
            false => Verbatim.headers(server, spec),
        }
    }
}

#[tokio::test]
async fn a_placeholder_without_a_value_is_reported() {
    let args = Stdio { args: vec!["${ROOT_OF_FAULTY}".to_owned()], ..command("server") };
    let header =
        Http { headers: [("Key".to_owned(), "${KEY}".to_owned())].into(), ..endpoint("http://127.0.0.1:9/mcp") };
    for (spec, message) in [
        (stdio(args), "${ROOT_OF_FAULTY} is not set"),
        (http("http://${HOST_OF_FAULTY}/mcp"), "${HOST_OF_FAULTY} is not set"),
        (ServerSpec::new(Transport::Http(header)), "${KEY} is not set"),
    ] {
        let stage = Stage::of_built(Host::builder().resolver(std::sync::Arc::new(Unset)), spec).await;
        assert_eq!(refused_by(stage, "UNRESOLVED_VALUE", &[message]).await, CallErrorKind::Config);
    }
}

#[tokio::test]
async fn an_invalid_url_is_reported() {
    for url in ["mcp", "ftp://127.0.0.1/mcp", "http://", "http://[::1/mcp", "file:///etc/passwd", ""] {
        refused(http(url), "BAD_URL", &["url"]).await;
    }
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("http://{free}/mcp"), format!("https://{free}/mcp")] {
        refused(http(&url), "UNREACHABLE", &[&free.to_string(), "refused"]).await;
    }
    let sse = ServerSpec::new(Transport::Sse(endpoint(&format!("http://{free}/sse"))));
    refused(sse, "UNREACHABLE", &[&free.to_string()]).await;
}

/// The listener answers the first bytes of TLS as any plain HTTP server does.
#[tokio::test]
async fn tls_to_a_plain_http_port_is_reported() {
    let url = listener(|mut stream| {
        let _there = std::io::Read::read(&mut stream, &mut [0; 1_024]);
        let _closed = stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
    let url = url.replace("http://", "https://");
    refused(http(&url), "UNREACHABLE", &[url.trim_end_matches("/mcp"), "TLS"]).await;
}

#[tokio::test]
async fn a_path_that_is_not_the_endpoint_is_reported() {
    let server = FakeHttp::start::<&str>(&["--era", "both"]);
    let stage = Stage::of(http(&format!("http://{}/wrong", server.address()))).await;
    refused_by(stage.with_http_server(server), "HTTP_ERROR", &["404"]).await;
}

#[tokio::test]
async fn the_wrong_transport_is_reported() {
    let server = FakeHttp::start::<&str>(&["--era", "modern"]);
    let stage = Stage::of(ServerSpec::new(Transport::Sse(endpoint(server.url())))).await;
    refused_by(stage.with_http_server(server), "HTTP_ERROR", &["405"]).await;
    let server = FakeHttp::start_sse::<&str>(&[]);
    let stage = Stage::of(http(server.url())).await;
    refused_by(stage.with_http_server(server), "HTTP_ERROR", &["405"]).await;
}

#[tokio::test]
async fn an_invalid_header_is_reported() {
    for (name, value) in [("Bad Name", "x"), ("", "x"), ("X-Key", "s3cr3t-0f-the-fault-suite\r\nX-More: 1")] {
        let entry =
            Http { headers: [(name.to_owned(), value.to_owned())].into(), ..endpoint("http://127.0.0.1:9/mcp") };
        refused(ServerSpec::new(Transport::Http(entry)), "BAD_HEADER", &["header"]).await;
    }
}

/// A listener that accepts connections, and calls this for each.
fn listener(serve: impl Fn(std::net::TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
    url
}

#[tokio::test]
async fn a_port_of_another_protocol_is_reported() {
    let url = listener(|mut stream| {
        let _closed = stream.write_all(b"220 mail.example ESMTP ready\r\n");
    });
    refused(http(&url), "CONNECTION_BROKEN", &["HTTP"]).await;
}

#[tokio::test]
async fn a_port_that_never_answers_is_reported() {
    let url = listener(|mut stream| {
        // Keeps the connection open as long as the client does, without an answer.
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    });
    let mut stage = Stage::of(http(&url)).await;
    stage.spec.timeouts.startup = Duration::from_millis(3_500);
    refused_by(stage, "TIMED_OUT", &["startup_timeout"]).await;
}
