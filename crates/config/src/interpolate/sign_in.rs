//! Prepares the settings for the sign-in to a server (`oauth`). Fills in their placeholders such as `${SECRET}`, and
//! reads the files that they name.

use std::{fs::File, io::Read as _, path::Path};

use toolrack_host::{
    ResolveError,
    spec::{IdentityProvider, OAuth, TextOrFile},
};

use super::{BareName, Interpolate, Values};
use crate::needs::oauth_texts;

/// The maximum size of a file with a key or an assertion, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;
/// The minimum length of a line of a key that is concealed on its own. A shorter line, such as the last one, could
/// occur in other texts by chance.
const MIN_LINE_BYTES: usize = 16;

impl Interpolate {
    /// Returns `oauth` with its placeholders filled in, and with the content of its files as texts.
    pub(super) async fn filled_oauth(&self, oauth: &OAuth) -> Result<OAuth, ResolveError> {
        let server = None; // These values go to the authorization server, and to no MCP server.
        let values = self.values(server, oauth_texts(oauth).into_iter().map(|(_, text)| text)).await;
        let filler = Filler { values: &values };
        let idp = oauth.idp.as_ref().map(|idp| filler.idp(idp)).transpose()?;
        let filled_oauth = OAuth {
            client_id: filler.option("client_id", oauth.client_id.as_deref())?,
            client_secret: filler.option("client_secret", oauth.client_secret.as_deref())?,
            client_metadata_url: filler.option("client_metadata_url", oauth.client_metadata_url.as_deref())?,
            private_key: filler.text_or_file("private_key", &oauth.private_key)?,
            key_id: filler.option("key_id", oauth.key_id.as_deref())?,
            assertion: filler.text_or_file("assertion", &oauth.assertion)?,
            idp,
            ..oauth.clone()
        };
        let idp_secret = filled_oauth.idp.as_ref().and_then(|idp| idp.client_secret.clone());
        // A server may repeat a key without its line breaks, so each line of it counts as a secret.
        let key_lines = filled_oauth.private_key.text.iter().flat_map(|key| key.lines());
        let secret_lines =
            key_lines.filter(|line| line.len() >= MIN_LINE_BYTES && !line.starts_with("-----")).map(str::to_owned);
        let whole_values = [filled_oauth.client_secret.clone(), idp_secret, filled_oauth.assertion.text.clone()];
        let secrets: Vec<String> = whole_values.into_iter().flatten().chain(secret_lines).collect();
        self.remember(server, values.into_secrets().into_iter().chain(secrets));
        Ok(filled_oauth)
    }
}

/// Fills in the placeholders of sign-in settings from `values`.
struct Filler<'a> {
    values: &'a Values,
}

impl Filler<'_> {
    fn text(&self, name: &str, text: &str) -> Result<String, ResolveError> {
        self.values.resolve(&format!("oauth.{name}"), text, BareName::Literal)
    }

    fn option(&self, name: &str, text: Option<&str>) -> Result<Option<String>, ResolveError> {
        text.map(|text| self.text(name, text)).transpose()
    }

    fn idp(&self, idp: &IdentityProvider) -> Result<IdentityProvider, ResolveError> {
        Ok(IdentityProvider {
            token_url: self.text("idp.token_url", &idp.token_url)?,
            client_id: self.option("idp.client_id", idp.client_id.as_deref())?,
            client_secret: self.option("idp.client_secret", idp.client_secret.as_deref())?,
        })
    }

    fn text_or_file(&self, name: &str, value: &TextOrFile) -> Result<TextOrFile, ResolveError> {
        let file_field = format!("{name}_file");
        let text = match (&value.text, &value.file) {
            (Some(text), _) => Some(self.text(name, text)?),
            (None, Some(file)) => {
                let path = self.values.resolve_path(&format!("oauth.{file_field}"), file)?;
                Some(read_file(&path).map_err(|why| {
                    let path = path.display();
                    ResolveError::new(format!("`oauth.{file_field}`: {path} cannot be used: {why}"))
                })?)
            }
            (None, None) => None,
        };
        Ok(TextOrFile { text, file: None })
    }
}

/// Reads a file of text, without white space at its ends. The error is the reason, for a message.
fn read_file(path: &Path) -> Result<String, String> {
    if !path.is_absolute() {
        return Err("write the full path, beginning with `/` or `~/`".to_owned());
    }
    // Opening a pipe would wait for another process to write to it.
    if !path.metadata().map_err(|error| error.kind().to_string())?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let file = File::open(path).map_err(|error| error.kind().to_string())?;
    let mut text = String::new();
    match file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text) {
        Ok(length) if length as u64 > MAX_FILE_BYTES => Err(format!("it is larger than {} KiB", MAX_FILE_BYTES / 1024)),
        Ok(_) if text.trim().is_empty() => Err("it is empty".to_owned()),
        Ok(_) => Ok(text.trim().to_owned()),
        Err(error) => Err(error.kind().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::{Environment, UnsetPolicy};

    #[test]
    fn a_key_comes_out_of_its_file_and_is_concealed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        let line = "MIGHAgEAMBMGByqGSM49canarycanary";
        std::fs::write(&path, format!("-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n")).unwrap();
        let environment = Environment::new([("DIR", folder.path()), ("HOME", folder.path())]);
        let interpolate = Interpolate::new(environment, UnsetPolicy::Error);
        let file = |file: &str| OAuth {
            private_key: TextOrFile { text: None, file: Some(file.to_owned()) },
            ..OAuth::default()
        };
        let resolve = |path: &str| interpolate.filled_oauth(&file(path)).now_or_never().unwrap();
        let resolved = resolve("${DIR}/key.pem").unwrap();
        assert!(resolved.private_key.text.as_ref().unwrap().ends_with("PRIVATE KEY-----"));
        assert_eq!(interpolate.conceal(&format!("it said {line}")), "it said ***");
        assert_eq!(resolve("~/key.pem").unwrap().private_key.text, resolved.private_key.text);
        for (wrong, why) in [("key.pem", "full path"), ("${DIR}/none", "not found"), ("${DIR}", "not a file")] {
            let error = resolve(wrong).unwrap_err().to_string();
            assert!(error.contains("oauth.private_key_file") && error.contains(why), "{error}");
        }
        std::fs::write(&path, "x".repeat(65 * 1024)).unwrap();
        assert!(resolve("${DIR}/key.pem").is_err());
    }
}
