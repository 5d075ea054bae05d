//! Lists the stored secrets and the values of users that the placeholders of an entry (the configuration of one server)
//! refer to. It looks up no value.

use std::{collections::BTreeSet, path::Path};

use toolrack_host::{
    ServerSpec,
    spec::{OAuth, Share, Stdio, Transport},
};

use crate::placeholder;

/// Returns the names of the stored secrets that an entry refers to, including those in the defaults of placeholders.
#[must_use]
pub fn secrets_in(spec: &ServerSpec) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for_each_text(spec, |text| placeholder::collect_secret_names(text, &mut names));
    names
}

/// Returns the names of the values that the user of a server gives for it: each `NAME` of a `${user:NAME}`, including
/// those in the defaults of placeholders.
#[must_use]
pub fn user_values_in(spec: &ServerSpec) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for_each_text(spec, |text| placeholder::collect_user_value_names(text, &mut names));
    names
}

/// Returns how far the server of an entry is shared: as its `share` says. By default, each user has a server of their
/// own ([`Share::User`]) if users give values for it, and otherwise all share one ([`Share::Tenant`]).
#[must_use]
pub fn share_of(spec: &ServerSpec) -> Share {
    let is_personal = || !user_values_in(spec).is_empty();
    spec.share.unwrap_or_else(|| if is_personal() { Share::User } else { Share::Tenant })
}

/// Calls `visit` with every text of an entry that may hold placeholders.
fn for_each_text(spec: &ServerSpec, mut visit: impl FnMut(&str)) {
    match &spec.transport {
        Transport::Stdio(stdio) => {
            visit(&stdio.command);
            stdio.args.iter().chain(stdio.env.values()).for_each(|text| visit(text));
            paths_of(stdio).for_each(&mut visit);
            stdio.cwd.as_deref().and_then(Path::to_str).into_iter().for_each(visit);
        }
        Transport::Http(http) | Transport::Sse(http) => {
            visit(&http.url);
            http.headers.values().for_each(|text| visit(text));
            let helper = http.headers_helper.iter().flat_map(|helper| helper.args.iter().chain([&helper.command]));
            helper.for_each(|text| visit(text));
            oauth_texts(&http.oauth).into_iter().for_each(|(_, text)| visit(text));
        }
        Transport::Native(_) => {}
    }
}

/// Returns the paths that the sandbox or the container of a child names.
pub(crate) fn paths_of(stdio: &Stdio) -> impl Iterator<Item = &str> {
    let sandbox = stdio.sandbox.iter().flat_map(|sandbox| sandbox.read.iter().chain(&sandbox.write));
    let container = stdio
        .container
        .iter()
        .flat_map(|container| container.mounts.iter().map(|mount| &mount.source).chain([&container.image]));
    sandbox.chain(container).map(String::as_str)
}

