//! HTTP answers that come instead of MCP, before anything has run: web pages, errors, redirects, silence.

use std::io;

use super::super::faults::Fault;
use super::super::server::{Request, Server};
use super::exchange::Exchange;
use super::{After, MOVED, PATH};

const PAGE: &str = "<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>";

/// An answer of one piece.
#[derive(Debug, Default)]
struct Piece {
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
    let Some(piece) = struck.iter().find_map(|fault| piece(server, fault, path)) else { return Ok(None) };
    let mut fields = Vec::new();
    if !piece.kind.is_empty() {
        fields.push(("content-type", piece.kind));
    }
    if let Some((name, value)) = &piece.field {
        fields.push((*name, value.as_str()));
    }
    exchange.respond(piece.status, &fields, piece.body.as_bytes()).await?;
    Ok(Some(After::Keep))
}

fn piece(server: &Server, fault: Fault, path: &str) -> Option<Piece> {
    let given = || server.options.faults.text(fault).unwrap_or_default().to_owned();
    let page = |status| Piece { status, kind: "text/html; charset=utf-8", body: PAGE, field: None };
    let plain = |status, body| Piece { status, kind: "text/plain", body, field: None };
    Some(match fault {
        Fault::Html | Fault::DiscoverHtml => page(200),
        Fault::Http500 | Fault::Discover500 => plain(500, "internal server error"),
        Fault::Http400 => plain(400, "bad request"),
        Fault::Http403 => plain(403, "forbidden"),
        Fault::Http404 => plain(404, "not found"),
        Fault::Http202 | Fault::Discover202 => Piece { status: 202, ..Piece::default() },
        Fault::Http429 => Piece { field: Some(("retry-after", given())), ..plain(429, "too many requests") },
        Fault::Http503 => Piece { field: Some(("retry-after", given())), ..plain(503, "overloaded") },
        Fault::Http401 if given() == "none" => plain(401, "unauthorized"),
        Fault::Http401 => Piece { field: Some(("www-authenticate", given())), ..plain(401, "unauthorized") },
        Fault::RedirectSame if path == PATH => {
            let status = server.options.faults.number(fault).and_then(|status| u16::try_from(status).ok());
            redirect(status.unwrap_or(307), MOVED.to_owned())
        }
        Fault::RedirectCross => redirect(307, given()),
        Fault::RedirectLoop => redirect(307, PATH.to_owned()),
        _ => return None,
    })
}

fn redirect(status: u16, to: String) -> Piece {
    Piece { status, field: Some(("location", to)), ..Piece::default() }
}
