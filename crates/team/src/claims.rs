//! Reads [`Claims`] from a signed statement (JWT) of a provider: its statements about a user, such as the name,
//! the e-mail address and the groups.

use serde_json::Value;
use toolrack_host::text;
use url::Url;

use crate::{
    members::Claims,
    signed::{JwtClaims, text_of, without_slash},
};

/// The maximum number of bytes of a name in a principal.
const MAX_NAME: usize = 256;

/// A provider, and the names of its claims for groups and tenants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimNames<'a> {
    pub(crate) issuer: &'a Url,
    /// The claim with the groups.
    pub(crate) groups: &'a str,
    /// The claim with the tenant, if the provider has one.
    pub(crate) tenant: Option<&'a str>,
}

/// Reads the claims in `jwt`. An e-mail address counts only if the provider says that it is verified. If the
/// configuration names a tenant claim and `jwt` lacks it, `tenant` is an empty text and not `None`. Otherwise the
/// e-mail address would decide on the tenant.
pub(crate) fn claims(jwt: &JwtClaims, names: ClaimNames<'_>) -> Claims {
    let is_verified = match jwt.get("email_verified") {
        Some(Value::Bool(verified)) => *verified,
        Some(Value::String(verified)) => verified == "true",
        _ => false,
    };
    let claim_text = |claim: &str| text_of(jwt, claim).map(ToOwned::to_owned);
    Claims {
        issuer: without_slash(names.issuer).to_owned(),
        // No principal can have an empty subject.
        subject: claim_text("sub").unwrap_or_default(),
        name: claim_text("name").or_else(|| claim_text("preferred_username")).map(|name| display_name(&name)),
        verified_email: claim_text("email").filter(|_| is_verified),
        groups: groups(jwt.get(names.groups)),
        tenant: names.tenant.map(|claim| claim_text(claim).unwrap_or_default()),
    }
}

/// Makes a name safe to show on one line: the provider may allow any characters.
fn display_name(name: &str) -> String {
    text::clip(&text::for_line(name), MAX_NAME).into_owned()
}

/// Reads an array of group names, or a single name. Leaves out names that no principal can have; no rule of the team
/// file can contain such a name either.
fn groups(value: Option<&Value>) -> Vec<String> {
    let is_valid_name = |group: &&str| !group.is_empty() && group.len() <= MAX_NAME && text::for_line(group) == *group;
    let groups: Vec<_> = match value {
        Some(Value::String(group)) => vec![group.as_str()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    groups.into_iter().filter(is_valid_name).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(jwt: Value, tenant: Option<&str>) -> Claims {
        let issuer = "https://login.example".parse().unwrap();
        claims(jwt.as_object().unwrap(), ClaimNames { issuer: &issuer, groups: "groups", tenant })
    }

    #[test]
    fn an_address_counts_only_when_it_is_verified() {
        for (verified, counts) in [(json!(true), true), (json!("true"), true), (json!(false), false), (json!(1), false)]
        {
            let claims = read(json!({ "sub": "a", "email": "a@x.example", "email_verified": verified }), None);
            assert_eq!(claims.verified_email.is_some(), counts, "{verified}");
        }
        assert_eq!(read(json!({ "sub": "a", "email": "a@x.example" }), None).verified_email, None);
    }

    #[test]
    fn groups_are_an_array_or_one_name_and_a_missing_tenant_claim_is_an_empty_one() {
        let claims = read(json!({ "sub": "a", "groups": ["eng", 7, "ops"] }), Some("org"));
        assert_eq!((claims.groups, claims.tenant), (vec!["eng".to_owned(), "ops".to_owned()], Some(String::new())));
        let claims = read(json!({ "sub": "a", "groups": "eng" }), None);
        assert_eq!((claims.groups, claims.tenant), (vec!["eng".to_owned()], None));
        assert_eq!(claims.issuer, "https://login.example");
    }

    #[test]
    fn an_unusual_name_does_not_prevent_a_sign_in() {
        let long = "x".repeat(300);
        let claims =
            read(json!({ "sub": "a", "name": format!("Ann\n{long}"), "groups": ["eng", "a\nb", "", long] }), None);
        assert_eq!(claims.groups, ["eng"]);
        let kind = toolrack_host::principal::Kind::Person;
        let ann = toolrack_host::Principal::new(kind, "acme", "i", "a").unwrap();
        assert!(ann.named(&claims.name.unwrap()).is_ok());
    }
}
