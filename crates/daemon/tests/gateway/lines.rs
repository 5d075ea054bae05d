//! A client over stdio that writes its lines itself.

use std::fmt::Display;

use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split,
};
use toolrack_daemon::gateway::StdioError;

use crate::world::World;

/// How many bytes may be under way in each direction: more than a test writes before it reads.
const PIPE_BYTES: usize = 1_000_000;

pub(crate) struct LineClient {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl LineClient {
    /// A client, and the connection that the gateway serves to it, which the test has to run beside the client.
    pub(crate) fn of(world: &World) -> (Self, impl Future<Output = Result<(), StdioError>>) {
        let (ours, theirs) = duplex(PIPE_BYTES);
        let (reader, writer) = split(theirs);
        let serving = world.gateway.serve_stdio(reader, writer);
        let (reader, writer) = split(ours);
        (Self { lines: BufReader::new(reader).lines(), writer }, serving)
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    /// Sends a line.
    pub(crate) async fn say(&mut self, line: impl Display) {
        self.write(format!("{line}\n").as_bytes()).await;
    }

    /// The next line of the gateway.
    pub(crate) async fn next_line(&mut self) -> String {
        self.lines.next_line().await.unwrap().unwrap()
    }

    /// The next message of the gateway.
    pub(crate) async fn hear(&mut self) -> Value {
        serde_json::from_str(&self.next_line().await).unwrap()
    }

    /// Sends a line, and returns the next message that is an answer, or a batch of answers.
    pub(crate) async fn ask(&mut self, line: impl Display) -> Value {
        self.say(line).await;
        loop {
            let message = self.hear().await;
            // Notifications have a method.
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Closes the client's end of the connection.
    pub(crate) async fn close(&mut self) {
        self.writer.shutdown().await.unwrap();
    }
}
