//! From what a provider said to [`Claims`].

use serde_json::Value;
use url::Url;

use crate::{
    members::Claims,
    signed::{Said, bare, text_of},
};

/// Where the claims of a provider are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) issuer: &'a Url,
    /// The claim with the groups.
    pub(crate) groups: &'a str,
    /// The claim with the tenant, if the provider has one.
    pub(crate) tenant: Option<&'a str>,
}

/// The claims in `said`. An address counts only if the provider says that it is verified. Where the provider has a tenant
/// claim, a statement without it has an empty one, so that no address decides in its place.
pub(crate) fn claims(said: &Said, places: Places<'_>) -> Claims {
    let is_verified = match said.get("email_verified") {
        Some(Value::Bool(verified)) => *verified,
        Some(Value::String(verified)) => verified == "true",
        _ => false,
    };
    let own = |claim: &str| text_of(said, claim).map(ToOwned::to_owned);
    Claims {
        issuer: bare(places.issuer).to_owned(),
        subject: own("sub").unwrap_or_default(),
        name: own("name").or_else(|| own("preferred_username")),
        verified_email: own("email").filter(|_| is_verified),
        groups: groups(said.get(places.groups)),
        tenant: places.tenant.map(|claim| own(claim).unwrap_or_default()),
    }
}

/// An array of names, or one name.
fn groups(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(ToOwned::to_owned).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(said: Value, tenant: Option<&str>) -> Claims {
        let issuer = "https://login.example".parse().unwrap();
        claims(said.as_object().unwrap(), Places { issuer: &issuer, groups: "groups", tenant })
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
}
