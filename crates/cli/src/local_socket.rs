//! Connects processes to the two local (Unix) sockets of a daemon: one is for commands, one for MCP clients.
//!
//! A sandboxed server cannot open its user's files, but Landlock does not stop it from connecting to a socket with a
//! path. A connection alone therefore proves nothing. Instead, both ends prove that they can read a key file of mode
//! 0600, which no sandbox may read. Neither end sends the key:
//!
//! ```text
//! the process that connects                           daemon
//!                                    ◄── a number (32 random bytes)
//!   a number, and an HMAC of both numbers ──►
//!                                    ◄── another HMAC of both numbers, and then the messages of the socket
//! ```
//!
//! A server without a sandbox can read the key. If the system identifies the peer, the daemon refuses every process
//! that a server has started; such a process then works without the daemon.

use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use rand::{TryRngCore as _, rngs::OsRng};
use sha2::Sha256;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    time::{Instant, timeout},
};
use toolrack_host::{Fact, Witness};

/// How long a process may take to prove that it can read the key.
const PROOF_TIMEOUT: Duration = Duration::from_secs(2);

/// The most rows about refused processes that the audit log gets in one [`REPORT_WINDOW`]. The first row of the next
/// window says how many refusals have no row.
const MAX_ROWS: u32 = 20;

/// The time after which the count of rows begins anew.
const REPORT_WINDOW: Duration = Duration::from_mins(1);

/// A random number or a key, as bytes.
type Bytes32 = [u8; 32];

/// One of the two sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocalSocket {
    /// Commands of the same user.
    Commands,
    /// MCP clients of the same user.
    Clients,
}

impl LocalSocket {
    /// Returns the name of its file.
    fn file_name(self) -> &'static str {
        match self {
            Self::Commands => "cli.sock",
            Self::Clients => "mcp.sock",
        }
    }

    /// Returns the path of the socket of the daemon whose data are in `data`.
    pub(crate) fn path(self, data: &Path) -> PathBuf {
        folder(data).join(self.file_name())
    }
}

/// Returns the folder of the sockets and the key, which only the user may enter.
pub(crate) fn folder(data: &Path) -> PathBuf {
    data.join("run")
}

/// The key to the sockets of one running daemon.
pub(crate) struct Key(Bytes32);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(***)")
    }
}

impl Key {
    /// Makes a key, and writes it to the file where commands look for it. The folder must exist.
    ///
    /// # Errors
    /// When there are no random numbers, or the file cannot be written.
    pub(crate) fn create(data: &Path) -> io::Result<Self> {
        let key = Self(random_bytes()?);
        let temporary = folder(data).join(format!("key.{}.new", std::process::id()));
        // An earlier process with the same id may have left the file behind.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?.write_all(&key.0)?;
        fs::rename(temporary, Self::path(data))?;
        Ok(key)
    }

    fn read(data: &Path) -> io::Result<Self> {
        let mut key = [0; 32];
        fs::File::open(Self::path(data))?.read_exact(&mut key)?;
        Ok(Self(key))
    }

    pub(crate) fn path(data: &Path) -> PathBuf {
        folder(data).join("key")
    }

    /// Returns the HMAC with which `side` of `socket` proves that it knows the key. `nonces` holds the random number
    /// of the daemon, and then that of its peer.
    fn proof(&self, side: Side, socket: LocalSocket, nonces: &[Bytes32; 2]) -> io::Result<Hmac<Sha256>> {
        let mut proof = Hmac::new_from_slice(&self.0).map_err(io::Error::other)?;
        for part in [side.label().as_bytes(), b"\0", socket.file_name().as_bytes(), b"\0", &nonces[0], &nonces[1]] {
            proof.update(part);
        }
        Ok(proof)
    }
}

/// The side that makes a proof. The proof covers the side, so that a proof cannot be sent back to its sender as the
/// answer.
#[derive(Clone, Copy)]
enum Side {
    Daemon,
    Peer,
}

impl Side {
    /// Returns the label of this side in version 1 of the protocol.
    fn label(self) -> &'static str {
        match self {
            Self::Daemon => "toolrack door 1: daemon",
            Self::Peer => "toolrack door 1: visitor",
        }
    }
}

fn random_bytes() -> io::Result<Bytes32> {
    let mut bytes = [0; 32];
    OsRng.try_fill_bytes(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn bad_proof() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "the other end does not know the key")
}

/// Connects to `socket` of the daemon whose data are in `data`.
///
/// # Errors
/// When no daemon listens, when it refuses this process, or when another program listens there.
pub(crate) async fn connect(data: &Path, socket: LocalSocket) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket.path(data)).await?;
    // A daemon writes its key before it listens.
    let key = Key::read(data)?;
    let mut nonces = [[0; 32], random_bytes()?];
    stream.read_exact(&mut nonces[0]).await?;
    let proof = key.proof(Side::Peer, socket, &nonces)?.finalize().into_bytes();
    stream.write_all(&[&nonces[1][..], &proof].concat()).await?;
    let mut proof = [0; 32];
    stream.read_exact(&mut proof).await?;
    key.proof(Side::Daemon, socket, &nonces)?.verify_slice(&proof).map_err(|_| bad_proof())?;
    Ok(stream)
}

