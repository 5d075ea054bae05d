//! What the placeholders of an entry need, before any of them is filled in.

use std::{collections::BTreeSet, path::Path};

use toolrack_host::{
    ServerSpec,
    spec::{OAuth, Share, Stdio, Transport},
};

use crate::placeholder;

/// Returns the names of the stored secrets that an entry refers to, also in the defaults of placeholders.
#[must_use]
pub fn secrets_in(spec: &ServerSpec) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    texts_of(spec, |text| placeholder::secrets(text, &mut found));
    found
}

/// Returns the names of the values that the person who uses a server gives for it: the `NAME`s of its `${user:NAME}`,
/// also in the defaults of placeholders.
#[must_use]
pub fn given_in(spec: &ServerSpec) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    texts_of(spec, |text| placeholder::of_user(text, &mut found));
    found
}

/// Returns how far the servers of an entry are shared: as it says, else [`Share::User`] if a person gives values for it.
#[must_use]
pub fn share_of(spec: &ServerSpec) -> Share {
    let is_personal = || !given_in(spec).is_empty();
    spec.share.unwrap_or_else(|| if is_personal() { Share::User } else { Share::Tenant })
}

/// Shows `look` every text of an entry that may hold placeholders.
fn texts_of(spec: &ServerSpec, mut look: impl FnMut(&str)) {
    match &spec.transport {
        Transport::Stdio(stdio) => {
            look(&stdio.command);
            stdio.args.iter().chain(stdio.env.values()).for_each(|text| look(text));
            paths_of(stdio).for_each(&mut look);
            stdio.cwd.as_deref().and_then(Path::to_str).into_iter().for_each(look);
        }
        Transport::Http(http) | Transport::Sse(http) => {
            look(&http.url);
            http.headers.values().for_each(|text| look(text));
            let helper = http.headers_helper.iter().flat_map(|helper| helper.args.iter().chain([&helper.command]));
            helper.for_each(|text| look(text));
            texts(&http.oauth).into_iter().for_each(|(_, text)| look(text));
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
pub(crate) fn texts(oauth: &OAuth) -> Vec<(&'static str, &str)> {
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
