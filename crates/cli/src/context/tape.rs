//! Records the messages of a command's servers into a file, the tape (`record`), or answers from such a file in the
//! place of servers (`replay`).

use std::{
    fs::{self, File},
    io::Read as _,
    path::Path,
    sync::Arc,
};

use toolrack_config::{Interpolate, Loaded};
use toolrack_host::{
    Conceal, Desired, HostBuilder, Recorder, Recording, ServerName, ServerSpec,
    spec::{Source, Trust},
};

use super::Context;
use crate::{
    args::TapeRequest,
    error::{Exit, Failure, in_words},
    output,
};

/// The most bytes of a recording that are read.
const MAX_RECORDING_BYTES: u64 = 1 << 30;

/// The recording of a command's servers.
#[derive(Clone, Debug)]
pub(super) enum Tape {
    /// The servers run, and their messages are recorded.
    Record(Arc<Recorder>),
    /// No server runs: the messages come from a recording.
    Replay(Arc<Recording>),
}

impl Tape {
    /// Opens the tape of `record` or `replay`; `None` for other commands. Secrets that `secrets` knows are hidden in
    /// it.
    ///
    /// # Errors
    /// When the file cannot be written, or is not a recording.
    pub(super) async fn open(
        request: Option<&TapeRequest>,
        secrets: &Arc<Interpolate>,
    ) -> Result<Option<Self>, Failure> {
        let conceal = || -> Conceal {
            let secrets = Arc::clone(secrets);
            Arc::new(move |text| secrets.conceal(text).into_owned())
        };
        Ok(match request {
            None => None,
            Some(TapeRequest::Record { file, max_bytes }) => {
                output::check_writable(file)?;
                Some(Self::Record(Arc::new(Recorder::new(*max_bytes, conceal()))))
            }
            Some(TapeRequest::Replay { file }) => {
                let path = file.clone();
                let read_result = tokio::task::spawn_blocking(move || read_recording(&path)).await;
                let recording = read_result.map_err(|error| unusable_recording(file, &error.to_string()))??;
                Some(Self::Replay(Arc::new(recording.concealing(conceal()))))
            }
        })
    }

    /// Whether a recording replaces all servers.
    pub(super) fn is_replay(tape: Option<&Self>) -> bool {
        matches!(tape, Some(Self::Replay(_)))
    }

    /// Makes the host of `builder` record to this tape, or replay it.
    pub(super) fn apply_to(&self, builder: HostBuilder) -> HostBuilder {
        match self {
            Self::Record(recorder) => builder.record(Arc::clone(recorder)),
            Self::Replay(recording) => builder.replay(Arc::clone(recording)),
        }
    }
}

impl Context {
    /// Writes the recording, if there is one.
    ///
    /// # Errors
    /// When it is too large, or cannot be written.
    pub(crate) async fn write_recording(&self) -> Result<(), Failure> {
        let request = &self.command_line.global.tape;
        let (Some(Tape::Record(recorder)), Some(TapeRequest::Record { file, .. })) = (&self.host_parts.tape, request)
        else {
            return Ok(());
        };
        let bytes = recorder.bytes().map_err(|error| {
            let message = format!("{} was not written: {error}", file.display());
            Failure::new(Exit::Other, "RECORDING_TOO_LARGE", message).hint("raise `--max-size`, or record less")
        })?;
        output::write_for_owner(file.clone(), bytes).await
    }

    /// Replaces the loaded servers by those of the recording. A configured server keeps its entry (its configuration in
    /// a file), even an entry that is not trusted here, because the server does not run. Any other server gets a new
    /// entry.
    pub(super) async fn with_recorded_servers(&self, mut loaded: Loaded) -> Loaded {
        let Some(Tape::Replay(recording)) = &self.host_parts.tape else { return loaded };
        // Requests are compared with the recording, in which secrets are hidden. To hide them in requests as well, they
        // must be known: this resolves the placeholders that name them. The function that it returns is not needed.
        drop(self.concealer_of_configured(&loaded).await);
        for server in recording.servers() {
            // The command of a new entry is never run.
            let spec = loaded.desired.entry(server.clone()).or_insert_with(|| ServerSpec::stdio("replay", [""; 0]));
            spec.trust = Trust::Trusted;
            spec.enabled = true;
        }
        loaded
    }

    /// In a replay, takes the server out of `desired` that the recorded program added by itself, because this program
    /// adds it again. `names` are the names that it tried: it took the first that no other server had, so its server is
    /// the last of them that the recording has.
    pub(crate) fn take_out_recorded_own(&self, desired: &mut Desired, names: impl Iterator<Item = ServerName>) {
        if !Tape::is_replay(self.host_parts.tape.as_ref()) {
            return;
        }
        let last = names.take_while(|name| desired.contains_key(name)).last();
        // A configured server has its file as its source.
        if let Some(last) = last
            && desired.get(&last).is_some_and(|spec| spec.source == Source::program())
        {
            desired.remove(&last);
        }
    }
}

fn read_recording(file: &Path) -> Result<Recording, Failure> {
    // Check first, because opening a pipe would wait for its other end.
    let metadata = fs::metadata(file).map_err(|error| unusable_recording(file, &in_words(&error)))?;
    if !metadata.is_file() {
        return Err(unusable_recording(file, "it is not a file"));
    }
    let open_file = File::open(file).map_err(|error| unusable_recording(file, &in_words(&error)))?;
    let mut bytes = Vec::new();
    let read_result = open_file.take(MAX_RECORDING_BYTES + 1).read_to_end(&mut bytes);
    read_result.map_err(|error| unusable_recording(file, &in_words(&error)))?;
    if bytes.len() as u64 > MAX_RECORDING_BYTES {
        return Err(unusable_recording(file, "it has more than 1 GiB"));
    }
    Recording::read(&file.to_string_lossy(), &bytes).map_err(|error| unusable_recording(file, &error.to_string()))
}

fn unusable_recording(file: &Path, why: &str) -> Failure {
    Failure::new(Exit::Usage, "BAD_RECORDING", format!("{} cannot be replayed: {why}", file.display()))
        .hint("`toolrack record FILE VERB` writes such a file")
}
