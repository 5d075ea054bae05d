//! Creates clients without storing them, while a flood of registrations lasts. The id of such a client contains its
//! description and a seal: an HMAC of the description. The store keeps nothing of the client until a user agrees. Thus
//! a flood can neither fill a table nor exclude other clients.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{TimeDelta, Utc};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use toolrack_store::RegisteredClient;
use zeroize::Zeroizing;

use super::MAX_ID;
use crate::random::{NO_PREFIX, NoRandom, random_text};

/// The prefix of the ids of sealed clients.
const PREFIX: &str = "trs_";
/// How long after the registration a user may agree.
const AGREEMENT_TIME: TimeDelta = TimeDelta::hours(24);

/// Seals registrations, and opens them again. The key is lost when the program ends.
pub(super) struct Sealer {
    key: Zeroizing<String>,
}

#[derive(Deserialize, Serialize)]
struct SealedRegistration {
    name: String,
    redirect_uris: Vec<String>,
    /// The time until which the registration is valid, in seconds since 1970.
    ends: i64,
    /// Random, so that two clients with the same description have different ids.
    number: String,
}

impl Sealer {
    pub(super) fn new(key: Zeroizing<String>) -> Self {
        Self { key }
    }

    /// Returns the client with its id; `None` if its description does not fit into an id.
    pub(super) fn seal(&self, name: &str, redirect_uris: &[String]) -> Result<Option<RegisteredClient>, NoRandom> {
        let registration = SealedRegistration {
            name: name.to_owned(),
            redirect_uris: redirect_uris.to_vec(),
            ends: (Utc::now() + AGREEMENT_TIME).timestamp(),
            number: random_text::<8>(NO_PREFIX)?.to_string(),
        };
        let Ok(json) = serde_json::to_vec(&registration) else { return Ok(None) };
        let encoded = URL_SAFE_NO_PAD.encode(json);
        let seal = self.mac(&encoded).map(|mac| URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes()));
        let id = seal.map(|seal| format!("{PREFIX}{encoded}.{seal}")).filter(|id| id.len() <= MAX_ID);
        Ok(id.map(|id| RegisteredClient { id, name: registration.name, redirect_uris: registration.redirect_uris }))
    }

    /// The client with this id, if this program sealed it a short time ago.
    pub(super) fn open(&self, id: &str) -> Option<RegisteredClient> {
        let (encoded, seal) = id.strip_prefix(PREFIX)?.split_once('.')?;
        self.mac(encoded)?.verify_slice(&URL_SAFE_NO_PAD.decode(seal).ok()?).ok()?;
        let registration: SealedRegistration = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()?;
        let client =
            RegisteredClient { id: id.to_owned(), name: registration.name, redirect_uris: registration.redirect_uris };
        (registration.ends > Utc::now().timestamp()).then_some(client)
    }

    /// Computes the seal of an encoded registration.
    fn mac(&self, encoded: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).ok()?;
        mac.update(encoded.as_bytes());
        Some(mac)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_client_id_holds_exactly_its_registration() {
        let sealer = || Sealer::new(random_text::<32>("").unwrap());
        let (sealer, other) = (sealer(), sealer());
        let uris = ["http://127.0.0.1/back".to_owned()];
        let client = sealer.seal("a client", &uris).unwrap().unwrap();
        assert_eq!(sealer.open(&client.id), Some(client.clone()));
        assert_ne!(sealer.seal("a client", &uris).unwrap().unwrap().id, client.id);
        let (text, seal) = client.id.split_once('.').unwrap();
        let forged = format!("{PREFIX}{}.{seal}", URL_SAFE_NO_PAD.encode(r#"{"name":"x","redirect_uris":[]}"#));
        for id in ["", PREFIX, text, &forged, &format!("{text}."), &format!("{}.", client.id), &client.id[4..]] {
            assert_eq!(sealer.open(id), None, "{id}");
        }
        assert_eq!(other.open(&client.id), None);
        assert_eq!(sealer.seal("a client", &["x".repeat(MAX_ID)]).unwrap(), None, "it says too much");
    }
}
