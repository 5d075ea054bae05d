//! Makes random text for tokens, codes and the ids of clients.

use data_encoding::HEXLOWER;
use rand::{TryRngCore as _, rngs::OsRng};
use toolrack_store::{RefreshHash, TokenHash};
use zeroize::Zeroizing;

/// The error when the operating system gives no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system provides no random numbers, without which no token can be made")]
pub struct NoRandom;

/// For [`random_text`]: no prefix, only the random digits.
pub(crate) const NO_PREFIX: &str = "";

/// The prefix of a refresh token.
const REFRESH_PREFIX: &str = "trr_";
/// The number of digits in the part of a refresh token that all tokens of one grant share.
const HANDLE_DIGITS: usize = 32;
/// The number of digits of a refresh token after its prefix.
const REFRESH_DIGITS: usize = HANDLE_DIGITS + 64;

/// Returns `prefix` followed by this many random bytes in hexadecimal digits.
///
/// # Errors
/// [`NoRandom`]
pub fn random_text<const BYTES: usize>(prefix: &str) -> Result<Zeroizing<String>, NoRandom> {
    let mut bytes = Zeroizing::new([0; BYTES]);
    OsRng.try_fill_bytes(&mut *bytes).map_err(|_| NoRandom)?;
    Ok(Zeroizing::new(prefix.to_owned() + &HEXLOWER.encode(&*bytes)))
}

/// A refresh token: a handle and 256 random bits. All tokens of a grant share the handle, so the store finds the grant
/// even by a token that was used already.
pub(crate) struct RefreshToken(Zeroizing<String>);

impl RefreshToken {
    /// Makes the first refresh token of a grant.
    pub(crate) fn first() -> Result<Self, NoRandom> {
        // Two digits stand for one byte.
        let handle = random_text::<{ HANDLE_DIGITS / 2 }>(REFRESH_PREFIX)?;
        Ok(Self(random_text::<32>(&handle)?))
    }

    /// Makes the next refresh token of the same grant.
    pub(crate) fn next(&self) -> Result<Self, NoRandom> {
        Ok(Self(random_text::<32>(self.handle())?))
    }

    /// Reads a token; `None` if it has another form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(REFRESH_PREFIX)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
        (digits.len() == REFRESH_DIGITS && is_hex).then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// The token itself.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// The hashes that the store keeps.
    pub(crate) fn hash(&self) -> RefreshHash {
        RefreshHash { handle: TokenHash::of(self.handle()), token: TokenHash::of(&self.0) }
    }

    fn handle(&self) -> &str {
        &self.0[..REFRESH_PREFIX.len() + HANDLE_DIGITS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_one_grant_share_their_handle_and_nothing_else() {
        let first = RefreshToken::first().unwrap();
        let next = RefreshToken::read(first.reveal()).unwrap().next().unwrap();
        assert!(first.hash().handle == next.hash().handle && first.hash().token != next.hash().token);
        assert!(first.hash().handle != RefreshToken::first().unwrap().hash().handle);
        for other in ["", "trr_", &first.reveal()[1..], &format!("{}0", first.reveal()), &"trr_é".repeat(20)] {
            assert!(RefreshToken::read(other).is_none(), "{other}");
        }
    }
}
