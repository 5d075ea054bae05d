use serde_json::{Value, json};
use tempfile::TempDir;
use toolrack_host::{Way, principal::Kind};
use toolrack_store::{NewToken, Purpose, Store, TeamStore, TokenHash};
use toolrack_team::Secret;

use super::*;

struct Stage {
    _folder: TempDir,
    store: TeamStore,
}

fn person(tenant: &str, name: &str, role: Role) -> Principal {
    Principal::new(Kind::Person, tenant, "https://login.example", name).unwrap().with_role(role)
}

fn by() -> Caller {
    Caller::local(Way::Daemon)
}

impl Stage {
    /// Ada and Ann of acme, and Bob of bolt. Ada and Bob are administrators.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        for member in
            [person("acme", "ada", Role::Admin), person("acme", "ann", Role::User), person("bolt", "bob", Role::Admin)]
        {
            store.put_member(&member, &by()).await.unwrap();
        }
        Self { _folder: folder, store }
    }

    /// The membership of the member `name`, proved by a new token.
    async fn membership(&self, name: &str, purpose: Purpose) -> Membership {
        self.membership_for(name, purpose, None).await
    }

    /// As [`membership`](Self::membership), with a token that ends after `days`.
    async fn membership_for(&self, name: &str, purpose: Purpose, days: Option<i64>) -> Membership {
        let secret = Secret::new(purpose).unwrap();
        let ends_at = days.map(|days| chrono::Utc::now() + chrono::Duration::days(days));
        let new = NewToken { ends_at, ..NewToken::new(secret.hash(), purpose) };
        let all = self.store.members(None).await.unwrap();
        let member = all.iter().find(|member| member.subject() == name).unwrap();
        self.store.keep_token(identity_of(member), &new, &by()).await.unwrap().unwrap();
        let token = self.store.team_token(secret.hash()).await.unwrap().unwrap();
        Membership { store: self.store.clone(), token }
    }

    async fn role_of(&self, name: &str) -> Option<Role> {
        let all = self.store.members(None).await.unwrap();
        all.iter().find(|member| member.subject() == name).map(Principal::role)
    }

    async fn tokens_of(&self, name: &str) -> usize {
        let member = owner_of(name);
        self.store.team_tokens(TokenFilter::Of(identity_of(&member))).await.unwrap().len()
    }
}

/// A principal with the identity of this member; its tenant and role do not matter.
fn owner_of(name: &str) -> Principal {
    person("acme", name, Role::User)
}

fn id(tenant: &str, name: &str) -> Path<String> {
    Path(person(tenant, name, Role::User).key())
}

/// The status and the code of an error; `None` for a success.
fn refusal<T>(result: Result<T, ApiError>) -> Option<(u16, String)> {
    let error = result.err()?;
    let shown = serde_json::to_value(&error).unwrap();
    Some((error.status().as_u16(), shown["error"]["code"].as_str().unwrap().to_owned()))
}

/// What [`refusal`] returns for an error with this status and this code.
fn refused(status: u16, code: &str) -> Option<(u16, String)> {
    Some((status, code.to_owned()))
}

async fn change_role(membership: &Membership, member: Path<String>, role: Role) -> Option<(u16, String)> {
    refusal(change(Ok(membership.clone()), SentBy(by()), member, Body(NewRole { role })).await)
}

/// Makes a token, and returns the answer as JSON.
async fn make_token(membership: &Membership, wanted: Value) -> Result<Value, ApiError> {
    let wanted = Body(serde_json::from_value(wanted).unwrap());
    let made = access::make(Ok(membership.clone()), SentBy(by()), wanted).await?;
    Ok(serde_json::to_value(&made.0).unwrap())
}

#[tokio::test]
async fn an_administrator_sees_only_members_of_their_own_tenant() {
    let stage = Stage::new().await;
    let ada = stage.membership("ada", Purpose::Browser).await;
    stage.membership("ann", Purpose::Personal).await;
    stage.membership("ann", Purpose::Personal).await;
    stage.membership("bob", Purpose::Personal).await;
    let Json(listed) = list(Ok(ada)).await.unwrap();
    let shown = serde_json::to_value(&listed).unwrap();
    let rows: Vec<_> = shown["members"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["subject"].as_str().unwrap(), one["you"].as_bool().unwrap(), &one["tokens"], &one["sessions"]))
        .collect();
    assert_eq!(rows, [("ada", true, &json!(0), &json!(1)), ("ann", false, &json!(2), &json!(0))]);
    assert_eq!(shown["members"][1]["tenant"], "acme");
    assert!(!shown.to_string().contains("bob"));
}

