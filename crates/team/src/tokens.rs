//! Makes and recognizes tokens: random text that proves a member. A token has a purpose: a user keeps it (personal), an
//! OAuth client got it (access), or it is the cookie of a browser.

use std::fmt;

use toolrack_store::{Purpose, TokenHash};
use zeroize::Zeroizing;

use crate::random::{NoRandom, random_text};

/// A new token: three letters for its purpose, and 256 random bits in hexadecimal digits. A person or client
/// sees it once; the store keeps only its hash.
pub struct Secret(Zeroizing<String>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

impl Secret {
    /// Makes a token.
    ///
    /// # Errors
    /// [`NoRandom`]
    pub fn new(purpose: Purpose) -> Result<Self, NoRandom> {
        random_text::<32>(prefix(purpose)).map(Self)
    }

    /// The token itself.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The hash that the store keeps.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// The prefix of a token, by which programs that look for leaked secrets recognize it.
fn prefix(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Access => "tra_",
        Purpose::Browser => "trb_",
        // `Personal`, and purposes that this crate does not know yet.
        _ => "trk_",
    }
}

/// Whether `text` has the form of a token of Toolrack. Only then is it looked up in the store.
pub(crate) fn looks_like_token(text: &str) -> bool {
    let digits = ["tra_", "trb_", "trk_"].iter().find_map(|prefix| text.strip_prefix(prefix));
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_its_purpose_as_a_prefix_and_is_hidden_in_debug() {
        let one = Secret::new(Purpose::Personal).unwrap();
        assert!(one.reveal().starts_with("trk_") && looks_like_token(one.reveal()));
        assert_ne!(one.reveal(), Secret::new(Purpose::Personal).unwrap().reveal());
        assert_eq!(format!("{one:?}"), "Secret(***)");
        assert_eq!(one.hash(), TokenHash::of(one.reveal()));
        let longer = one.reveal().to_owned() + "0";
        for other in ["", "trk_", "trk_1234", &*longer, &one.reveal()[4..]] {
            assert!(!looks_like_token(other), "{other}");
        }
    }
}
