//! The fast server inside of this process.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, split};
use toolrack_host::Native;

use crate::served::{Offer, Request};

/// A server with this offer, which closes its connection after so many messages, if it is mortal.
#[must_use]
pub fn native(offer: Offer, mortal: Option<usize>) -> Native {
    Native::new("fast", move |io, stop| async move {
        let _ = stop.run_until_cancelled(serve(io, offer, mortal.unwrap_or(usize::MAX))).await;
    })
}

/// Answers until the other side is gone, or it has answered enough.
async fn serve(io: DuplexStream, offer: Offer, messages: usize) -> std::io::Result<()> {
    let (read, mut write) = split(io);
    let (mut read, mut line) = (BufReader::new(read), Vec::new());
    for _ in 0..messages {
        line.clear();
        if read.read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        write.write_all(&answer(&line, offer)).await?;
    }
    Ok(())
}

/// The lines that answer this one: none if it asks for nothing.
fn answer(line: &[u8], offer: Offer) -> Vec<u8> {
    let mut out = Vec::new();
    let Ok(request) = serde_json::from_slice::<Request<'_>>(line) else { return out };
    let answer = request.answer(offer);
    for message in answer.events.into_iter().chain(answer.response) {
        out.extend_from_slice(message.as_bytes());
        out.push(b'\n');
    }
    out
}
