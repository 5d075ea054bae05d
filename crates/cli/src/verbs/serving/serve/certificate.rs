//! Reads the certificate of a daemon that speaks TLS, and reads it again when its files change.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, interval},
};
use toolrack_config::Watcher;
use toolrack_daemon::Tls;

use super::args::ServeArgs;
use crate::error::{Failure, in_words, with_causes};

/// How often the files are read even without a notice of a change. The watcher misses changes behind a symbolic link in
/// a mounted folder.
const READ_INTERVAL: Duration = Duration::from_mins(1);

/// The certificate and its key, each in a file.
#[derive(Clone, Debug)]
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl CertificateFiles {
    /// Returns the files that the command line names.
    pub(super) fn from_args(args: &ServeArgs) -> Option<Self> {
        let (certificate, key) = args.tls_cert.clone().zip(args.tls_key.clone())?;
        Some(Self { certificate, key })
    }

    /// Reads the files for the first time.
    pub(super) fn read(&self) -> Result<Tls, Failure> {
        let result = self.contents().and_then(|(certificate, key)| {
            Tls::new(&certificate, &key).map_err(|error| self.with_paths(&with_causes(&error)))
        });
        let hint = "--tls-cert is a file with the certificate and its chain, --tls-key a file with its private key";
        result.map_err(|message| Failure::config(message).hint(hint))
    }

    /// Whenever the files change, gives `tls` their new contents, until `end` completes. If the new contents cannot be
    /// used, the log says why, and the old certificate stays in use.
    pub(super) async fn follow_until(self, tls: Tls, watcher: &Watcher, end: impl Future<Output = ()>) {
        tokio::select! {
            () = self.follow(tls, watcher) => {}
            () = end => {}
        }
    }

    /// Follows the files for ever.
    async fn follow(self, tls: Tls, watcher: &Watcher) {
        let change_notice = Arc::new(Notify::new());
        let notify = Arc::clone(&change_notice);
        let mut watch = watcher.watch(move || notify.notify_one());
        watch.follow([&*self.certificate, &*self.key]);
        let mut ticks = interval(READ_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_problem = None;
        loop {
            tokio::select! {
                () = change_notice.notified() => {}
                _ = ticks.tick() => {}
            }
            let problem = self.read_again(&tls).await.err();
            if let Some(problem) = problem.as_ref().filter(|_| problem != last_problem) {
                tracing::warn!("the certificate stays as it was: {problem}");
            }
            last_problem = problem;
        }
    }

    async fn read_again(&self, tls: &Tls) -> Result<(), String> {
        let files = self.clone();
        // A panic of this task becomes an error, so the old certificate stays in use.
        let read_result = tokio::task::spawn_blocking(move || files.contents()).await;
        let (certificate, key) = read_result.map_err(|error| error.to_string())??;
        let is_new = tls.replace(&certificate, &key).map_err(|error| self.with_paths(&with_causes(&error)))?;
        if is_new {
            tracing::info!("the new certificate in {} is used from now on", self.certificate.display());
        }
        Ok(())
    }

    /// Returns the contents of the certificate file and of the key file.
    fn contents(&self) -> Result<(Vec<u8>, Vec<u8>), String> {
        Ok((read_file(&self.certificate)?, read_file(&self.key)?))
    }

    fn with_paths(&self, problem: &str) -> String {
        format!("{problem} (the certificate in {}, the key in {})", self.certificate.display(), self.key.display())
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{} cannot be read: {}", path.display(), in_words(&error)))
}
