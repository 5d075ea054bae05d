//! Reads `oauth` of an entry: how Toolrack signs in to the server.

use toolrack_host::spec::{Grant, IdentityProvider, OAuth, TextOrFile};

use super::{
    fields::{Field, Fields, Item},
    transport::check_template,
};
use crate::{
    node::Value,
    problem::Problem,
    rows::{IDP, OAUTH},
};

/// The maximum number of characters in the name of an account.
const MAX_ACCOUNT: usize = 64;

/// The words for the OAuth grants (the ways to get a token) in entries. One grant can have several words.
const GRANTS: [(&str, Grant); 6] = [
    ("authorization_code", Grant::AuthorizationCode),
    ("client_credentials", Grant::ClientCredentials),
    ("jwt_bearer", Grant::JwtBearer),
    ("urn:ietf:params:oauth:grant-type:jwt-bearer", Grant::JwtBearer),
    ("workload_identity", Grant::JwtBearer),
    ("enterprise_managed", Grant::EnterpriseManaged),
];

/// Reads the object `oauth`. Other programs write `clientId`, `scope` or `CLIENT_ID` in it, and Cursor calls the object
/// `auth`; the names in the tables [`OAUTH`] and [`IDP`] cover these.
pub(super) fn oauth(fields: &mut Fields<'_, '_, '_>) -> OAuth {
    let mut oauth = OAuth::default();
    let Some(field) = fields.take("oauth") else {
        return oauth;
    };
    let Some(members) = field.node.members() else {
        fields.report_invalid::<()>(field, "an object, such as `{ \"client_id\": \"…\" }`");
        return oauth;
    };
    let mut inner_fields = Fields::new(OAUTH, members, fields.report());
    oauth.client_id = text(&mut inner_fields, "client_id");
    oauth.client_secret = text(&mut inner_fields, "client_secret");
    oauth.client_metadata_url = text(&mut inner_fields, "client_metadata_url");
    oauth.scopes = scopes(&mut inner_fields);
    oauth.account = account(&mut inner_fields);
    oauth.grant = grant(&mut inner_fields);
    oauth.private_key = text_or_file(&mut inner_fields, "private_key", "private_key_file");
    oauth.key_id = text(&mut inner_fields, "key_id");
    oauth.assertion = text_or_file(&mut inner_fields, "assertion", "assertion_file");
    oauth.idp = idp(&mut inner_fields);
    oauth.dpop = inner_fields.take("dpop").and_then(|field| inner_fields.flag(field)).unwrap_or_default();
    if let Some(message) = grant_error(&oauth) {
        inner_fields.report().error(field.name_span, field.name, message);
    }
    if oauth.client_secret.is_some() && oauth.client_id.is_none() {
        let message = "`oauth.client_secret` means nothing without `oauth.client_id`";
        inner_fields.report().error(field.name_span, field.name, message);
    }
    warn_of_unknown_fields(&mut inner_fields, field.name);
    oauth
}

/// Warns of the remaining fields.
fn warn_of_unknown_fields(fields: &mut Fields<'_, '_, '_>, table_path: &str) {
    for (_, unknown) in fields.take_rest() {
        let problem = Problem::warning(format!("`{table_path}.{}` is not a known field", unknown.name));
        fields.report().add(
            problem.field(unknown.name).hint("it is ignored, and kept when the file is edited"),
            unknown.name_span,
        );
    }
}

