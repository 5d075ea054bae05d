//! What an entry says of signing in.

use toolrack_host::spec::{Grant, OAuth};

use super::{
    fields::{Field, Fields, Item},
    transport::check_template,
};
use crate::{node::Value, problem::Problem};

/// The longest name of an account.
const MAX_ACCOUNT: usize = 64;

/// `oauth = { client_id, client_secret, client_metadata_url, scopes, account, grant }`. Other programs spell some of it
/// `clientId`, `scope` or `CLIENT_ID`, and Cursor calls the object `auth`.
pub(super) fn oauth(fields: &mut Fields<'_, '_, '_>) -> OAuth {
    let mut oauth = OAuth::default();
    let Some(field) = fields.take(&["oauth", "auth"]) else {
        return oauth;
    };
    let Some(members) = field.node.members() else {
        fields.wrong::<()>(field, "an object, such as `{ \"client_id\": \"…\" }`");
        return oauth;
    };
    let mut inside = Fields::new(members, fields.report());
    oauth.client_id = text(&mut inside, "client_id");
    oauth.client_secret = text(&mut inside, "client_secret");
    oauth.client_metadata_url = text(&mut inside, "client_metadata_url");
    oauth.scopes = scopes(&mut inside);
    oauth.account = account(&mut inside);
    oauth.grant = grant(&mut inside);
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        let message = "`oauth.client_secret` means nothing without `oauth.client_id`";
        inside.report().error(field.name_at, field.name, message);
    }
    for (_, unknown) in inside.rest() {
        let problem = Problem::warning(format!("`{}.{}` is not a known field", field.name, unknown.name));
        inside
            .report()
            .add(problem.field(unknown.name).hint("it is ignored, and kept when the file is edited"), unknown.name_at);
    }
    oauth
}

fn text(fields: &mut Fields<'_, '_, '_>, name: &str) -> Option<String> {
    let field = fields.take(&[name])?;
    let value = fields.text(field)?;
    let item = Item { name: format!("oauth.{}", field.name), value, at: &field.node.at };
    check_template(fields, &item);
    Some(item.value)
}

/// A list, or one text with spaces between them, as OAuth writes it.
fn scopes(fields: &mut Fields<'_, '_, '_>) -> Vec<String> {
    let Some(field) = fields.take(&["scopes", "scope"]) else {
        return Vec::new();
    };
    let scopes: Vec<String> = match &field.node.value {
        Value::Text(text) => text.split_whitespace().map(str::to_owned).collect(),
        _ => fields.texts(field).into_iter().map(|item| item.value).collect(),
    };
    // RFC 6749, 3.3.
    let is_scope = |scope: &String| {
        !scope.is_empty() && scope.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
    };
    if !scopes.iter().all(is_scope) {
        let message = format!("`oauth.{}` holds something that can be no scope", field.name);
        fields.report().error(&field.node.at, field.name, message);
    }
    scopes
}

fn account(fields: &mut Fields<'_, '_, '_>) -> Option<String> {
    let field = fields.take(&["account"])?;
    let account = fields.text(field)?;
    if is_account(&account) {
        return Some(account);
    }
    wrong_account(fields, field)
}

/// Whether `name` can be that of an account: 1 to 64 letters, digits and `_`, `.`, `-`, `@`, `+`.
#[must_use]
pub fn is_account(name: &str) -> bool {
    let fits = |c: char| c.is_alphanumeric() || "_.-@+".contains(c);
    !name.is_empty() && name.len() <= MAX_ACCOUNT && name.chars().all(fits)
}

fn wrong_account(fields: &mut Fields<'_, '_, '_>, field: Field<'_>) -> Option<String> {
    let message = "`oauth.account` must be 1 to 64 letters, digits and `_`, `.`, `-`, `@`, `+`";
    fields.report().error(&field.node.at, field.name, message);
    None
}

fn grant(fields: &mut Fields<'_, '_, '_>) -> Grant {
    let Some(field) = fields.take(&["grant", "grant_type"]) else {
        return Grant::default();
    };
    match field.node.as_text() {
        Some("authorization_code") => Grant::AuthorizationCode,
        Some("client_credentials") => Grant::ClientCredentials,
        _ => {
            let message = "`oauth.grant` must be \"authorization_code\" or \"client_credentials\"";
            fields.report().error(&field.node.at, field.name, message);
            Grant::default()
        }
    }
}
