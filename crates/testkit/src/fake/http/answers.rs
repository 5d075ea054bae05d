//! Answers with one JSON body, and the faults of such a body.

use std::io;
use std::time::Duration;

use super::super::faults::Fault;
use super::events::Stream;
use super::exchange::Exchange;
use super::{After, gzip};

/// Writes the answer, with the fault that strikes it.
pub(super) async fn write(exchange: &mut Exchange, stream: &Stream<'_>, status: u16, body: &[u8]) -> io::Result<After> {
    let faults = &stream.server.options.faults;
    let number = |fault| faults.number(fault).unwrap_or(0);
    let mut fields = vec![("content-type", "application/json")];
    fields.extend(stream.session.map(|id| ("mcp-session-id", id)));
    let Some(fault) = stream.struck.iter().find(|fault| spoils_a_body(*fault)) else {
        exchange.respond(status, &fields, body).await?;
        return Ok(After::Keep);
    };
    match fault {
        Fault::ResetAfterEffect => return Ok(After::Reset),
        Fault::NoContentType => {
            exchange.respond(status, &fields[1..], body).await?;
            return Ok(After::Keep);
        }
        Fault::HeadersGiant => {
            let filler = "x".repeat(usize::try_from(number(fault)).unwrap_or(0));
            fields.push(("x-filler", &filler));
            exchange.respond(status, &fields, body).await?;
        }
        Fault::CutBody => exchange.respond_in_part(status, &fields, &body[..body.len() / 2], body.len()).await?,
        Fault::ResetBody => {
            exchange.respond_in_part(status, &fields, &body[..body.len() / 2], body.len()).await?;
            // Give the client time to read the earlier bytes: a reset discards bytes that are in transit.
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(After::Reset);
        }
        Fault::BadChunks => {
            exchange.respond_in_chunks(status, &fields).await?;
            exchange.write(b"zz\r\n{\"jsonrpc\"\r\n").await?;
        }
        Fault::BodyEndless => endless(exchange, status, &fields).await?,
        Fault::SlowBody => slow(exchange, status, &fields, body, Duration::from_millis(number(fault))).await?,
        Fault::GzipBomb => {
            fields.push(("content-encoding", "gzip"));
            exchange.respond(status, &fields, &gzip::bomb(number(fault))).await?;
        }
        _ => {}
    }
    Ok(After::Close)
}

fn spoils_a_body(fault: Fault) -> bool {
    matches!(
        fault,
        Fault::ResetAfterEffect
            | Fault::NoContentType
            | Fault::HeadersGiant
            | Fault::CutBody
            | Fault::ResetBody
            | Fault::BadChunks
            | Fault::BodyEndless
            | Fault::SlowBody
            | Fault::GzipBomb
    )
}

type Fields<'a> = super::exchange::Fields<'a>;

/// Writes spaces, which JSON allows, until the client closes the connection.
async fn endless(exchange: &mut Exchange, status: u16, fields: Fields<'_>) -> io::Result<()> {
    exchange.respond_in_chunks(status, fields).await?;
    static SPACES: [u8; 65_536] = [b' '; 65_536];
    loop {
        exchange.chunk(&SPACES).await?;
    }
}

async fn slow(
    exchange: &mut Exchange,
    status: u16,
    fields: Fields<'_>,
    body: &[u8],
    pause: Duration,
) -> io::Result<()> {
    exchange.respond_in_part(status, fields, b"", body.len()).await?;
    for byte in body {
        tokio::select! {
            () = exchange.gone() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        exchange.write(&[*byte]).await?;
    }
    Ok(())
}
