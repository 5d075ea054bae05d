//! `toolrack serve` that speaks TLS itself.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::json;
use toolrack_testkit::Certificate;

use crate::{
    rack::{Rack, Ran, fake, mcp_json},
    warm::Daemon,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// The files of a new certificate and its key.
fn written(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let Certificate { certificate, key } = Certificate::new();
    let files = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    fs::write(&files.0, certificate).unwrap();
    fs::write(&files.1, key).unwrap();
    files
}

/// A call over the MCP endpoint, by a client that trusts the certificate alone.
fn call(rack: &Rack, daemon: &Daemon, trusted: &Path) -> Ran {
    let port = daemon.address.rsplit_once(':').unwrap().1;
    let headers = json!({ "Authorization": format!("Bearer {}", daemon.token) });
    let config =
        mcp_json(&[("gateway", json!({ "url": format!("https://localhost:{port}/mcp"), "headers": headers }))]);
    let words =
        ["--mcp-config", &config, "--strict-mcp-config", "--no-daemon", "call", "gateway/mcp__fake__echo", "text=safe"];
    let mut command = rack.command(&words);
    command.env("SSL_CERT_FILE", trusted).env_remove("SSL_CERT_DIR");
    Ran::new(&words, &command.output().unwrap(), rack)
}

#[test]
fn the_address_speaks_tls_and_a_new_certificate_counts_without_a_restart() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let folder = rack.home.root().join("certificates");
    fs::create_dir_all(&folder).unwrap();
    let [used, first, next] = ["used", "first", "next"].map(|name| written(&folder, name));
    let replace = |by: &(PathBuf, PathBuf)| {
        fs::copy(&by.0, &used.0).unwrap();
        fs::copy(&by.1, &used.1).unwrap();
    };
    replace(&first);
    let files = [&used.0, &used.1].map(|path| path.to_str().unwrap());
    let daemon = Daemon::start(&rack, &["--tls-cert", files[0], "--tls-key", files[1], "--allow", "*"]);
    assert!(call(&rack, &daemon, &first.0).ends_with(0).stdout.contains("safe"));
    let refused = call(&rack, &daemon, &next.0).ends_with(4);
    assert!(refused.stderr.contains("certificate"), "{}", refused.stderr);

    // A request without TLS gets no answer of HTTP.
    let mut plain = TcpStream::connect(&daemon.address).unwrap();
    plain.set_read_timeout(Some(LIMIT)).unwrap();
    // In one piece: the daemon ends the connection after the first bytes.
    let request = format!("GET /health HTTP/1.1\r\nHost: {}\r\n\r\n", daemon.address);
    plain.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));

    replace(&next);
    let started = Instant::now();
    while call(&rack, &daemon, &next.0).code != Some(0) {
        assert!(started.elapsed() < LIMIT, "the new certificate does not count");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_named_and_nothing_starts() {
    let rack = Rack::with(&[("fake", fake(&[]))]);
    let [one, other] = ["one", "other"].map(|name| written(rack.home.root(), name));
    let files = [&one.0, &other.1].map(|path| path.to_str().unwrap());
    let ran =
        rack.run(&["serve", "--no-open", "--listen", "127.0.0.1:0", "--tls-cert", files[0], "--tls-key", files[1]]);
    let ran = ran.ends_with(2);
    assert!(ran.stderr.contains("the key does not fit the certificate"), "{}", ran.stderr);
    let alone = rack.run(&["serve", "--no-open", "--tls-cert", files[0]]);
    assert!(alone.ends_with(2).stderr.contains("--tls-key"));
}