/// Decides which processes may use the sockets.
#[derive(Debug)]
pub(crate) struct SocketGuard {
    key: Key,
    /// Records the refused processes.
    witness: Option<Arc<dyn Witness>>,
    limiter: Mutex<ReportLimiter>,
}

/// Limits how many rows the witness (the audit log) gets.
#[derive(Debug)]
struct ReportLimiter {
    /// When the current window began.
    window_start: Instant,
    rows_written: u32,
    /// The number of refusals beyond [`MAX_ROWS`], which have no row.
    unreported: usize,
}

impl SocketGuard {
    pub(crate) fn new(key: Key, witness: Option<Arc<dyn Witness>>) -> Self {
        Self {
            key,
            witness,
            limiter: Mutex::new(ReportLimiter { window_start: Instant::now(), rows_written: 0, unreported: 0 }),
        }
    }

    /// Returns the connection once its peer has proved that it may use the socket; `None` if the peer is refused or
    /// gives no proof within [`PROOF_TIMEOUT`].
    pub(crate) async fn admit(&self, socket: LocalSocket, mut stream: UnixStream) -> Option<UnixStream> {
        let peer = stream.peer_cred().ok()?;
        // 0 if the system does not tell the process. On Linux, `refusal_for` then refuses it.
        let pid = peer.pid().unwrap_or_default();
        if peer.uid() != nix::unistd::geteuid().as_raw() {
            self.record_refusal(socket, pid, "it belongs to another user");
            return None;
        }
        // Check the process before waiting for its bytes, so that a server cannot block other processes even for a
        // moment.
        if let Some(why) = refusal_for(pid) {
            self.record_refusal(socket, pid, &why);
            return None;
        }
        match timeout(PROOF_TIMEOUT, self.verify_peer(socket, &mut stream)).await {
            Ok(Ok(())) => Some(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
                self.record_refusal(socket, pid, "it did not prove that it can read the key");
                None
            }
            _ => {
                tracing::debug!("a process at {} gave no proof in time, or closed its connection", socket.file_name());
                None
            }
        }
    }

    async fn verify_peer(&self, socket: LocalSocket, stream: &mut UnixStream) -> io::Result<()> {
        let mut nonces = [random_bytes()?, [0; 32]];
        stream.write_all(&nonces[0]).await?;
        stream.read_exact(&mut nonces[1]).await?;
        let mut proof = [0; 32];
        stream.read_exact(&mut proof).await?;
        // `verify_slice` compares in constant time.
        self.key.proof(Side::Peer, socket, &nonces)?.verify_slice(&proof).map_err(|_| bad_proof())?;
        let proof = self.key.proof(Side::Daemon, socket, &nonces)?.finalize().into_bytes();
        stream.write_all(&proof).await
    }

    /// Writes a refusal to the log, and to the audit log if [`MAX_ROWS`] allows.
    fn record_refusal(&self, socket: LocalSocket, pid: i32, why: &str) {
        let unreported = {
            let mut limiter = self.limiter.lock();
            if limiter.window_start.elapsed() >= REPORT_WINDOW {
                (limiter.window_start, limiter.rows_written) = (Instant::now(), 0);
            }
            if limiter.rows_written >= MAX_ROWS {
                limiter.unreported += 1;
                return;
            }
            limiter.rows_written += 1;
            std::mem::take(&mut limiter.unreported)
        };
        let process = describe_process(pid);
        let (socket, why) = (socket.file_name(), why.to_owned());
        tracing::warn!("{process} was refused at {socket}: {why}");
        if let Some(witness) = &self.witness {
            witness.record(Fact::TurnedAway { socket, process, why, unrecorded: unreported });
        }
    }
}

/// Describes a process by its name and id, for the audit log.
fn describe_process(pid: i32) -> String {
    match fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("{} (process {pid})", name.trim_end()),
        Err(_) => format!("process {pid}"),
    }
}

/// Returns whether a server has started this process, directly or not. Also `true` if the system does not show that.
pub(crate) fn was_started_by_server() -> bool {
    i32::try_from(std::process::id()).is_ok_and(|pid| refusal_for(pid).is_some())
}

/// Returns the reason why the process `pid` may not use a socket, even with a proof; `None` if it may.
#[cfg(target_os = "linux")]
fn refusal_for(pid: i32) -> Option<String> {
    use toolrack_supervisor::lineage::Lineage;
    match Lineage::determine(pid) {
        Lineage::Unsupervised => None,
        Lineage::Supervised(supervisor) => Some(format!("a server started it (supervisor process {supervisor})")),
        Lineage::Unknown => Some("the system does not show which process started it".to_owned()),
    }
}

