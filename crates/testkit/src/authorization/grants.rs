//! The tokens that the fake authorization server has issued, and whether they are still valid. All tokens that come
//! from one agreement of a user are a *family*: they are revoked together.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rand::RngCore as _;
use sha2::{Digest as _, Sha256};

use super::{CLIENT, CLIENT_SECRET};

/// What the user has agreed to.
#[derive(Clone, Debug)]
pub(super) struct Agreement {
    pub(super) client: String,
    pub(super) redirect_uri: String,
    pub(super) challenge: String,
    pub(super) resource: String,
    pub(super) scope: String,
}

/// A family of tokens: all tokens that descend from one agreement of a user.
#[derive(Clone, Debug)]
struct Family {
    client: String,
    resource: String,
    scope: String,
    access: String,
    refresh: Option<String>,
    /// The key to which the tokens are bound.
    key: Option<String>,
    /// The number of requests that have used the access token.
    uses: u32,
    is_expired: bool,
    is_revoked: bool,
}

/// The tokens of one answer.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub(super) is_bound: bool,
    pub(super) access: String,
    pub(super) refresh: Option<String>,
    pub(super) scope: String,
}

/// The client that gets tokens, and the key that it has proved to own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipient<'a> {
    pub(super) client: &'a str,
    pub(super) key: Option<&'a str>,
}

/// Everything that the server has issued.
#[derive(Debug, Default)]
pub(super) struct Grants {
    /// Clients with their secrets.
    clients: BTreeMap<String, Option<String>>,
    codes: BTreeMap<String, Agreement>,
    families: Vec<Family>,
    /// Used refresh tokens, each with the index of its family.
    used_refresh_tokens: BTreeMap<String, usize>,
    /// All values that the server has generated.
    issued: BTreeSet<String>,
}

/// The outcome of using a refresh token.
#[derive(Debug)]
pub(super) enum RefreshOutcome {
    /// The new tokens.
    Fresh(Tokens),
    /// The refresh token was used before.
    Reused,
    Unknown,
}

impl Grants {
    /// Generates an unguessable value.
    fn generate(&mut self, kind: &str) -> String {
        let mut bytes = [0; 24];
        rand::rng().fill_bytes(&mut bytes);
        let random = format!("{kind}-{}", URL_SAFE_NO_PAD.encode(bytes));
        self.issued.insert(random.clone());
        random
    }

    /// Registers a client. Returns its id and, `with_secret`, its secret.
    pub(super) fn register(&mut self, with_secret: bool) -> (String, Option<String>) {
        let id = self.generate("client");
        // An id is public, so a test that searches for secrets must not find it among them.
        self.issued.remove(&id);
        let secret = with_secret.then(|| self.generate("secret"));
        self.clients.insert(id.clone(), secret.clone());
        (id, secret)
    }

    /// Forgets all clients that have registered.
    pub(super) fn forget_clients(&mut self) {
        self.clients.clear();
    }

    /// Returns whether this client exists. Every `https` URL is a client, which describes itself in the document there.
    pub(super) fn has_client(&self, client: &str) -> bool {
        client == CLIENT || client.starts_with("https://") || self.clients.contains_key(client)
    }

    /// Returns whether `secret` is that of `client`. A client without a secret needs none.
    pub(super) fn is_authenticated(&self, client: &str, secret: Option<&str>) -> bool {
        let expected = match self.clients.get(client) {
            Some(registered) => registered.as_deref(),
            None if client == CLIENT => Some(CLIENT_SECRET),
            None => None,
        };
        self.has_client(client) && expected.is_none_or(|expected| secret == Some(expected))
    }

    /// Issues a code for an agreement.
    pub(super) fn issue_code(&mut self, agreement: Agreement) -> String {
        let code = self.generate("code");
        self.codes.insert(code.clone(), agreement);
        code
    }

    /// Redeems a code for its agreement, once.
    pub(super) fn redeem(&mut self, code: &str) -> Option<Agreement> {
        self.codes.remove(code)
    }

