//! Where requests may go, as `toolrack.toml` says.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::mpsc,
};

use serde_json::json;
use toolrack_testkit::FakeHttp;

use crate::rack::Rack;

const HOSTED: &str = "egress = \"hosted\"\n";

fn rack(server: &FakeHttp, settings: &str) -> Rack {
    let rack = Rack::with(&[("web", json!({ "url": server.url() }))]);
    rack.home.write("toolrack/toolrack.toml", settings);
    rack
}

#[test]
fn a_hosted_program_refuses_local_addresses_and_says_why() {
    let server = FakeHttp::start::<&str>(&[]);
    let rack = rack(&server, HOSTED);
    let ran = rack.run(&["call", "web/echo", "text=x"]).ends_with(2);
    for words in [": it is not https", "egress profile `hosted`", "toolrack.toml", "egress.allow"] {
        assert!(ran.stderr.contains(words), "{words}: {ran}");
    }
    let error = rack.run(&["--json", "call", "web/echo", "text=x"]).ends_with(2).error();
    assert_eq!(error["code"], "EGRESS_REFUSED");
    let login = rack.run(&["login", "web"]).ends_with(2);
    assert!(
        login.stderr.contains("cannot sign in to `web` ([HOME]/toolrack/mcp.json): the egress rules refuse "),
        "{login}"
    );
    assert!(login.stderr.contains("add the host to `egress.allow` in [HOME]/toolrack/toolrack.toml"), "{login}");
    let doctor = rack.run(&["doctor"]).ends_with(2);
    for words in ["egress", "https to public addresses only", "the egress rules refuse ", "`egress.allow`"] {
        assert!(doctor.stdout.contains(words), "{words}: {doctor}");
    }
    assert!(!doctor.stdout.contains(" answers in "), "the doctor does not dial it either: {doctor}");
}

#[test]
fn an_address_that_the_operator_allows_is_reached() {
    let server = FakeHttp::start::<&str>(&[]);
    let rack = rack(&server, "[egress]\nprofile = \"hosted\"\nallow = [\"127.0.0.0/8\"]\n");
    let ran = rack.run(&["call", "web/echo", "text=hello"]).ends_with(0);
    assert!(ran.stdout.contains("hello"), "{ran}");
    let doctor = rack.run(&["doctor", "--offline"]).ends_with(0);
    assert!(doctor.stdout.contains("1 place that `egress.allow` trusts"), "{doctor}");
}

#[test]
fn settings_that_cannot_be_understood_let_nothing_out_that_is_not_public() {
    let server = FakeHttp::start::<&str>(&[]);
    for settings in ["egress = \"of course\"\n", "[egress]\nallow = 7\n", "[egress\n"] {
        let ran = rack(&server, settings).run(&["call", "web/echo", "text=x"]).ends_with(2);
        assert!(ran.stderr.contains("the egress rules refuse "), "{settings}: {ran}");
    }
}

#[test]
fn a_user_who_chooses_other_servers_does_not_choose_other_rules() {
    let server = FakeHttp::start::<&str>(&[]);
    let rack = rack(&server, HOSTED);
    let file = rack.home.root().join("toolrack/mcp.json");
    let args = ["--mcp-config", file.to_str().unwrap(), "--strict-mcp-config", "call", "web/echo", "text=x"];
    let ran = rack.run(&args).ends_with(2);
    assert!(ran.stderr.contains("the egress rules refuse "), "{ran}");
}

#[test]
fn the_error_for_a_refused_redirect_has_reason_file_and_next_step() {
    for (fault, why, next) in [
        ("redirect-same=302", "a redirect other than 307 and 308", "put the url to which it redirects into"),
        ("redirect-cross=https://elsewhere.example/", "another origin", "if you trust that place, put its url into"),
        ("redirect-loop", "more than 10 in a row", "the fault is in the server, or in the url in"),
    ] {
        let server = FakeHttp::start(&["--fault", fault, "--fault-times", "100"]);
        let ran = rack(&server, "").run(&["call", "web/echo", "text=x"]);
        assert!(ran.stderr.contains("on the server web ([HOME]/toolrack/mcp.json)"), "{ran}");
        assert!(ran.stderr.contains(why), "{ran}");
        assert!(ran.stderr.contains(&format!("hint: {next} [HOME]/toolrack/mcp.json")), "{ran}");
    }
}

/// A proxy that records its requests, and forwards none.
fn proxy() -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            let _ = stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    (url, told)
}

#[test]
fn a_proxy_is_used_where_the_operator_names_it_and_not_where_the_environment_does() {
    let entry = [("far", json!({ "url": "https://mcp.example.invalid/mcp" }))];
    let (url, told) = proxy();
    let rack = Rack::with(&entry);
    rack.home.write("toolrack/toolrack.toml", format!("[egress]\nprofile = \"hosted\"\nproxy = \"{url}\"\n"));
    let _ = rack.run(&["call", "far/echo"]).ends_with(4);
    assert!(told.recv().unwrap().starts_with("CONNECT mcp.example.invalid:443 "));

    let (url, told) = proxy();
    for (settings, is_used) in [(HOSTED, false), ("egress.proxy = \"off\"\n", false), ("", true)] {
        let rack = Rack::with(&entry).env("HTTPS_PROXY", &url);
        rack.home.write("toolrack/toolrack.toml", settings);
        let _ = rack.run(&["call", "far/echo"]).ends_with(4);
        assert_eq!(told.try_recv().is_ok(), is_used, "{settings}");
        while told.try_recv().is_ok() {}
    }
}