/// On other systems, servers have no supervisor processes, so the system cannot tell which processes a server started.
#[cfg(not(target_os = "linux"))]
fn refusal_for(_: i32) -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;

    #[derive(Default)]
    struct Facts(Mutex<Vec<Fact>>);

    impl Witness for Facts {
        fn record(&self, fact: Fact) {
            self.0.lock().push(fact);
        }
    }

    fn data() -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(folder(data.path())).unwrap();
        data
    }

    fn guard(key: Key) -> (SocketGuard, Arc<Facts>) {
        let facts = Arc::new(Facts::default());
        (SocketGuard::new(key, Some(Arc::<Facts>::clone(&facts))), facts)
    }

    #[tokio::test]
    async fn a_process_that_can_read_the_key_may_use_the_socket_that_it_asked_for() {
        let data = data();
        let (guard, facts) = guard(Key::create(data.path()).unwrap());
        let listener = UnixListener::bind(LocalSocket::Commands.path(data.path())).unwrap();
        let admitted = async { guard.admit(LocalSocket::Commands, listener.accept().await.unwrap().0).await.unwrap() };
        let (mut at_daemon, peer) = tokio::join!(admitted, connect(data.path(), LocalSocket::Commands));
        peer.unwrap().write_all(b"hello").await.unwrap();
        let mut received = String::new();
        at_daemon.read_to_string(&mut received).await.unwrap();
        assert_eq!(received, "hello");
        // A proof for one socket is not valid for the other.
        let other = async { guard.admit(LocalSocket::Clients, listener.accept().await.unwrap().0).await };
        let (admitted, peer) = tokio::join!(other, connect(data.path(), LocalSocket::Commands));
        assert!(admitted.is_none() && peer.is_err());
        assert_eq!(facts.0.lock().len(), 1);
    }

    #[tokio::test]
    async fn a_process_that_cannot_read_the_key_is_refused_and_the_refusal_is_recorded() {
        let data = data();
        let (guard, facts) = guard(Key(random_bytes().unwrap()));
        Key::create(data.path()).unwrap();
        let listener = UnixListener::bind(LocalSocket::Clients.path(data.path())).unwrap();
        for _ in 0..MAX_ROWS + 5 {
            let admitted = async { guard.admit(LocalSocket::Clients, listener.accept().await.unwrap().0).await };
            let (admitted, peer) = tokio::join!(admitted, connect(data.path(), LocalSocket::Clients));
            assert!(admitted.is_none() && peer.is_err());
        }
        let facts = facts.0.lock();
        assert_eq!(facts.len(), MAX_ROWS as usize, "the audit log cannot be flooded");
        let Fact::TurnedAway { socket, process, why, unrecorded: 0 } = &facts[0] else { panic!("{facts:?}") };
        assert_eq!(*socket, "mcp.sock");
        assert!(process.contains(&std::process::id().to_string()), "{process}");
        assert!(why.contains("the key"), "{why}");
    }

    #[tokio::test]
    async fn an_impostor_learns_nothing_that_lets_it_enter() {
        let data = data();
        let key = Key::create(data.path()).unwrap();
        let (real, _) = guard(Key(key.0));
        let listener = UnixListener::bind(LocalSocket::Commands.path(data.path())).unwrap();
        let impostor = async {
            let mut stream = listener.accept().await.unwrap().0;
            let number = [7; 32];
            stream.write_all(&number).await.unwrap();
            let mut received = [0; 64];
            stream.read_exact(&mut received).await.unwrap();
            assert!(!received.windows(32).any(|part| part == key.0), "the key itself was sent");
            // Reflects the peer's own proof.
            stream.write_all(&received[32..]).await.unwrap();
            received
        };
        let (received, peer) = tokio::join!(impostor, connect(data.path(), LocalSocket::Commands));
        assert_eq!(peer.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let (mut replaying_peer, daemon_end) = UnixStream::pair().unwrap();
        let replayed = async {
            let mut number = [0; 32];
            replaying_peer.read_exact(&mut number).await.unwrap();
            replaying_peer.write_all(&received).await.unwrap();
        };
        let (admitted, ()) = tokio::join!(real.admit(LocalSocket::Commands, daemon_end), replayed);
        assert!(admitted.is_none(), "an old proof was accepted");
    }

    #[test]
    fn only_the_user_can_read_the_key() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = data();
        let first = Key::create(data.path()).unwrap().0;
        assert_ne!(Key::create(data.path()).unwrap().0, first, "each start of a daemon makes another key");
        assert_eq!(fs::metadata(Key::path(data.path())).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