    /// Issues tokens for a client.
    pub(super) fn issue_tokens(
        &mut self,
        recipient: Recipient<'_>,
        resource: &str,
        scope: &str,
        with_refresh: bool,
    ) -> Tokens {
        let Recipient { client, key } = recipient;
        let access = self.generate("access");
        let refresh = with_refresh.then(|| self.generate("refresh"));
        let is_bound = key.is_some();
        self.families.push(Family {
            client: client.to_owned(),
            resource: resource.to_owned(),
            scope: scope.to_owned(),
            access: access.clone(),
            refresh: refresh.clone(),
            key: key.map(str::to_owned),
            uses: 0,
            is_expired: false,
            is_revoked: false,
        });
        Tokens { is_bound, access, refresh, scope: scope.to_owned() }
    }

    /// Issues new tokens for a refresh token. If the refresh token was used before, revokes its family. With `rotates`,
    /// the new tokens include a new refresh token.
    pub(super) fn refresh(&mut self, recipient: Recipient<'_>, token: &str, rotates: bool) -> RefreshOutcome {
        if let Some(family) = self.used_refresh_tokens.get(token).copied() {
            self.families[family].is_revoked = true;
            return RefreshOutcome::Reused;
        }
        let belongs_to = |family: &Family| {
            family.refresh.as_deref() == Some(token)
                && family.client == recipient.client
                && family.key.as_deref() == recipient.key
        };
        let Some(index) = self.families.iter().position(|family| belongs_to(family) && !family.is_revoked) else {
            return RefreshOutcome::Unknown;
        };
        let access = self.generate("access");
        let refresh = if rotates { self.generate("refresh") } else { token.to_owned() };
        if rotates {
            self.used_refresh_tokens.insert(token.to_owned(), index);
        }
        let family = &mut self.families[index];
        (family.access, family.refresh) = (access.clone(), Some(refresh.clone()));
        (family.uses, family.is_expired) = (0, false);
        let is_bound = family.key.is_some();
        RefreshOutcome::Fresh(Tokens { is_bound, access, refresh: Some(refresh), scope: family.scope.clone() })
    }

    /// Admits a request if its token is valid for this resource, has been used fewer than `max_uses` times, and is
    /// bound to the key that the request proves, if any. Returns the token's scope.
    pub(super) fn admit(
        &mut self,
        token: &str,
        key: Option<&str>,
        resource: &str,
        max_uses: Option<u32>,
    ) -> Option<String> {
        let matches = |family: &&mut Family| family.access == token && family.key.as_deref() == key;
        let family = self.families.iter_mut().find(matches)?;
        let is_valid = !family.is_revoked && !family.is_expired && family.resource == resource;
        if !is_valid || max_uses.is_some_and(|max_uses| family.uses >= max_uses) {
            return None;
        }
        family.uses += 1;
        Some(family.scope.clone())
    }

    /// Revokes a token with its family (RFC 7009, 2.1). Returns whether the token existed and was not yet revoked.
    pub(super) fn revoke(&mut self, token: &str) -> bool {
        let has_token = |family: &&mut Family| family.access == token || family.refresh.as_deref() == Some(token);
        match self.families.iter_mut().find(has_token) {
            Some(family) => !std::mem::replace(&mut family.is_revoked, true),
            None => false,
        }
    }

    pub(super) fn revoke_all(&mut self) {
        self.families.iter_mut().for_each(|family| family.is_revoked = true);
    }

    pub(super) fn expire(&mut self) {
        self.families.iter_mut().for_each(|family| family.is_expired = true);
    }

    pub(super) fn issued(&self) -> Vec<String> {
        self.issued.iter().cloned().collect()
    }
}

/// Returns whether `challenge` is the S256 hash of `verifier` (RFC 7636, 4.6).
pub(super) fn matches_challenge(verifier: &str, challenge: &str) -> bool {
    (43..=128).contains(&verifier.len()) && URL_SAFE_NO_PAD.encode(Sha256::digest(verifier)) == challenge
}