#[tokio::test]
async fn a_member_of_another_tenant_looks_like_one_that_is_not_there() {
    let stage = Stage::new().await;
    let ada = stage.membership("ada", Purpose::Browser).await;
    let bobs = stage.membership("bob", Purpose::Personal).await.token.id;
    let none = refused(404, "NOT_FOUND");
    for place in [id("bolt", "bob"), id("acme", "bob"), Path("nonsense".to_owned()), Path(String::new())] {
        let member = || Path(place.0.clone());
        assert_eq!(change_role(&ada, member(), Role::Viewer).await, none);
        assert_eq!(refusal(remove(Ok(ada.clone()), SentBy(by()), member()).await), none);
        assert_eq!(refusal(tokens(Ok(ada.clone()), member()).await), none);
        assert_eq!(refusal(clients(Ok(ada.clone()), member()).await), none);
        let token = Path((place.0.clone(), bobs.clone()));
        assert_eq!(refusal(revoke_token(Ok(ada.clone()), SentBy(by()), token).await), none);
        let client = Path((place.0.clone(), "family".to_owned()));
        assert_eq!(refusal(end_client(Ok(ada.clone()), SentBy(by()), client).await), none);
    }
    // The token of another tenant's member cannot be reached through a member of one's own tenant either.
    let token = Path((id("acme", "ann").0, bobs));
    assert_eq!(refusal(revoke_token(Ok(ada), SentBy(by()), token).await), none);
    assert_eq!((stage.role_of("bob").await, stage.tokens_of("bob").await), (Some(Role::Admin), 1));
}

#[tokio::test]
async fn a_tenant_keeps_one_administrator_and_no_role_gives_more_than_the_caller_has() {
    let stage = Stage::new().await;
    let ada = stage.membership("ada", Purpose::Browser).await;
    assert_eq!(change_role(&ada, id("acme", "ada"), Role::User).await, refused(409, "LAST_ADMIN"));
    assert_eq!(refusal(remove(Ok(ada.clone()), SentBy(by()), id("acme", "ada")).await), refused(409, "LAST_ADMIN"));
    assert_eq!(change_role(&ada, id("acme", "ann"), Role::Admin).await, None);
    assert_eq!(change_role(&ada, id("acme", "ada"), Role::Operator).await, None);
    // Even if the routes let other members than administrators change roles, they could not give rights they do not
    // have.
    let lowered = stage.membership("ada", Purpose::Browser).await;
    for (role, expected) in [
        (Role::Admin, refused(403, "NO_RIGHT")),
        (Role::Auditor, refused(403, "NO_RIGHT")),
        (Role::Operator, refused(409, "LAST_ADMIN")),
    ] {
        assert_eq!(change_role(&lowered, id("acme", "ann"), role).await, expected, "{}", role.word());
    }
    assert_eq!(stage.role_of("ann").await, Some(Role::Admin));
}

#[tokio::test]
async fn a_removed_member_is_gone_with_all_tokens() {
    let stage = Stage::new().await;
    let (ada, ann) =
        (stage.membership("ada", Purpose::Browser).await, stage.membership("ann", Purpose::Personal).await);
    assert_eq!(refusal(remove(Ok(ada.clone()), SentBy(by()), id("acme", "ann")).await), None);
    assert_eq!((stage.role_of("ann").await, stage.tokens_of("ann").await), (None, 0));
    // A request of hers whose token was checked a moment earlier can no longer make a token.
    assert_eq!(refusal(make_token(&ann, json!({})).await), refused(404, "NOT_FOUND"));
    assert_eq!(refusal(remove(Ok(ada), SentBy(by()), id("acme", "ann")).await), refused(404, "NOT_FOUND"));
}

