//! Faults that answer with something other than MCP, before a tool runs: web pages, errors, redirects, silence.

use std::io;

use super::super::faults::Fault;
use super::super::server::{Request, Server};
use super::exchange::Exchange;
use super::{After, MOVED, PATH};

const PAGE: &str = "<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>";

/// An HTTP answer.
#[derive(Debug, Default)]
struct HttpAnswer {
    status: u16,
    field: Option<(&'static str, String)>,
    kind: &'static str,
    body: &'static str,
}

/// Writes the answer of the fault that strikes this request, if there is one.
pub(in super::super) async fn instead_of_mcp(
    exchange: &mut Exchange,
    server: &Server,
    request: &Request,
    path: &str,
) -> io::Result<Option<After>> {
    let struck = &request.struck;
    if struck.by(Fault::Hang) || struck.by(Fault::HangDiscover) {
        exchange.gone().await;
        return Ok(Some(After::Close));
    }
    if struck.by(Fault::CloseAtOnce) {
        return Ok(Some(After::Close));
    }
    let Some(answer) = struck.iter().find_map(|fault| answer(server, fault, path)) else { return Ok(None) };
    let mut fields = Vec::new();
    if !answer.kind.is_empty() {
        fields.push(("content-type", answer.kind));
    }
    if let Some((name, value)) = &answer.field {
        fields.push((*name, value.as_str()));
    }
    exchange.respond(answer.status, &fields, answer.body.as_bytes()).await?;
    Ok(Some(After::Keep))
}

fn answer(server: &Server, fault: Fault, path: &str) -> Option<HttpAnswer> {
    let argument = || server.options.faults.text(fault).unwrap_or_default().to_owned();
    let page = |status| HttpAnswer { status, kind: "text/html; charset=utf-8", body: PAGE, field: None };
    let plain = |status, body| HttpAnswer { status, kind: "text/plain", body, field: None };
    Some(match fault {
        Fault::Html | Fault::DiscoverHtml => page(200),
        Fault::Http500 | Fault::Discover500 => plain(500, "internal server error"),
        Fault::Http400 => plain(400, "bad request"),
        Fault::Http403 => plain(403, "forbidden"),
        Fault::Http404 => plain(404, "not found"),
        Fault::Http202 | Fault::Discover202 => HttpAnswer { status: 202, ..HttpAnswer::default() },
        Fault::Http429 => HttpAnswer { field: Some(("retry-after", argument())), ..plain(429, "too many requests") },
        Fault::Http503 => HttpAnswer { field: Some(("retry-after", argument())), ..plain(503, "overloaded") },
        Fault::Http401 if argument() == "none" => plain(401, "unauthorized"),
        Fault::Http401 => HttpAnswer { field: Some(("www-authenticate", argument())), ..plain(401, "unauthorized") },
        Fault::RedirectSame if path == PATH => {
            let status = server.options.faults.number(fault).and_then(|status| u16::try_from(status).ok());
            redirect(status.unwrap_or(307), MOVED.to_owned())
        }
        Fault::RedirectCross => redirect(307, argument()),
        Fault::RedirectLoop => redirect(307, PATH.to_owned()),
        _ => return None,
    })
}

fn redirect(status: u16, to: String) -> HttpAnswer {
    HttpAnswer { status, field: Some(("location", to)), ..HttpAnswer::default() }
}