/// Returns every text of the sign-in settings that may hold placeholders, with the name of its field.
pub(crate) fn oauth_texts(oauth: &OAuth) -> Vec<(&'static str, &str)> {
    let idp = oauth.idp.as_ref();
    let fields = [
        ("client_id", oauth.client_id.as_deref()),
        ("client_secret", oauth.client_secret.as_deref()),
        ("client_metadata_url", oauth.client_metadata_url.as_deref()),
        ("private_key", oauth.private_key.text.as_deref()),
        ("private_key_file", oauth.private_key.file.as_deref()),
        ("key_id", oauth.key_id.as_deref()),
        ("assertion", oauth.assertion.text.as_deref()),
        ("assertion_file", oauth.assertion.file.as_deref()),
        ("idp.token_url", idp.map(|idp| idp.token_url.as_str())),
        ("idp.client_id", idp.and_then(|idp| idp.client_id.as_deref())),
        ("idp.client_secret", idp.and_then(|idp| idp.client_secret.as_deref())),
    ];
    fields.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures::{FutureExt as _, future::BoxFuture};
    use serde_json::{Value as Json, json};
    use toolrack_host::{Resolver, ServerName};

    use super::*;
    use crate::{
        Environment, Interpolate, Secrets, UnsetPolicy,
        entry::{Decoded, Report, decode},
        node::{Member, Node},
    };

    fn server(entry: &Json) -> ServerSpec {
        let raw_entry = Member { name: "demo".into(), name_span: 0..0, node: Node::from_json(entry) };
        let mut report = Report::new(None, "demo");
        match decode(&raw_entry, &mut report) {
            Decoded::Server(spec) => *spec,
            other => panic!("{entry}: {other:?} {:?}", report.into_problems()),
        }
    }

    /// Has a value for every name, and records the names that were asked for.
    #[derive(Debug, Default)]
    struct RecordingSecrets(Mutex<BTreeSet<String>>);

    impl RecordingSecrets {
        fn record(&self, name: &str) -> BoxFuture<'static, Result<Option<String>, String>> {
            self.0.lock().unwrap().insert(name.to_owned());
            async { Ok(Some("/value".to_owned())) }.boxed()
        }
    }

    impl Secrets for RecordingSecrets {
        fn secret<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
            self.record(name)
        }

        fn user_value<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<String>, String>> {
            self.record(name)
        }
    }

    /// Returns the names that are looked up when the server of `spec` starts and when it is sent a request.
    fn looked_up(spec: &ServerSpec) -> BTreeSet<String> {
        let secrets = Arc::new(RecordingSecrets::default());
        let interpolate = Interpolate::new(Environment::new([("HOME", "/home/me")]), UnsetPolicy::Error);
        let interpolate =
            interpolate.with_homes("/homes".into()).with_secrets(Arc::clone(&secrets) as Arc<dyn Secrets>);
        let name = ServerName::new("demo").unwrap();
        match &spec.transport {
            Transport::Stdio(stdio) => drop(interpolate.stdio(&name, stdio).now_or_never().unwrap().unwrap()),
            Transport::Http(http) | Transport::Sse(http) => {
                interpolate.url(&name, http).now_or_never().unwrap().unwrap();
                interpolate.headers(&name, http).now_or_never().unwrap().unwrap();
                interpolate.oauth(&name, http).now_or_never().unwrap().unwrap();
            }
            Transport::Native(_) => {}
        }
        secrets.0.lock().unwrap().clone()
    }

    /// Returns entries with a placeholder of this kind in each text that may hold one, and the names in them.
    fn entries(kind: &str) -> [(Json, &'static [&'static str]); 4] {
        let placeholder = |name: &str| format!("${{{kind}:{name}}}");
        [
            (
                json!({
                    "command": placeholder("command"), "args": ["a", placeholder("arg")], "env": { "A": format!("x {}", placeholder("env")) },
                    "cwd": placeholder("cwd"), "sandbox": { "read": [placeholder("read")], "write": [placeholder("write")] },
                }),
                &["arg", "command", "cwd", "env", "read", "write"],
            ),
            (
                json!({
                    "command": "x",
                    "container": { "image": placeholder("image"), "mounts": [format!("{}:/data", placeholder("mount"))] },
                }),
                &["image", "mount"],
            ),
            (
                json!({
                    "url": format!("https://x.example/{}", placeholder("url")), "headers": { "X-Key": placeholder("header") },
                    "oauth": {
                        "grant": "enterprise_managed", "client_id": placeholder("client"), "client_secret": placeholder("secret"),
                        "assertion": placeholder("assertion"),
                        "idp": { "token_url": placeholder("idp"), "client_id": placeholder("idp_client"), "client_secret": placeholder("idp_secret") },
                    },
                }),
                &["assertion", "client", "header", "idp", "idp_client", "idp_secret", "secret", "url"],
            ),
            (
                json!({
                    "url": "https://x.example",
                    "oauth": {
                        "grant": "client_credentials", "client_id": placeholder("client"), "private_key": placeholder("key"),
                        "key_id": placeholder("key_id"),
                    },
                }),
                &["client", "key", "key_id"],
            ),
        ]
    }

    #[test]
    fn every_value_that_a_server_needs_is_listed_before_it_starts() {
        for (kind, known) in [("user", user_values_in as fn(&ServerSpec) -> _), ("secret", secrets_in)] {
            for (entry, names) in entries(kind) {
                let spec = server(&entry);
                let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
                assert_eq!(looked_up(&spec), names, "{entry}");
                assert_eq!(known(&spec), names, "{entry}");
            }
        }
    }

    #[test]
    fn values_in_the_default_of_a_placeholder_count_and_escaped_ones_do_not() {
        let spec = server(
            &json!({ "command": "x", "args": ["${A:-${user:ONE}}", "${B:-${C:-${secret:TWO}}}", "$${user:NO}"] }),
        );
        assert_eq!(user_values_in(&spec).into_iter().collect::<Vec<_>>(), ["ONE"]);
        assert_eq!(secrets_in(&spec).into_iter().collect::<Vec<_>>(), ["TWO"]);
    }

    #[test]
    fn a_server_with_values_of_users_runs_for_each_user_unless_its_entry_says_otherwise() {
        assert_eq!(share_of(&server(&json!({ "command": "x" }))), Share::Tenant);
        assert_eq!(share_of(&server(&json!({ "command": "x", "args": ["${secret:A}"] }))), Share::Tenant);
        assert_eq!(share_of(&server(&json!({ "command": "x", "args": ["${user:A}"] }))), Share::User);
        assert_eq!(share_of(&server(&json!({ "url": "https://x", "headers": { "A": "${user:A}" } }))), Share::User);
        assert_eq!(share_of(&server(&json!({ "command": "x", "share": "user" }))), Share::User);
    }

    #[test]
    fn a_headers_helper_may_use_values_of_users() {
        let spec = server(&json!({ "url": "https://x", "headers_helper": ["print", "${user:A}", "${secret:B}"] }));
        assert_eq!(user_values_in(&spec).into_iter().collect::<Vec<_>>(), ["A"]);
        assert_eq!(secrets_in(&spec).into_iter().collect::<Vec<_>>(), ["B"]);
    }
}
