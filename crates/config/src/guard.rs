//! A gate that looks for secrets in the arguments of calls.

use std::{fmt, sync::Arc};

use toolrack_host::{Gate, GateRequest, Verdict};

use crate::Interpolate;

/// Decides as another gate does, but has the user asked about a call whose arguments hold a secret that [`Interpolate`]
/// handed out, and not to the server of the tool, even if it is allowed; where no user can be asked it does not run.
///
/// A model that was shown a secret, or told to fetch one, would take it from one server to another this way. It is
/// found in JSON, base64 and percent-encoding too; cut up, encoded otherwise or shorter than 8 bytes it is not.
#[derive(Clone)]
pub struct SecretGate {
    gate: Arc<dyn Gate>,
    secrets: Arc<Interpolate>,
}

impl SecretGate {
    /// Wraps `gate`, and looks for the secrets that `secrets` knows.
    #[must_use]
    pub fn new(gate: Arc<dyn Gate>, secrets: Arc<Interpolate>) -> Self {
        Self { gate, secrets }
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
        if matches!(verdict, Verdict::Deny { .. }) || !self.secrets.knows_secret_in(request.arguments, request.server) {
            return verdict;
        }
        // Whatever was answered for good was not about a secret.
        let why = format!("a secret in the arguments that {} was not given", request.server);
        Verdict::Confirm { why, lasting: false }
    }
}
