//! Hides secrets in the output of servers before it is stored. A server that received a secret can repeat it in a
//! result or in the description of a tool. The host stores long results as files, and for each tool a pin: its
//! definition as it was first seen.

use std::{borrow::Cow, fmt, sync::Arc};

use bytes::Bytes;
use futures::future::BoxFuture;
use toolrack_config::Interpolate;
use toolrack_host::{
    Artifacts, KeepError, Memory, Pins, ServerName,
    pins::{PinComparison, PinnedServer, PinsUnreadable, StoredPins},
    spec::Era,
};

/// A store that hides secrets: it stores everything in `inner`, without the secrets.
pub(crate) struct ConcealingStore<T> {
    inner: T,
    secrets: Arc<Interpolate>,
}

impl<T> ConcealingStore<T> {
    pub(crate) fn new(inner: T, secrets: Arc<Interpolate>) -> Self {
        Self { inner, secrets }
    }

    /// Returns `bytes` without secrets if they are text, and other bytes unchanged.
    fn concealed<'t>(&self, bytes: &'t [u8]) -> Cow<'t, [u8]> {
        match str::from_utf8(bytes).map(|text| self.secrets.conceal(text)) {
            Ok(Cow::Owned(concealed_text)) => Cow::Owned(concealed_text.into_bytes()),
            // No text, or no secret in it.
            _ => Cow::Borrowed(bytes),
        }
    }
}

impl<T> fmt::Debug for ConcealingStore<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcealingStore").finish_non_exhaustive()
    }
}

impl<T: Artifacts> Artifacts for ConcealingStore<T> {
    fn keep<'a>(
        &'a self,
        server: &'a ServerName,
        tool: &'a str,
        media_type: &'a str,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<String, KeepError>> {
        Box::pin(async move { self.inner.keep(server, tool, media_type, &self.concealed(bytes)).await })
    }
}

impl<T: Memory> Memory for ConcealingStore<T> {
    fn era<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Era>> {
        self.inner.era(fingerprint)
    }

    fn remember_era<'a>(&'a self, fingerprint: &'a str, era: Era) -> BoxFuture<'a, ()> {
        self.inner.remember_era(fingerprint, era)
    }

    fn tools<'a>(&'a self, fingerprint: &'a str) -> BoxFuture<'a, Option<Bytes>> {
        self.inner.tools(fingerprint)
    }

    fn remember_tools<'a>(&'a self, fingerprint: &'a str, tools: Bytes) -> BoxFuture<'a, ()> {
        match self.concealed(&tools) {
            // With the secret hidden, the tools would differ from their pins (the hashes of their definitions as they
            // were first seen). So no tools are stored, and the server is started eagerly.
            Cow::Owned(_) => self.inner.remember_tools(fingerprint, Bytes::new()),
            Cow::Borrowed(_) => self.inner.remember_tools(fingerprint, tools),
        }
    }
}

/// Definitions are stored without secrets; their hashes are those of the unchanged definitions.
impl<T: Pins> Pins for ConcealingStore<T> {
    fn recall<'a>(
        &'a self,
        server: &'a PinnedServer,
        list: &'a [u8; 32],
    ) -> BoxFuture<'a, Result<StoredPins, PinsUnreadable>> {
        self.inner.recall(server, list)
    }

    fn generation<'a>(&'a self, server: &'a PinnedServer) -> BoxFuture<'a, Option<u64>> {
        self.inner.generation(server)
    }

    fn record_comparison<'a>(&'a self, server: &'a PinnedServer, mut comparison: PinComparison) -> BoxFuture<'a, ()> {
        let new_definitions = comparison.new.iter_mut().map(|(_, definition)| definition);
        for definition in
            new_definitions.chain(comparison.mismatches.iter_mut().map(|mismatch| &mut mismatch.definition))
        {
            if let Cow::Owned(hidden) = self.secrets.conceal(&definition.text) {
                definition.text = hidden;
            }
        }
        self.inner.record_comparison(server, comparison)
    }
}
