//! Keeps secrets of one server from being sent to another in the arguments of a call. A gate is a check that decides
//! whether a call runs.

use std::{fmt, sync::Arc};

use toolrack_host::{Gate, GateRequest, Verdict};

use crate::Interpolate;

/// Decides as another gate does, but requires the user's approval for a call that would pass on a secret. In such a
/// call, the arguments contain a secret that [`Interpolate`] gave to other servers, but not to the server of the tool.
/// If no user can be asked, the call does not run.
///
/// Without this gate, a model that has seen a secret, or was instructed to fetch one, could pass the secret from one
/// server to another. Secrets are also found in JSON, base64 and percent-encoding, but not if they are split, encoded
/// in other ways, or shorter than 8 bytes.
#[derive(Clone)]
pub struct SecretGate {
    gate: Arc<dyn Gate>,
    known_secrets: Arc<Interpolate>,
}

impl SecretGate {
    /// Wraps `gate`. The calls are searched for the secrets that `secrets` has given to servers.
    #[must_use]
    pub fn new(gate: Arc<dyn Gate>, secrets: Arc<Interpolate>) -> Self {
        Self { gate, known_secrets: secrets }
    }
}

impl fmt::Debug for SecretGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretGate").field("gate", &self.gate).finish_non_exhaustive()
    }
}

impl Gate for SecretGate {
    fn judge(&self, request: &GateRequest<'_>) -> Verdict {
        let verdict = self.gate.judge(request);
        if matches!(verdict, Verdict::Deny { .. })
            || !self.known_secrets.has_foreign_secret(request.arguments, request.server)
        {
            return verdict;
        }
        // `lasting: false`: the user is asked even if they approved all calls of this tool, because that approval was
        // not about this secret.
        let why = format!("a secret in the arguments that {} was not given", request.server);
        Verdict::Confirm { why, lasting: false }
    }
}
