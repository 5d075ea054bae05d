//! Derives the secrets of sign-ins that are under way. The browser keeps one secret in a cookie, and the daemon derives
//! the state, the nonce and the verifier of each sign-in from it. So the daemon needs no table of sign-ins, which a
//! flood could fill.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use crate::{
    provider::Attempt,
    random::{NO_PREFIX, NoRandom, random_text},
};

/// The number of hexadecimal digits of a browser's secret.
const SECRET_DIGITS: usize = 64;

/// A browser, known by the secret in its cookie.
pub(super) struct Browser(Zeroizing<String>);

/// A sign-in that came back to the browser in which it began.
pub(super) struct ReturnedAttempt {
    pub(super) attempt: Attempt,
    /// The path to which the browser goes next.
    pub(super) return_path: String,
}

impl Browser {
    /// The browser with this cookie; a new one if the cookie is missing or has another form. Sign-ins in several tabs
    /// share the secret.
    pub(super) fn from_cookie(cookie: Option<&str>) -> Result<Self, NoRandom> {
        match cookie.and_then(Self::read) {
            Some(browser) => Ok(browser),
            None => random_text::<{ SECRET_DIGITS / 2 }>(NO_PREFIX).map(Self),
        }
    }

    /// Reads the secret in a cookie; `None` if the cookie has another form.
    pub(super) fn read(cookie: &str) -> Option<Self> {
        let is_hex = cookie.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        (cookie.len() == SECRET_DIGITS && is_hex).then(|| Self(Zeroizing::new(cookie.to_owned())))
    }

    /// The secret itself.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Begins a sign-in. After it, the browser goes to `return_path`.
    pub(super) fn begin(&self, return_path: &str) -> Result<Attempt, NoRandom> {
        let attempt_id = random_text::<16>(NO_PREFIX)?;
        Ok(self.attempt(&attempt_id, return_path))
    }

    /// Returns the sign-in with this state (`ID.PATH.SEAL`, see [`Self::attempt`]), if it began in this browser.
    pub(super) fn find_attempt(&self, state: &str) -> Option<ReturnedAttempt> {
        let mut parts = state.split('.');
        let (attempt_id, encoded_path, _) = (parts.next()?, parts.next()?, parts.next()?);
        let return_path = String::from_utf8(URL_SAFE_NO_PAD.decode(encoded_path).ok()?).ok()?;
        let attempt = self.attempt(attempt_id, &return_path);
        bool::from(attempt.state.as_bytes().ct_eq(state.as_bytes())).then_some(ReturnedAttempt { attempt, return_path })
    }

    /// Derives the secrets of a sign-in. Its state is the id, the encoded path `return_path`, and a seal over both,
    /// with a dot between them.
    fn attempt(&self, attempt_id: &str, return_path: &str) -> Attempt {
        let seal = HEXLOWER.encode(&self.derive("state", attempt_id, return_path));
        Attempt {
            state: format!("{attempt_id}.{}.{seal}", URL_SAFE_NO_PAD.encode(return_path)),
            nonce: HEXLOWER.encode(&self.derive("nonce", attempt_id, return_path)),
            verifier: URL_SAFE_NO_PAD.encode(self.derive("verifier", attempt_id, return_path)),
        }
    }

    /// Derives bytes from the browser's secret. Each purpose gets different bytes.
    fn derive(&self, purpose: &str, attempt_id: &str, return_path: &str) -> [u8; 32] {
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()) else {
            // Cannot happen: HMAC accepts keys of every length.
            return [0; 32];
        };
        // Includes the length of each part, so that no byte can move from one part to the next.
        for part in [purpose, attempt_id, return_path] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_comes_back_only_to_its_own_browser_and_unchanged() {
        let (browser, other) = (Browser::from_cookie(None).unwrap(), Browser::from_cookie(None).unwrap());
        let attempt = browser.begin("/servers?a=b").unwrap();
        let returned = browser.find_attempt(&attempt.state).unwrap();
        assert_eq!((&*returned.return_path, &returned.attempt.nonce), ("/servers?a=b", &attempt.nonce));
        assert_eq!(returned.attempt.verifier, attempt.verifier);
        assert!((43..=128).contains(&attempt.verifier.len()));
        assert!(other.find_attempt(&attempt.state).is_none());

        let (attempt_id, rest) = attempt.state.split_once('.').unwrap();
        let (_, seal) = rest.split_once('.').unwrap();
        let elsewhere = format!("{attempt_id}.{}.{seal}", URL_SAFE_NO_PAD.encode("/elsewhere"));
        for state in ["", ".", "..", &elsewhere, &format!("{}.", attempt.state), &attempt.state.to_uppercase()] {
            assert!(browser.find_attempt(state).is_none(), "{state}");
        }
        // Two tabs of one browser.
        let second = Browser::from_cookie(Some(browser.reveal())).unwrap().begin("/").unwrap();
        assert!(browser.find_attempt(&second.state).is_some() && second.nonce != attempt.nonce);
    }

    #[test]
    fn a_cookie_that_is_not_a_secret_is_replaced() {
        let short = "ab".repeat(31);
        for cookie in [None, Some(""), Some(&*short), Some(&*"é".repeat(32))] {
            assert_eq!(Browser::from_cookie(cookie).unwrap().reveal().len(), SECRET_DIGITS);
            assert_ne!(Some(Browser::from_cookie(cookie).unwrap().reveal()), cookie);
        }
    }
}
