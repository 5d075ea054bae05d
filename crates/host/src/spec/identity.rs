//! Computes a stable hash of the fields that decide which program answers for a server.
//!
//! The hash is the key of stored facts about a server: its era (generation of MCP), its tools, permanent answers and
//! some pins. So it is computed field by field, and does not depend on how a type is printed. Fields that are not
//! listed here do not count: time-outs, limits, a sandbox, the client's authentication. An absent field is not written,
//! so that a new kind of field changes no hash of an entry without it. The test below contains the hashes: change them
//! only with a new [`VERSION`].

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{Container, Http, InheritEnv, Stdio, Transport, fields::FieldsWithoutRow};

/// The first field of the hash; another encoding needs another version.
const VERSION: &str = "toolrack server identity 1";

/// Returns the identity of the server behind `transport`: 32 hexadecimal digits.
pub(super) fn fingerprint(transport: &Transport) -> String {
    let mut identity = IdentityHasher(Sha256::new());
    identity.add_field("version", [VERSION]);
    identity.add_field("transport", [transport.kind()]);
    match transport {
        Transport::Stdio(stdio) => identity.add_stdio(stdio),
        Transport::Http(http) | Transport::Sse(http) => identity.add_http(http),
        Transport::Native(native) => identity.add_field("name", [native.name()]),
    }
    HEXLOWER.encode(&identity.0.finalize()[..16])
}

/// Hashes fields one after the other, each with its name.
struct IdentityHasher(Sha256);

impl IdentityHasher {
    /// Writes a field: its name, the number of its values, and each value with its length as a prefix.
    fn add_field<V: AsRef<[u8]>>(
        &mut self,
        name: &str,
        values: impl IntoIterator<Item = V, IntoIter: ExactSizeIterator>,
    ) {
        let values = values.into_iter();
        self.add_bytes(name.as_bytes());
        self.0.update((values.len() as u64).to_be_bytes());
        values.for_each(|value| self.add_bytes(value.as_ref()));
    }

    fn add_bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Writes pairs of a name and a value, with unresolved placeholders.
    fn add_pairs(&mut self, field: &str, pairs: &BTreeMap<String, String>) {
        if !pairs.is_empty() {
            let names_and_values: Vec<_> = pairs.iter().flat_map(|(name, value)| [name, value]).collect();
            self.add_field(field, names_and_values);
        }
    }

    fn add_stdio(&mut self, stdio: &Stdio) {
        // Fields with rows never count. A new field without a row must be added here, or be left out as `_sandbox` is.
        let (command, args, env, cwd, inherit_env, _sandbox, container) = stdio.fields_without_row();
        self.add_field("command", [command]);
        self.add_field("args", args);
        self.add_pairs("env", env);
        if let Some(cwd) = cwd {
            self.add_field("cwd", [cwd.as_os_str().as_encoded_bytes()]);
        }
        match inherit_env {
            InheritEnv::Safe => {}
            InheritEnv::All => self.add_field("inherit_env", ["all"]),
            InheritEnv::None => self.add_field("inherit_env", ["none"]),
            InheritEnv::Names(names) => self.add_field("inherit_env_names", names),
        }
        if let Some(container) = container {
            self.add_container(container);
        }
    }

    fn add_container(&mut self, container: &Container) {
        self.add_field("image", [&container.image]);
        self.add_field("engine", [container.engine.word()]);
        // A mount can replace the image's own program.
        for mount in &container.mounts {
            self.add_field("mount", [&mount.source, &mount.target]);
        }
    }

