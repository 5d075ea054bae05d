//! The fast server inside this process. It answers with as little work as the protocol allows, so that a measurement is
//! about the host. It can start late, and die after some messages.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, split};
use toolrack_host::Native;

use crate::fast_server::{Offer, Request};

/// When a connection starts to answer, and when it ends.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    /// The delay before the first message is read.
    pub start_delay: Duration,
    /// The number of messages after which the connection is closed.
    pub messages: usize,
}

impl Default for Life {
    fn default() -> Self {
        Self { start_delay: Duration::ZERO, messages: usize::MAX }
    }
}

/// Returns a server in this process with this offer.
#[must_use]
pub fn native(offer: Offer, life: Life) -> Native {
    Native::new("fast", move |io, stop| async move {
        // An error means that the client is gone.
        let _ = stop.run_until_cancelled(serve(io, offer, life)).await;
    })
}

/// Answers until the client closes the connection, or the number of messages is reached.
async fn serve(io: DuplexStream, offer: Offer, life: Life) -> std::io::Result<()> {
    if !life.start_delay.is_zero() {
        tokio::time::sleep(life.start_delay).await;
    }
    let (read, mut write) = split(io);
    let (mut read, mut line) = (BufReader::new(read), Vec::new());
    for _ in 0..life.messages {
        line.clear();
        if read.read_until(b'\n', &mut line).await? == 0 {
            break;
        }
        write.write_all(&answer(&line, offer)).await?;
    }
    Ok(())
}

/// Returns the lines that answer this line; none if the message needs no answer.
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
