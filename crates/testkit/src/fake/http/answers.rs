//! Answers of the fake server with one JSON body, and the *faults* of such a body: misbehaviour that its command line
//! asks for, such as to break off in the middle.

use std::io;
use std::time::Duration;

use super::super::faults::Fault;
use super::connection::Connection;
use super::events::StreamWriter;
use super::{ConnectionAction, gzip};

/// Writes the answer, with the fault that strikes it.
pub(super) async fn write(
    connection: &mut Connection,
    stream: &StreamWriter<'_>,
    status: u16,
    body: &[u8],
) -> io::Result<ConnectionAction> {
    let faults = &stream.server.options.faults;
    let number = |fault| faults.number(fault).unwrap_or(0);
    let mut fields = vec![("content-type", "application/json")];
    fields.extend(stream.session.map(|id| ("mcp-session-id", id)));
    let Some(fault) = stream.request_faults.iter().find(|fault| spoils_a_body(*fault)) else {
        connection.respond(status, &fields, body).await?;
        return Ok(ConnectionAction::Keep);
    };
    match fault {
        Fault::ResetAfterEffect => return Ok(ConnectionAction::Reset),
        Fault::NoContentType => {
            // The first field is the Content-Type.
            connection.respond(status, &fields[1..], body).await?;
            return Ok(ConnectionAction::Keep);
        }
        Fault::HeadersGiant => {
            let filler = "x".repeat(usize::try_from(number(fault)).unwrap_or(0));
            fields.push(("x-filler", &filler));
            connection.respond(status, &fields, body).await?;
        }
        Fault::CutBody => connection.respond_in_part(status, &fields, &body[..body.len() / 2], body.len()).await?,
        Fault::ResetBody => {
            connection.respond_in_part(status, &fields, &body[..body.len() / 2], body.len()).await?;
            // Give the client time to read the earlier bytes: a reset discards bytes that are in transit.
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(ConnectionAction::Reset);
        }
        Fault::BadChunks => {
            connection.respond_in_chunks(status, &fields).await?;
            connection.write(b"zz\r\n{\"jsonrpc\"\r\n").await?;
        }
        Fault::BodyEndless => endless(connection, status, &fields).await?,
        Fault::SlowBody => slow(connection, status, &fields, body, Duration::from_millis(number(fault))).await?,
        Fault::GzipBomb => {
            fields.push(("content-encoding", "gzip"));
            connection.respond(status, &fields, &gzip::bomb(number(fault))).await?;
        }
        // `spoils_a_body` accepts no other fault.
        _ => {}
    }
    Ok(ConnectionAction::Close)
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

type Fields<'a> = super::connection::Fields<'a>;

/// Writes spaces, which JSON allows, until the client closes the connection.
async fn endless(connection: &mut Connection, status: u16, fields: Fields<'_>) -> io::Result<()> {
    connection.respond_in_chunks(status, fields).await?;
    static SPACES: [u8; 65_536] = [b' '; 65_536];
    loop {
        connection.write_chunk(&SPACES).await?;
    }
}

async fn slow(
    connection: &mut Connection,
    status: u16,
    fields: Fields<'_>,
    body: &[u8],
    pause: Duration,
) -> io::Result<()> {
    connection.respond_in_part(status, fields, b"", body.len()).await?;
    for byte in body {
        tokio::select! {
            () = connection.wait_until_closed() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        connection.write(&[*byte]).await?;
    }
    Ok(())
}
