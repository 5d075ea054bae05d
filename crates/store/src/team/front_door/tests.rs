use toolrack_host::{Way, principal::Kind};

use super::*;
use crate::team::endings;
use crate::tests::{Stage, on_both};
use crate::{Purpose, Store, TokenFilter, audit::AuditQuery};

const ANN: MemberIdentity<'static> = MemberIdentity { issuer: "https://login.example", subject: "ann" };

fn by() -> Caller {
    Caller::local(Way::Daemon)
}

fn hash(text: &str) -> TokenHash {
    TokenHash::of(text)
}

fn refresh(token: &str) -> RefreshHash {
    RefreshHash { handle: hash("handle"), token: hash(token) }
}

fn grant(code: &str) -> NewGrant<'static> {
    NewGrant {
        owner: ANN,
        client: "c-1",
        client_name: "A client",
        redirect_uri: "http://127.0.0.1/back",
        challenge: "challenge",
        resource: "https://tools.example/mcp",
        scope: "mcp",
        code: hash(code),
    }
}

/// The store of a team with one member.
async fn team(stage: &Stage) -> TeamStore {
    let store = stage.team().await;
    let ann = Principal::new(Kind::Person, "acme", ANN.issuer, ANN.subject).unwrap();
    store.put_member(&ann, &by()).await.unwrap();
    store
}

/// A grant with the refresh token `r-1` and an access token.
async fn exchanged(store: &TeamStore) -> Grant {
    assert!(store.begin_grant(&grant("code"), &by()).await.unwrap());
    let CodeUse::Good(grant) = store.take_code(hash("code")).await.unwrap() else { panic!("the code is good") };
    assert!(store.set_first_refresh(&grant.family, refresh("r-1")).await.unwrap());
    store.keep_token(ANN, &access(&grant), &by()).await.unwrap();
    *grant
}

fn access(grant: &Grant) -> NewToken {
    NewToken {
        hash: hash(&format!("access of {}", grant.family)),
        purpose: Purpose::Access,
        label: grant.client_name.clone(),
        client: Some(grant.client.clone()),
        family: Some(grant.family.clone()),
        profile: None,
        ends_at: Utc::now().checked_add_signed(TimeDelta::hours(1)),
    }
}

async fn tokens_of_a_member_do_not_open_the_tenant_that_the_member_moves_to(stage: &Stage) {
    let store = team(stage).await;
    let grant = exchanged(&store).await;
    let of = |purpose, token: &str| NewToken::new(hash(token), purpose);
    store.keep_token(ANN, &of(Purpose::Personal, "personal"), &by()).await.unwrap();
    store.keep_token(ANN, &of(Purpose::Browser, "browser"), &by()).await.unwrap();
    store.begin_grant(&NewGrant { code: hash("unused"), ..self::grant("unused") }, &by()).await.unwrap();
    let in_acme = store.member(ANN).await.unwrap().unwrap();
    // Another role ends nothing.
    store.put_signed_in(&in_acme.with_role(toolrack_host::principal::Role::Viewer), &by()).await.unwrap();
    assert_eq!(store.team_tokens(TokenFilter::Of(ANN)).await.unwrap().len(), 3);

    let in_bolt = Principal::new(Kind::Person, "bolt", ANN.issuer, ANN.subject).unwrap();
    store.put_signed_in(&in_bolt, &by()).await.unwrap();
    let access = format!("access of {}", grant.family);
    for token in ["personal", "browser", &access] {
        assert!(store.team_token(hash(token)).await.unwrap().is_none(), "{token}");
    }
    assert_eq!(store.take_code(hash("unused")).await.unwrap(), CodeUse::Unknown);
    assert_eq!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Unknown);
    // The session of the sign-in that moved her begins after it.
    store.keep_token(ANN, &of(Purpose::Browser, "new"), &by()).await.unwrap().unwrap();
    let session = store.team_token(hash("new")).await.unwrap().unwrap();
    assert_eq!(session.member.tenant(), "bolt");
}

