//! A gate that looks for secrets in what is sent.

use std::{fmt, sync::Arc};

use toolrack_host::{Gate, GateRequest, Verdict};

use crate::Interpolate;

/// Says what another gate says, but for a call in whose arguments a secret stands that [`Interpolate`] handed out, and not to
/// the server of the tool: a person decides about that, whatever is allowed, and where nobody can be asked it does not run.
///
/// A model that was shown a secret somewhere, or was told to fetch one, would take it from one server to another this way.
/// It is found in JSON, base64 and percent-encoded too; cut up, encoded otherwise or shorter than 8 bytes it is not.
#[derive(Clone)]
pub struct SecretGate {
    gate: Arc<dyn Gate>,
    secrets: Arc<Interpolate>,
}

impl SecretGate {
    /// What `gate` says, with an eye on what `secrets` knows.
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
