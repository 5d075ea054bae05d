//! Secrets of new entries: the value goes into the store, and the file gets `${secret:NAME}`.

use serde_json::Value;
use toolrack_config::{import::seal, is_secret_word, trust::content_hash};

use crate::{
    error::{Exit, Failure, with_causes},
    secrets::SecretsError,
    wire::World,
};

/// The longest name of a secret, in bytes.
const MAX_NAME: usize = 64;

/// Values that are to be kept, and have names already.
#[derive(Default)]
pub(super) struct Sealed {
    kept: Vec<One>,
}

struct One {
    /// Its name in the entry, such as `API_TOKEN`.
    what: String,
    name: String,
    value: String,
}

impl Sealed {
    /// Finds a name for the value that `server` has as `what`; returns its placeholder.
    pub(super) fn add(&mut self, server: &str, what: &str, value: String, taken: &[String]) -> String {
        let usual = usual_name(server, what);
        let is_free =
            |name: &str| !taken.iter().any(|known| known == name) && self.kept.iter().all(|one| one.name != name);
        let other = |number: u32| {
            let end = format!("-{number}");
            format!("{}{end}", &usual[..usual.len().min(MAX_NAME - end.len())])
        };
        let name = if is_free(&usual) {
            usual.clone()
        } else {
            (2..).map(other).find(|name| is_free(name)).unwrap_or(usual.clone())
        };
        let placeholder = format!("${{secret:{name}}}");
        self.kept.push(One { what: what.to_owned(), name, value });
        placeholder
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Stores them.
    ///
    /// # Errors
    /// When the store does not take one; the entry is then not to be written.
    pub(super) async fn keep(&self, world: &World) -> Result<(), Failure> {
        let stored = world.stored();
        for one in &self.kept {
            stored.set(&one.name, &one.value).await.map_err(|error| not_kept(&error))?;
        }
        Ok(())
    }

    /// Takes the secrets out of the entry of `server`.
    ///
    /// # Errors
    /// When there are some and the store cannot be used.
    pub(super) async fn seal(&mut self, server: &str, entry: &mut Value, world: &World) -> Result<(), Failure> {
        let mut has_some = false;
        seal(&mut entry.clone(), &mut |_, value| {
            has_some = true;
            value
        });
        if has_some {
            let taken = taken(world).await?;
            seal(entry, &mut |what, value| self.add(server, what, value, &taken));
        }
        Ok(())
    }

    /// Prints one line about where they are stored.
    pub(super) fn tell(&self, world: &World) {
        if self.is_empty() {
            return;
        }
        let named: Vec<String> = self.kept.iter().map(|one| format!("{} as {}", one.what, one.name)).collect();
        let how = "the file says ${secret:NAME}; `--plain` writes values into it";
        world.screen.note(&format!("kept among the stored secrets: {}; {how}", named.join(", ")));
    }
}

/// The names of the stored secrets, which new ones must not have.
///
/// # Errors
/// When the store cannot be used.
pub(super) async fn taken(world: &World) -> Result<Vec<String>, Failure> {
    world.stored().names().await.map_err(|error| not_kept(&error))
}

/// The hash that `entry` of `server` has once its secrets are taken out, where none of their names is taken.
pub(super) fn hash_of(server: &str, entry: &Value) -> String {
    let (mut entry, mut sealed) = (entry.clone(), Sealed::default());
    seal(&mut entry, &mut |what, value| sealed.add(server, what, value, &[]));
    content_hash(&entry)
}

fn not_kept(error: &SecretsError) -> Failure {
    let message = format!("a secret of the new entry cannot be stored: {}", with_causes(error));
    Failure::new(Exit::Other, "SECRETS", message).hint("`--plain` writes its value into the file instead")
}

/// `github.API_TOKEN`, as the name of a secret can be.
fn usual_name(server: &str, what: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-') { c } else { '-' };
    let name: String = format!("{server}.{what}").chars().map(plain).collect();
    let name = name.trim_start_matches(['.', '-']);
    let name = &name[..name.len().min(MAX_NAME)];
    if is_secret_word(name) { name.to_owned() } else { "secret".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_of_an_entry_gets_a_name_of_its_own() {
        let mut sealed = Sealed::default();
        let taken = ["gh.TOKEN".to_owned()];
        assert_eq!(sealed.add("gh", "TOKEN", "a".to_owned(), &taken), "${secret:gh.TOKEN-2}");
        assert_eq!(sealed.add("gh", "TOKEN", "b".to_owned(), &taken), "${secret:gh.TOKEN-3}");
        assert_eq!(sealed.add("mein Server", "X-Key", "c".to_owned(), &taken), "${secret:mein-Server.X-Key}");
        assert_eq!(sealed.add(&"ö".repeat(90), "KEY", "d".to_owned(), &taken), "${secret:KEY}");
        let long = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &taken);
        assert_eq!(long.len(), "${secret:}".len() + MAX_NAME);
        let again = sealed.add(&"x".repeat(90), "KEY", "d".to_owned(), &taken);
        assert!(again.ends_with("x-2}") && again.len() == long.len(), "{again}");
    }
}
