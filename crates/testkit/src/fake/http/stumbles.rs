//! Faults (misbehaviour that the command line of the fake server asks for) that answer with something other than MCP,
//! before a tool runs: web pages, errors, redirects, silence.

use std::io;

use super::super::faults::Fault;
use super::super::server::{Request, Server};
use super::connection::Connection;
use super::{ConnectionAction, PATH, REDIRECT_PATH};

const PAGE: &str = "<!doctype html><html><head><title>Welcome</title></head><body><h1>It works!</h1></body></html>";

/// An HTTP answer.
#[derive(Debug, Default)]
struct HttpAnswer {
    status: u16,
    header_field: Option<(&'static str, String)>,
    media_type: &'static str,
    body: &'static str,
}

/// Writes the answer of the fault that strikes this request, if there is one.
pub(in super::super) async fn respond_with_fault(
    connection: &mut Connection,
    server: &Server,
    request: &Request,
    path: &str,
) -> io::Result<Option<ConnectionAction>> {
    let request_faults = &request.faults;
    if request_faults.has(Fault::Hang) || request_faults.has(Fault::HangDiscover) {
        connection.wait_until_closed().await;
        return Ok(Some(ConnectionAction::Close));
    }
    if request_faults.has(Fault::CloseAtOnce) {
        return Ok(Some(ConnectionAction::Close));
    }
    let Some(answer) = request_faults.iter().find_map(|fault| answer(server, fault, path)) else { return Ok(None) };
    let mut fields = Vec::new();
    if !answer.media_type.is_empty() {
        fields.push(("content-type", answer.media_type));
    }
    if let Some((name, value)) = &answer.header_field {
        fields.push((*name, value.as_str()));
    }
    connection.respond(answer.status, &fields, answer.body.as_bytes()).await?;
    Ok(Some(ConnectionAction::Keep))
}

/// Returns the answer that a fault demands for a request to `path`; `None` for a fault that strikes elsewhere.
fn answer(server: &Server, fault: Fault, path: &str) -> Option<HttpAnswer> {
    let argument = || server.options.faults.text(fault).unwrap_or_default().to_owned();
    let page = |status| HttpAnswer { status, media_type: "text/html; charset=utf-8", body: PAGE, header_field: None };
    let plain = |status, body| HttpAnswer { status, media_type: "text/plain", body, header_field: None };
    Some(match fault {
        Fault::Html | Fault::DiscoverHtml => page(200),
        Fault::Http500 | Fault::Discover500 => plain(500, "internal server error"),
        Fault::Http400 => plain(400, "bad request"),
        Fault::Http403 => plain(403, "forbidden"),
        Fault::Http404 => plain(404, "not found"),
        Fault::Http202 | Fault::Discover202 => HttpAnswer { status: 202, ..HttpAnswer::default() },
        Fault::Http429 => {
            HttpAnswer { header_field: Some(("retry-after", argument())), ..plain(429, "too many requests") }
        }
        Fault::Http503 => HttpAnswer { header_field: Some(("retry-after", argument())), ..plain(503, "overloaded") },
        Fault::Http401 if argument() == "none" => plain(401, "unauthorized"),
        Fault::Http401 => {
            HttpAnswer { header_field: Some(("www-authenticate", argument())), ..plain(401, "unauthorized") }
        }
        // The redirected request arrives at `REDIRECT_PATH`, and succeeds.
        Fault::RedirectSame if path == PATH => {
            let status = server.options.faults.number(fault).and_then(|status| u16::try_from(status).ok());
            redirect(status.unwrap_or(307), REDIRECT_PATH.to_owned())
        }
        Fault::RedirectCross => redirect(307, argument()),
        Fault::RedirectLoop => redirect(307, PATH.to_owned()),
        _ => return None,
    })
}

fn redirect(status: u16, to: String) -> HttpAnswer {
    HttpAnswer { status, header_field: Some(("location", to)), ..HttpAnswer::default() }
}