async fn a_code_is_valid_once_and_only_for_a_minute(stage: &Stage) {
    let store = team(stage).await;
    store.begin_grant(&grant("code"), &by()).await.unwrap();
    let CodeUse::Good(first) = store.take_code(hash("code")).await.unwrap() else { panic!("it counts") };
    assert_eq!((first.member.subject(), &*first.challenge), ("ann", "challenge"));
    let CodeUse::Used(again) = store.take_code(hash("code")).await.unwrap() else { panic!("it counted") };
    assert_eq!(again.family, first.family);
    assert_eq!(store.take_code(hash("other")).await.unwrap(), CodeUse::Unknown);

    store.begin_grant(&grant("late"), &by()).await.unwrap();
    store.write(query("UPDATE team_grants SET code_ends_at = 1"), "testing").await.unwrap();
    assert_eq!(store.take_code(hash("late")).await.unwrap(), CodeUse::Unknown);
}

async fn of_two_uses_of_one_refresh_token_one_succeeds_and_the_other_is_known_as_reuse(stage: &Stage) {
    let store = team(stage).await;
    let family = exchanged(&store).await.family;
    assert!(!store.set_first_refresh(&family, refresh("r-0")).await.unwrap(), "a grant gets one first token");
    let RefreshUse::Good(found) = store.find_refresh(refresh("r-1")).await.unwrap() else { panic!("it counts") };
    assert_eq!(found.family, family);
    assert!(renewed(&store, "r-1", "r-2").await);
    assert!(!renewed(&store, "r-1", "r-3").await);
    assert!(matches!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Used(_)));
    assert!(matches!(store.find_refresh(refresh("r-2")).await.unwrap(), RefreshUse::Good(_)));
    let other = RefreshHash { handle: hash("other"), token: hash("r-2") };
    assert_eq!(store.find_refresh(other).await.unwrap(), RefreshUse::Unknown);
}

async fn a_grant_and_its_tokens_end_together_whichever_is_revoked(stage: &Stage) {
    let store = team(stage).await;
    let first = exchanged(&store).await;
    assert_eq!(store.grants(GrantFilter::Of(ANN)).await.unwrap().len(), 1);
    assert!(store.end_grant(&first.family, &by()).await.unwrap());
    assert!(!store.end_grant(&first.family, &by()).await.unwrap());
    assert!(store.team_tokens(TokenFilter::All).await.unwrap().is_empty());

    let second = exchanged(&store).await;
    let version = store.team_version().await.unwrap();
    assert_eq!(store.revoke_tokens(TokenFilter::Family(&second.family), &by()).await.unwrap(), 1);
    assert_eq!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Unknown);
    assert!(store.team_version().await.unwrap() > version);

    exchanged(&store).await;
    store.remove_member(ANN, &by()).await.unwrap();
    assert!(store.grants(GrantFilter::OfTenant("acme")).await.unwrap().is_empty());
    assert!(!store.begin_grant(&grant("code"), &by()).await.unwrap(), "there is no such member");
}

async fn an_access_token_that_has_ended_leaves_its_grant(stage: &Stage) {
    let store = team(stage).await;
    exchanged(&store).await;
    store.write(query("UPDATE team_tokens SET ends_at = 1"), "testing").await.unwrap();
    // The next token removes the rows of those that have ended.
    let other = NewToken { hash: hash("other"), family: None, ..access(&exchanged_row(&store).await) };
    store.keep_token(ANN, &other, &by()).await.unwrap();
    assert_eq!(store.team_tokens(TokenFilter::All).await.unwrap().len(), 1);
    assert!(matches!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Good(_)));
}

async fn a_token_that_has_ended_by_the_clock_of_this_program_alone_leaves_its_grant(stage: &Stage) {
    let store = team(stage).await;
    exchanged(&store).await;
    let mut transaction = store.begin("testing").await.unwrap();
    // The clock of this program is two hours ahead of the clock of the database.
    endings::delete_expired(&mut transaction, now() + 7_200).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(store.team_tokens(TokenFilter::All).await.unwrap().is_empty());
    assert!(matches!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Good(_)));
}

