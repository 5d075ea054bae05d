//! The local HTTP listener that receives the redirect of a sign-in (RFC 8252, 7.3).

use std::{io, net::Ipv4Addr, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use url::Url;

use crate::browser::BrowserError;

/// The path of the redirect URI.
const PATH: &str = "/callback";
/// The maximum number of bytes in the head of a request; a real redirect is far shorter.
const MAX_HEAD_BYTES: usize = 16 * 1024;
/// The timeout of one request. Browsers open connections in advance and send nothing on them.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of connections at once; further ones wait.
const MAX_CONNECTIONS: usize = 16;

/// An address on 127.0.0.1 to which a browser is redirected, for one sign-in.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Listens on `port`, or on any free port if `port` is 0.
    ///
    /// # Errors
    /// [`BrowserError::Port`] when the port is in use or cannot be opened.
    pub async fn bind(port: u16) -> Result<Self, BrowserError> {
        let port_error = |error: io::Error| BrowserError::Port { port, why: error.to_string() };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(port_error)?;
        let port = listener.local_addr().map_err(port_error)?.port();
        Ok(Self { listener, port })
    }

    /// Returns `http://127.0.0.1:PORT/callback`.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits at most `limit` for the redirect that belongs to `authorization_url`, and returns its URL. The query has
    /// `code`, or `error` if the sign-in failed. Refuses a request with another `state` or another `Host`, and
    /// continues to wait; without a `state` in `authorization_url`, the redirect must have none either.
    ///
    /// If the future is dropped, the accepted connections are closed, and the port stays open.
    ///
    /// # Errors
    /// [`BrowserError::TimedOut`], and [`BrowserError::Port`] when the system gives out no further connection.
    pub async fn wait(&self, authorization_url: &Url, limit: Duration) -> Result<Url, BrowserError> {
        let state =
            authorization_url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value.into_owned());
        let redirect = timeout(limit, self.accept_redirect(state.as_deref())).await;
        redirect.unwrap_or(Err(BrowserError::TimedOut { after: limit }))
    }

    /// Accepts connections until one brings the redirect with this `state`.
    async fn accept_redirect(&self, state: Option<&str>) -> Result<Url, BrowserError> {
        let mut requests = FuturesUnordered::new();
        loop {
            tokio::select! {
                connection = self.listener.accept(), if requests.len() < MAX_CONNECTIONS => match connection {
                    Ok((stream, _)) => requests.push(timeout(REQUEST_TIMEOUT, self.answer_request(stream, state))),
                    // This is rare, for example if no file descriptor is free: the user can sign in again.
                    Err(error) => return Err(BrowserError::Port { port: self.port, why: error.to_string() }),
                },
                // Any other request, even one that failed or timed out, does not end the wait.
                Some(request) = requests.next() => if let Ok(Ok(Some(redirect))) = request {
                    return Ok(redirect);
                },
            }
        }
    }

    /// Reads one request, and answers it. Returns the URL of the request if it is the redirect of this sign-in.
    async fn answer_request(&self, mut stream: TcpStream, state: Option<&str>) -> io::Result<Option<Url>> {
        let mut head = Vec::new();
        while !head.windows(4).any(|window| window == b"\r\n\r\n") {
            let mut chunk = [0; 2048];
            match stream.read(&mut chunk).await? {
                0 => return Ok(None),
                length if head.len() + length > MAX_HEAD_BYTES => return Ok(None),
                length => head.extend_from_slice(&chunk[..length]),
            }
        }
        let redirect = self.redirect_in(&String::from_utf8_lossy(&head), state);
        let (status, message) = match &redirect {
            Some(_) => ("200 OK", "Toolrack has received the answer. You can close this page."),
            None => (
                "404 Not Found",
                "This is not the answer to the sign-in that Toolrack is waiting for. Go back to the page that it opened.",
            ),
        };
        let page = format!("<!doctype html><meta charset=utf-8><title>Toolrack</title><p>{message}</p>");
        let response = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
             Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n{page}",
            page.len()
        );
        // An error means that the browser has closed the connection, which does not matter here.
        let _ = stream.write_all(response.as_bytes()).await;
        let _ = stream.shutdown().await;
        Ok(redirect)
    }

    /// Returns the URL of a request, if it is the redirect of this sign-in.
    fn redirect_in(&self, head: &str, state: Option<&str>) -> Option<Url> {
        let mut lines = head.lines();
        let mut request = lines.next()?.split(' ');
        let (method, target) = (request.next()?, request.next()?);
        let host = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        })?;
        // With DNS rebinding, a foreign page reaches this port under its own host name. `Host` then has that name.
        let names_this_port = host == format!("127.0.0.1:{}", self.port);
        let own_url = Url::parse(&format!("http://127.0.0.1:{}", self.port)).ok()?;
        let url = own_url.join(target).ok()?;
        let received_state = url.query_pairs().find(|(name, _)| name == "state").map(|(_, value)| value);
        // A browser sends only path and query. `//HOST/callback` would be a URL of another host.
        let is_own_path = target.starts_with('/') && url.origin() == own_url.origin() && url.path() == PATH;
        let is_redirect = method == "GET" && names_this_port && is_own_path;
        (is_redirect && received_state.as_deref() == state).then_some(url)
    }
}

#[cfg(test)]
mod tests;
