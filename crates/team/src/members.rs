//! Finds the tenant and the role of a user or service from the claims of a provider.

use toolrack_host::{
    Principal,
    principal::{BadPrincipal, Kind, Role},
};

use crate::file::{TeamFile, Tenant};

/// The checked claims of a provider about a user or a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The provider that makes the claims.
    pub issuer: String,
    /// The id that the issuer gave the user or service.
    pub subject: String,
    /// The name that other users see.
    pub name: Option<String>,
    /// The e-mail address, if the provider says that it is verified.
    pub verified_email: Option<String>,
    /// The groups of the user or service.
    pub groups: Vec<String>,
    /// The value of the tenant claim, if the provider has one.
    pub tenant: Option<String>,
}

/// Why a user or service with these claims is no member of the team.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAMember {
    /// The claims fit no tenant of the team file.
    #[error("you do not belong to a tenant of this team")]
    NoTenant,
    /// The claims fit more than one tenant.
    #[error("you belong to more than one tenant of this team: {}", .0.join(", "))]
    SeveralTenants(Vec<String>),
    /// A claim has a value that no principal can have.
    #[error("{0}")]
    Claim(#[from] BadPrincipal),
}

impl TeamFile {
    /// Returns the principal of `claims`. If the provider has a tenant claim, that claim alone decides to which tenant
    /// the principal belongs. Otherwise, groups and verified addresses decide. `may_vouch`, if given, returns whether
    /// the issuer may vouch for members of a tenant.
    ///
    /// # Errors
    /// [`NotAMember`]
    pub fn principal(
        &self,
        kind: Kind,
        claims: &Claims,
        may_vouch: Option<&dyn Fn(&str) -> bool>,
    ) -> Result<Principal, NotAMember> {
        let accepts =
            |tenant: &&Tenant| may_vouch.is_none_or(|may_vouch| may_vouch(&tenant.id)) && tenant.accepts(claims);
        let tenants: Vec<_> = self.tenants.iter().filter(accepts).collect();
        let tenant = match tenants[..] {
            [tenant] => tenant,
            [] => return Err(NotAMember::NoTenant),
            _ => return Err(NotAMember::SeveralTenants(tenants.iter().map(|tenant| tenant.id.clone()).collect())),
        };
        let mut principal = Principal::new(kind, &tenant.id, &claims.issuer, &claims.subject)?
            .in_groups(claims.groups.iter().map(String::as_str))?
            .with_role(tenant.role_of(claims));
        if let Some(name) = claims.name.as_deref().or(claims.verified_email.as_deref()) {
            principal = principal.named(name)?;
        }
        Ok(principal)
    }
}

impl Tenant {
    /// Returns whether a user or service with these claims belongs to the tenant.
    fn accepts(&self, claims: &Claims) -> bool {
        if let Some(value) = &claims.tenant {
            return self.claims.contains(value);
        }
        let has_listed_address = || self.members.iter().any(|rule| has_address(claims, rule));
        has_listed_address() || self.groups.iter().any(|group| claims.groups.contains(group))
    }

    /// Returns the most powerful role that the tenant gives to one of the groups or to the address.
    fn role_of(&self, claims: &Claims) -> Role {
        let matches = |group_or_address: &String| {
            claims.groups.contains(group_or_address) || has_address(claims, group_or_address)
        };
        let has_role = |role: &Role| self.roles.get(role).is_some_and(|holders| holders.iter().any(matches));
        let roles_by_power = [Role::Admin, Role::Operator, Role::Auditor, Role::User, Role::Viewer, Role::Scraper];
        roles_by_power.into_iter().find(has_role).unwrap_or(self.role)
    }
}

/// Returns whether the verified address is `rule`, or is in the domain of a `rule` such as `*@acme.example`. Ignores
/// case, also before the `@`, as providers do.
fn has_address(claims: &Claims, rule: &str) -> bool {
    let Some(address) = &claims.verified_email else { return false };
    match (rule.strip_prefix("*@"), address.rsplit_once('@')) {
        (Some(domain), Some((_, address_domain))) => domain.eq_ignore_ascii_case(address_domain),
        _ => rule.eq_ignore_ascii_case(address),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn team() -> TeamFile {
        let file = r#"
            url = "https://tools.example"
            [[tenants]]
            id = "acme"
            members = ["*@acme.example"]
            claims = ["org-1"]
            roles = { admin = ["admins"], operator = ["bob@acme.example"], auditor = ["*@acme.example"] }
            [[tenants]]
            id = "bolt"
            groups = ["bolt-staff"]
            role = "viewer"
        "#;
        TeamFile::parse(file, Path::new("/team")).unwrap()
    }

    fn claims(email: &str, groups: &[&str]) -> Claims {
        Claims {
            issuer: "https://login.example".to_owned(),
            subject: "u-1".to_owned(),
            verified_email: (!email.is_empty()).then(|| email.to_owned()),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Claims::default()
        }
    }

    fn found(claims: &Claims) -> Result<(String, Role), NotAMember> {
        let principal = team().principal(Kind::Person, claims, None)?;
        Ok((principal.tenant().to_owned(), principal.role()))
    }

    #[test]
    fn addresses_and_groups_decide_and_the_most_powerful_role_is_taken() {
        assert_eq!(found(&claims("Ann@ACME.example", &[])), Ok(("acme".to_owned(), Role::Auditor)));
        assert_eq!(found(&claims("bob@acme.example", &[])), Ok(("acme".to_owned(), Role::Operator)));
        assert_eq!(found(&claims("bob@acme.example", &["admins"])), Ok(("acme".to_owned(), Role::Admin)));
        assert_eq!(found(&claims("", &["bolt-staff"])), Ok(("bolt".to_owned(), Role::Viewer)));
    }

    #[test]
    fn a_user_of_no_tenant_or_of_several_is_refused() {
        assert_eq!(found(&claims("eve@evil.example", &["admins"])), Err(NotAMember::NoTenant));
        assert_eq!(found(&claims("eve@acme.example.evil.example", &[])), Err(NotAMember::NoTenant));
        assert_eq!(found(&claims("", &[])), Err(NotAMember::NoTenant));
        let both = found(&claims("ann@acme.example", &["bolt-staff"]));
        assert_eq!(both, Err(NotAMember::SeveralTenants(vec!["acme".to_owned(), "bolt".to_owned()])));
    }

    #[test]
    fn a_tenant_claim_decides_alone() {
        let claimed = |value: &str| Claims { tenant: Some(value.to_owned()), ..claims("ann@acme.example", &[]) };
        assert_eq!(found(&claimed("org-1")).unwrap().0, "acme");
        assert_eq!(found(&claimed("org-2")), Err(NotAMember::NoTenant));
    }

    #[test]
    fn an_issuer_vouches_only_for_its_tenants() {
        let ann = claims("ann@acme.example", &[]);
        assert!(team().principal(Kind::Service, &ann, Some(&|tenant| tenant == "acme")).is_ok());
        let refused = team().principal(Kind::Service, &ann, Some(&|tenant| tenant == "bolt"));
        assert_eq!(refused, Err(NotAMember::NoTenant));
    }
}