async fn a_revoked_token_takes_its_grant_along_also_if_it_has_ended_by_the_clock_of_the_database(stage: &Stage) {
    let store = team(stage).await;
    let grant = exchanged(&store).await;
    let token = store.team_token(hash(&format!("access of {}", grant.family))).await.unwrap().unwrap();
    store.write(query("UPDATE team_tokens SET ends_at = 1"), "testing").await.unwrap();
    let mut transaction = store.begin("testing").await.unwrap();
    assert_eq!(endings::revoke(&mut transaction, std::slice::from_ref(&token)).await.unwrap(), [&token]);
    transaction.commit().await.unwrap();
    assert_eq!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Unknown);
}

async fn all_tokens_of_a_grant_that_are_revoked_together_are_counted_and_in_the_audit_log(stage: &Stage) {
    let store = team(stage).await;
    let family = exchanged(&store).await.family;
    assert!(renewed(&store, "r-1", "r-2").await);
    assert_eq!(store.revoke_tokens(TokenFilter::Family(&family), &by()).await.unwrap(), 2);
    let rows = store.audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.unwrap();
    assert_eq!(rows.iter().filter(|row| row.entry.kind == "token_revoked").count(), 2);
    assert_eq!(store.find_refresh(refresh("r-2")).await.unwrap(), RefreshUse::Unknown);
}

/// Replaces the refresh token `old` of the only grant by `new`, with another access token.
async fn renewed(store: &TeamStore, old: &str, new: &str) -> bool {
    let grant = exchanged_row(store).await;
    let access = NewToken { hash: hash(&format!("access with {new}")), ..access(&grant) };
    store.renew_grant(&grant, (refresh(old), hash(new)), &access, &by()).await.unwrap()
}

async fn a_renewal_that_fails_uses_up_no_refresh_token(stage: &Stage) {
    let store = team(stage).await;
    let grant = exchanged(&store).await;
    // The database refuses a second token with the same hash.
    let same = access(&grant);
    store.renew_grant(&grant, (refresh("r-1"), hash("r-2")), &same, &by()).await.unwrap_err();
    assert!(matches!(store.find_refresh(refresh("r-1")).await.unwrap(), RefreshUse::Good(_)));
    assert!(renewed(&store, "r-1", "r-2").await);
}

async fn exchanged_row(store: &TeamStore) -> Grant {
    store.grants(GrantFilter::OfTenant("acme")).await.unwrap().remove(0)
}

async fn a_grant_ends_at_its_limit_however_often_it_is_renewed(stage: &Stage) {
    let store = team(stage).await;
    exchanged(&store).await;
    store.write(query("UPDATE team_grants SET ends_for_good_at = $1").bind(now() + 5), "testing").await.unwrap();
    assert!(renewed(&store, "r-1", "r-2").await);
    let ends: i64 = query_scalar("SELECT ends_at FROM team_grants")
        .fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap())
        .await
        .unwrap();
    assert!(ends <= now() + 5);
}

async fn unused_clients_make_room_and_used_ones_stay(stage: &Stage) {
    let store = team(stage).await;
    let client =
        |id: String| RegisteredClient { id, name: "A client".to_owned(), redirect_uris: vec!["x:/".to_owned()] };
    store.put_client(&client("c-1".to_owned())).await.unwrap();
    store.begin_grant(&grant("code"), &by()).await.unwrap();
    store.write(query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO team_clients \
         (id, name, redirect_uris, made_at, ends_at) SELECT 'flood-' || i, '', '[]', i, $1 FROM n").bind(now() + 60), "testing").await.unwrap();
    store.put_client(&client("c-2".to_owned())).await.unwrap();
    let clients: i64 = query_scalar("SELECT count(*) FROM team_clients")
        .fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap())
        .await
        .unwrap();
    assert_eq!(clients, 2_001, "2,000 that are not used, and the one that is");
    assert!(store.registered_client("flood-1").await.unwrap().is_none());
    for id in ["c-1", "c-2", "flood-2"] {
        assert!(store.registered_client(id).await.unwrap().is_some(), "{id}");
    }
    store.write(query("UPDATE team_clients SET ends_at = 1 WHERE id = 'c-2'"), "testing").await.unwrap();
    assert!(store.registered_client("c-2").await.unwrap().is_none());
}