    fn add_http(&mut self, http: &Http) {
        let (url, headers, headers_helper, oauth, added_by) = http.fields_without_row();
        self.add_field("url", [url]);
        // A header can select the tenant that answers.
        self.add_pairs("headers", headers);
        if let Some(helper) = headers_helper {
            // Marks the fields that follow as those of the helper.
            self.add_field("headers_helper", ["stdio"]);
            self.add_stdio(helper);
        }
        if let Some(account) = &oauth.account {
            self.add_field("account", [account]);
        }
        if let Some(added_by) = added_by {
            self.add_field("added_by", [&added_by.member]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{
        super::{Mount, OAuth, Sandbox, ServerSpec},
        *,
    };

    fn stdio(change: impl FnOnce(&mut Stdio)) -> String {
        let mut stdio = Stdio { command: "npx".into(), args: vec!["-y".into(), "pkg".into()], ..Stdio::default() };
        change(&mut stdio);
        fingerprint(&Transport::Stdio(stdio))
    }

    fn http(change: impl FnOnce(&mut Http)) -> String {
        let mut http = Http { url: "https://a.example/mcp".into(), ..Http::default() };
        change(&mut http);
        fingerprint(&Transport::Http(http))
    }

    /// Other versions of the program must find the facts that this version has stored under a hash.
    #[test]
    fn an_identity_is_the_same_in_every_version_of_this_program() {
        let full = stdio(|stdio| {
            stdio.env.insert("TOKEN".into(), "${TOKEN}".into());
            stdio.cwd = Some("/srv".into());
            stdio.inherit_env = InheritEnv::Names(vec!["HTTP_PROXY".into()]);
        });
        let headed = http(|http| {
            http.headers.insert("X-Tenant".into(), "a".into());
            http.oauth = OAuth { account: Some("work".into()), ..OAuth::default() };
        });
        let contained = stdio(|stdio| {
            let mount = Mount { source: "/data".into(), target: "/data".into(), write: false };
            let container = Container { image: "img:1".into(), mounts: vec![mount], ..Container::default() };
            stdio.container = Some(Box::new(container));
        });
        assert_eq!(
            [stdio(|_| {}), full, contained, http(|_| {}), headed],
            [
                "66a0ac7b090b1c6ba31a6bb285d2e410",
                "da53cd119414171ebe5bccdce70d2200",
                "977c4f38b228daf824024525cc487c99",
                "d6bbe77f71c0ebe6413e9a54cfc41e5f",
                "0099bbc670a0ee3edd71296248bc4306",
            ]
        );
    }

    #[test]
    fn fields_that_do_not_decide_which_program_answers_change_no_identity() {
        let plain = http(|_| {});
        let changes: [fn(&mut Http); 6] = [
            |http| http.read_timeout = Duration::from_secs(1),
            |http| http.open_timeout = Duration::from_secs(1),
            |http| http.probe_timeout = Duration::from_secs(1),
            |http| http.post_timeout = Duration::from_secs(1),
            |http| http.sse_max_reconnects = 1,
            |http| http.oauth.scopes = vec!["read".into()],
        ];
        for change in changes {
            assert_eq!(http(change), plain);
        }
        assert_eq!(stdio(|stdio| stdio.sandbox = Some(Box::new(Sandbox::default()))), stdio(|_| {}));
        let mut spec = ServerSpec::http("https://a.example/mcp");
        spec.timeouts.call = Duration::from_secs(1);
        spec.limits.pages = 1;
        assert_eq!(spec.fingerprint(), plain);
    }

    #[test]
    fn another_program_has_another_identity() {
        let changes: [fn(&mut Stdio); 9] = [
            |_| {},
            |stdio| stdio.command = "npx -y".into(),
            |stdio| stdio.args = vec!["-y pkg".into()],
            |stdio| stdio.args = vec!["-yp".into(), "kg".into()],
            |stdio| stdio.cwd = Some("/srv".into()),
            |stdio| stdio.inherit_env = InheritEnv::None,
            |stdio| drop(stdio.env.insert("A".into(), "b".into())),
            |stdio| drop(stdio.env.insert("Ab".into(), String::new())),
            |stdio| stdio.container = Some(Box::default()),
        ];
        let mut identities: Vec<_> = changes.into_iter().map(stdio).collect();
        let named = |http: &mut Http| http.url = "npx".into();
        identities.extend([http(|_| {}), http(named), fingerprint(&Transport::Sse(Http::default()))]);
        let distinct: std::collections::BTreeSet<_> = identities.iter().collect();
        assert_eq!(distinct.len(), identities.len());
    }
}