/// Returns the error if a field that the grant requires is missing, or if two fields exclude each other.
fn grant_error(oauth: &OAuth) -> Option<&'static str> {
    let has_both = |value: &TextOrFile| value.text.is_some() && value.file.is_some();
    if has_both(&oauth.private_key) || has_both(&oauth.assertion) {
        return Some("`oauth.private_key` and `oauth.assertion` are each given as text or as a file: leave one out");
    }
    let has_key = !oauth.private_key.is_none();
    if has_key && oauth.client_id.is_none() {
        return Some("`oauth.private_key` means nothing without `oauth.client_id`");
    }
    if has_key && oauth.client_secret.is_some() {
        return Some("`oauth.private_key` takes the place of a secret: leave `oauth.client_secret` out");
    }
    let has_assertion = !oauth.assertion.is_none();
    match oauth.grant {
        Grant::JwtBearer if !has_assertion => {
            Some("the grant \"jwt_bearer\" needs `oauth.assertion_file` or `oauth.assertion`")
        }
        Grant::EnterpriseManaged if !has_assertion || oauth.idp.is_none() || oauth.client_id.is_none() => Some(
            "the grant \"enterprise_managed\" needs `oauth.client_id`, `oauth.idp`, and `oauth.assertion_file` or `oauth.assertion`",
        ),
        Grant::AuthorizationCode | Grant::ClientCredentials if has_assertion || oauth.idp.is_some() => {
            Some("`oauth.assertion` and `oauth.idp` mean nothing with this `oauth.grant`")
        }
        _ => None,
    }
}

/// Reads a text, or the path of the file that contains it.
fn text_or_file(fields: &mut Fields<'_, '_, '_>, name: &str, file: &str) -> TextOrFile {
    TextOrFile { text: text(fields, name), file: text(fields, file) }
}

fn idp(fields: &mut Fields<'_, '_, '_>) -> Option<IdentityProvider> {
    let field = fields.take("idp")?;
    let Some(members) = field.node.members() else {
        return fields.report_invalid(field, "an object, such as `{ \"token_url\": \"https://…\" }`");
    };
    let mut inner_fields = Fields::new(IDP, members, fields.report());
    let token_url = text(&mut inner_fields, "token_url");
    let (client_id, client_secret) = (text(&mut inner_fields, "client_id"), text(&mut inner_fields, "client_secret"));
    warn_of_unknown_fields(&mut inner_fields, "oauth.idp");
    if token_url.is_none() {
        inner_fields.report().error(field.name_span, field.name, "`oauth.idp.token_url` is missing");
    }
    Some(IdentityProvider { token_url: token_url?, client_id, client_secret })
}

fn text(fields: &mut Fields<'_, '_, '_>, name: &str) -> Option<String> {
    let field = fields.take(name)?;
    let value = fields.text(field)?;
    let item = Item { name: format!("oauth.{}", field.name), value, span: &field.node.span };
    check_template(fields, &item);
    Some(item.value)
}

/// Reads a list of scopes, or one text with spaces between them, as in OAuth.
fn scopes(fields: &mut Fields<'_, '_, '_>) -> Vec<String> {
    let Some(field) = fields.take("scopes") else {
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
        let message = format!("`oauth.{}` has a text that is not a valid scope", field.name);
        fields.report().error(&field.node.span, field.name, message);
    }
    scopes
}

fn account(fields: &mut Fields<'_, '_, '_>) -> Option<String> {
    let field = fields.take("account")?;
    let account = fields.text(field)?;
    if is_account_name(&account) {
        return Some(account);
    }
    report_invalid_account(fields, field)
}

/// Returns whether `name` is valid for an account: 1 to 64 letters and digits of any script, and `_`, `.`, `-`, `@`,
/// `+`.
#[must_use]
pub fn is_account_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_alphanumeric() || "_.-@+".contains(c);
    !name.is_empty() && name.chars().count() <= MAX_ACCOUNT && name.chars().all(is_allowed)
}

fn report_invalid_account(fields: &mut Fields<'_, '_, '_>, field: Field<'_>) -> Option<String> {
    let message = "`oauth.account` must be 1 to 64 letters, digits and `_`, `.`, `-`, `@`, `+`";
    fields.report().error(&field.node.span, field.name, message);
    None
}

fn grant(fields: &mut Fields<'_, '_, '_>) -> Grant {
    let Some(field) = fields.take("grant") else {
        return Grant::default();
    };
    let known_grant = GRANTS.iter().find(|(name, _)| field.node.as_text() == Some(name));
    known_grant.map_or_else(
        || {
            let message = "`oauth.grant` must be \"authorization_code\", \"client_credentials\", \"jwt_bearer\" or \
                           \"enterprise_managed\"";
            fields.report().error(&field.node.span, field.name, message);
            Grant::default()
        },
        |(_, grant)| *grant,
    )
}