async fn a_refusal_of_an_endpoint_is_one_row_without_line_breaks(stage: &Stage) {
    let store = team(stage).await;
    let refusal = DoorRefusal {
        door: "token",
        code: "invalid_grant",
        why: "the code counted\nbefore",
        client: Some("c-1"),
        unrecorded: 3,
        ..DoorRefusal::default()
    };
    store.record_door_refusal(&refusal).await.unwrap();
    let row = store.audit(&AuditQuery { limit: 9, ..AuditQuery::default() }).await.unwrap().pop().unwrap().entry;
    assert_eq!((&*row.kind, row.who.as_deref(), row.count), ("refused_at_the_door", Some("token"), Some(3)));
    assert_eq!((row.code.as_deref(), row.client.as_deref()), (Some("invalid_grant"), Some("c-1")));
    assert!(!row.why.unwrap().contains('\n'));
}

#[tokio::test]
async fn a_refresh_token_is_on_the_disk_before_its_client_gets_it_and_so_is_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
    let level = async || sqlx::query_scalar::<_, i64>("PRAGMA synchronous").fetch_one(store.pool()).await.unwrap();
    let (normal, full) = (1, 2);
    store.put_member(&Principal::new(Kind::Person, "acme", ANN.issuer, ANN.subject).unwrap(), &by()).await.unwrap();
    store.begin_grant(&grant("code"), &by()).await.unwrap();
    let CodeUse::Good(grant) = store.take_code(hash("code")).await.unwrap() else { panic!("it counts") };
    assert_eq!(level().await, normal);
    assert!(store.set_first_refresh(&grant.family, refresh("r-1")).await.unwrap());
    assert_eq!(level().await, full);
    store.keep_token(ANN, &access(&grant), &by()).await.unwrap();
    assert_eq!(level().await, normal);
    assert!(renewed(&store, "r-1", "r-2").await);
    assert_eq!(level().await, full);
    drop(store.begin("writing something else").await.unwrap());
    store.end_grant(&grant.family, &by()).await.unwrap();
    assert_eq!(level().await, full);
}

#[tokio::test]
async fn the_file_has_no_code_and_no_refresh_token() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
    store.put_member(&Principal::new(Kind::Person, "acme", ANN.issuer, ANN.subject).unwrap(), &by()).await.unwrap();
    store.begin_grant(&grant("5ecret-code"), &by()).await.unwrap();
    let CodeUse::Good(grant) = store.take_code(hash("5ecret-code")).await.unwrap() else { panic!("it counts") };
    store.set_first_refresh(&grant.family, refresh("5ecret-refresh")).await.unwrap();
    store.close().await;
    let bytes = std::fs::read(folder.path().join("toolrack.db")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"5ecret"));
}

on_both!(
    tokens_of_a_member_do_not_open_the_tenant_that_the_member_moves_to,
    a_code_is_valid_once_and_only_for_a_minute,
    of_two_uses_of_one_refresh_token_one_succeeds_and_the_other_is_known_as_reuse,
    a_grant_and_its_tokens_end_together_whichever_is_revoked,
    an_access_token_that_has_ended_leaves_its_grant,
    a_token_that_has_ended_by_the_clock_of_this_program_alone_leaves_its_grant,
    a_revoked_token_takes_its_grant_along_also_if_it_has_ended_by_the_clock_of_the_database,
    a_renewal_that_fails_uses_up_no_refresh_token,
    all_tokens_of_a_grant_that_are_revoked_together_are_counted_and_in_the_audit_log,
    a_grant_ends_at_its_limit_however_often_it_is_renewed,
    unused_clients_make_room_and_used_ones_stay,
    a_refusal_of_an_endpoint_is_one_row_without_line_breaks
);