#[tokio::test]
async fn a_token_has_a_label_of_one_line_and_an_end_within_a_year() {
    let stage = Stage::new().await;
    let ann = stage.membership("ann", Purpose::Browser).await;
    for label in ["a\nb".to_owned(), "a\u{202e}b".to_owned(), "x".repeat(129)] {
        assert_eq!(refusal(make_token(&ann, json!({ "label": label })).await), refused(422, "BAD_LABEL"), "{label:?}");
    }
    for days in [0, 366, u32::MAX] {
        assert_eq!(refusal(make_token(&ann, json!({ "days": days })).await), refused(422, "BAD_LIFETIME"), "{days}");
    }
    let made = make_token(&ann, json!({ "label": "  my laptop ", "days": 365 })).await.unwrap();
    assert_eq!(made["label"], "my laptop");
    let secret = made["token"].as_str().unwrap();
    let stored = stage.store.team_token(TokenHash::of(secret)).await.unwrap().unwrap();
    assert_eq!((stored.purpose, stored.member.subject(), stored.family), (Purpose::Personal, "ann", None));
    assert_eq!(stage.tokens_of("ann").await, 2, "refused ones leave nothing");
}

#[tokio::test]
async fn a_token_that_is_made_with_a_token_ends_with_it_at_the_latest() {
    let stage = Stage::new().await;
    let ann = stage.membership_for("ann", Purpose::Personal, Some(10)).await;
    assert_eq!(refusal(make_token(&ann, json!({ "days": 11 })).await), refused(422, "BAD_LIFETIME"));
    let made = make_token(&ann, json!({})).await.unwrap();
    assert_eq!(made["ends_at"], crate::shown::rfc3339_seconds(ann.token.ends_at.unwrap()), "not after 90 days");
    make_token(&ann, json!({ "days": 3 })).await.unwrap();
    let revoked = access::revoke(Ok(ann.clone()), SentBy(by()), Path(ann.token.id.clone())).await;
    assert_eq!((refusal(revoked), stage.tokens_of("ann").await), (None, 0));
    // A token that is made in a browser outlives the session.
    let browser = stage.membership_for("ann", Purpose::Browser, Some(1)).await;
    make_token(&browser, json!({ "days": 30 })).await.unwrap();
    access::revoke(Ok(browser.clone()), SentBy(by()), Path(browser.token.id.clone())).await.unwrap();
    assert_eq!(stage.tokens_of("ann").await, 1);
}

#[tokio::test]
async fn a_member_has_at_most_fifty_personal_tokens() {
    let stage = Stage::new().await;
    let ann = stage.membership("ann", Purpose::Browser).await;
    for _ in 0..50 {
        make_token(&ann, json!({})).await.unwrap();
    }
    assert_eq!(refusal(make_token(&ann, json!({})).await), refused(409, "TOO_MANY_TOKENS"));
    let bob = stage.membership("bob", Purpose::Browser).await;
    assert!(make_token(&bob, json!({})).await.is_ok(), "another member has room");
}

#[tokio::test]
async fn signing_out_everywhere_ends_the_sessions_of_browsers_and_keeps_tokens() {
    let stage = Stage::new().await;
    let ann = stage.membership("ann", Purpose::Browser).await;
    stage.membership("ann", Purpose::Browser).await;
    let token = stage.membership("ann", Purpose::Personal).await;
    stage.membership("ada", Purpose::Browser).await;
    access::sign_out(Ok(ann), SentBy(by())).await.unwrap();
    let Json(left) = access::list(Ok(token)).await.unwrap();
    let left = serde_json::to_value(&left).unwrap();
    assert_eq!(left["tokens"].as_array().unwrap().len(), 1);
    assert_eq!((&left["tokens"][0]["purpose"], &left["tokens"][0]["current"]), (&json!("personal"), &json!(true)));
    assert_eq!(stage.tokens_of("ada").await, 1);
}

#[tokio::test]
async fn a_member_revokes_only_their_own_tokens_and_not_the_single_tokens_of_clients() {
    let stage = Stage::new().await;
    let (ann, ada) =
        (stage.membership("ann", Purpose::Browser).await, stage.membership("ada", Purpose::Personal).await);
    let access = stage.membership("ann", Purpose::Access).await;
    for token in [ada.token.id.clone(), access.token.id.clone(), "none".to_owned()] {
        let revoked = access::revoke(Ok(ann.clone()), SentBy(by()), Path(token)).await;
        assert_eq!(refusal(revoked), refused(404, "NOT_FOUND"));
    }
    assert_eq!((stage.tokens_of("ada").await, stage.tokens_of("ann").await), (1, 2));
    let Json(shown) = access::list(Ok(ann)).await.unwrap();
    assert_eq!(
        serde_json::to_value(&shown).unwrap()["tokens"].as_array().unwrap().len(),
        1,
        "the tokens of clients are not in this list"
    );
}
