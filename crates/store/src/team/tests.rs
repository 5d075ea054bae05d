use std::time::Duration;

use toolrack_host::Way;

use super::*;
use crate::audit::AuditQuery;
use crate::tests::{Stage, on_both};

const ANN: MemberIdentity<'static> = MemberIdentity { issuer: "https://login.example", subject: "ann" };

fn ann() -> Principal {
    let ann = Principal::new(Kind::Person, "acme", ANN.issuer, ANN.subject).unwrap();
    ann.named("Ann").unwrap().in_groups(["eng"]).unwrap().with_role(Role::Operator)
}

fn by() -> Caller {
    Caller::local(Way::Cli)
}

fn new(token: &str) -> NewToken {
    NewToken { label: "my laptop".to_owned(), ..NewToken::new(TokenHash::of(token), Purpose::Personal) }
}

async fn store() -> (tempfile::TempDir, TeamStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
    (folder, store)
}

async fn kinds(store: &TeamStore) -> Vec<String> {
    let rows = store.audit(&AuditQuery { limit: 99, ..AuditQuery::default() }).await.unwrap();
    rows.into_iter().map(|row| row.entry.kind).collect()
}

async fn a_token_proves_the_current_state_of_its_member(stage: &Stage) {
    let store = stage.team().await;
    assert_eq!(store.keep_token(ANN, &new("t-1"), &by()).await.unwrap(), None, "there is no such member yet");
    store.put_member(&ann(), &by()).await.unwrap();
    let id = store.keep_token(ANN, &new("t-1"), &by()).await.unwrap().unwrap();
    let before = store.team_version().await.unwrap();
    let found = store.team_token(TokenHash::of("t-1")).await.unwrap().unwrap();
    assert_eq!((&found.id, &found.member, found.member.role()), (&id, &ann(), Role::Operator));
    assert!(found.member.is_in("eng"));

    store.put_member(&ann().with_role(Role::Viewer), &by()).await.unwrap();
    let changed = store.team_token(TokenHash::of("t-1")).await.unwrap().unwrap();
    assert_eq!(changed.member.role(), Role::Viewer);
    assert!(store.team_version().await.unwrap() > before);
    assert!(store.team_token(TokenHash::of("t-2")).await.unwrap().is_none());
}

async fn an_unchanged_member_is_not_written(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann(), &by()).await.unwrap();
    let (version, rows) = (store.team_version().await.unwrap(), kinds(&store).await);
    store.put_member(&ann(), &by()).await.unwrap();
    assert_eq!((store.team_version().await.unwrap(), kinds(&store).await), (version, rows));
}

async fn revoked_tokens_and_those_of_removed_members_prove_nothing_and_the_audit_log_says_who_did_it(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann(), &by()).await.unwrap();
    let first = store.keep_token(ANN, &new("t-1"), &by()).await.unwrap().unwrap();
    store.keep_token(ANN, &new("t-2"), &by()).await.unwrap();
    store.keep_token(ANN, &NewToken { family: Some("f".to_owned()), ..new("t-3") }, &by()).await.unwrap();
    let version = store.team_version().await.unwrap();
    assert_eq!(store.revoke_tokens(TokenFilter::Id(&first), &by()).await.unwrap(), 1);
    assert_eq!(store.revoke_tokens(TokenFilter::Family("f"), &by()).await.unwrap(), 1);
    assert_eq!(store.revoke_tokens(TokenFilter::Id(&first), &by()).await.unwrap(), 0);
    assert_eq!(store.revoke_tokens(TokenFilter::OfTenant("bolt"), &by()).await.unwrap(), 0);
    assert!(store.team_version().await.unwrap() > version);
    assert!(store.team_token(TokenHash::of("t-1")).await.unwrap().is_none());
    assert!(store.team_token(TokenHash::of("t-2")).await.unwrap().is_some());

    assert!(store.remove_member(ANN, &by()).await.unwrap());
    assert!(!store.remove_member(ANN, &by()).await.unwrap());
    assert!(store.team_token(TokenHash::of("t-2")).await.unwrap().is_none());
    assert!(store.team_tokens(TokenFilter::All).await.unwrap().is_empty());
    let expected = [
        "member_changed",
        "token_made",
        "token_made",
        "token_made",
        "token_revoked",
        "token_revoked",
        "member_removed",
    ];
    assert_eq!(kinds(&store).await, expected);
}

async fn an_expired_token_proves_nothing_and_its_row_is_deleted_with_the_next_token(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann(), &by()).await.unwrap();
    let ends_at = Utc::now().checked_sub_signed(chrono::Duration::from_std(Duration::from_secs(1)).unwrap());
    store.keep_token(ANN, &NewToken { ends_at, ..new("t-1") }, &by()).await.unwrap();
    assert!(store.team_token(TokenHash::of("t-1")).await.unwrap().is_none());
    store.keep_token(ANN, &new("t-2"), &by()).await.unwrap();
    let rows: i64 = query_scalar("SELECT count(*) FROM team_tokens")
        .fetch_one::<i64>(&mut store.begin_read("testing").await.unwrap())
        .await
        .unwrap();
    assert_eq!(rows, 1);
}

#[tokio::test]
async fn the_file_has_no_token() {
    let (folder, store) = store().await;
    store.put_member(&ann(), &by()).await.unwrap();
    store.keep_token(ANN, &new("trk_5ecret-5ecret"), &by()).await.unwrap();
    store.close().await;
    let bytes = std::fs::read(folder.path().join("toolrack.db")).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"5ecret"));
}

#[tokio::test]
async fn only_a_file_with_a_team_has_its_tables_and_a_newer_one_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
    let tables = async || -> i64 {
        let count = "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'team%'";
        sqlx::query_scalar(count).fetch_one(store.pool()).await.unwrap()
    };
    assert_eq!(tables().await, 0);
    let team = store.with_team().await.unwrap();
    team.put_member(&ann(), &by()).await.unwrap();
    assert!(tables().await > 0);
    let again = store.with_team().await.unwrap();
    assert_eq!(again.members(None).await.unwrap(), [ann()]);
    sqlx::query("UPDATE team_schema SET version = 99").execute(store.pool()).await.unwrap();
    assert!(matches!(store.with_team().await, Err(StoreError::Newer { found: 99, .. })));
}

async fn an_administrator_changes_only_members_of_their_own_tenant_and_never_the_last_of_them(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann().with_role(Role::Admin), &by()).await.unwrap();
    let change = |tenant, change| {
        let store = store.clone();
        async move { store.change_member(tenant, ANN, change, &by()).await.unwrap() }
    };
    let lowered = MemberChange::Role(Role::User);
    assert_eq!(change("bolt", MemberChange::Remove).await, MemberChangeOutcome::NoMember);
    assert_eq!(change("acme", MemberChange::Remove).await, MemberChangeOutcome::LastAdmin);
    assert_eq!(change("acme", lowered).await, MemberChangeOutcome::LastAdmin);
    assert_eq!(change("acme", MemberChange::Role(Role::Admin)).await, MemberChangeOutcome::Done);
    assert_eq!(kinds(&store).await, ["member_changed"; 2], "only that the role is given now");

    let bob = Principal::new(Kind::Person, "acme", ANN.issuer, "bob").unwrap().with_role(Role::Admin);
    store.put_member(&bob, &by()).await.unwrap();
    assert_eq!(change("acme", lowered).await, MemberChangeOutcome::Done);
    assert_eq!(change("acme", MemberChange::Remove).await, MemberChangeOutcome::Done);
    assert_eq!(store.member(ANN).await.unwrap(), None);
    assert_eq!(kinds(&store).await[3..], ["member_changed", "member_removed"]);
}

async fn a_role_that_an_administrator_gave_stays_when_the_member_signs_in_again(stage: &Stage) {
    let store = stage.team().await;
    let role = async || store.member(ANN).await.unwrap().unwrap().role();
    store.put_signed_in(&ann(), &by()).await.unwrap();
    store.change_member("acme", ANN, MemberChange::Role(Role::Viewer), &by()).await.unwrap();
    store.put_signed_in(&ann().in_groups(["ops"]).unwrap(), &by()).await.unwrap();
    assert_eq!(role().await, Role::Viewer);
    assert!(store.member(ANN).await.unwrap().unwrap().is_in("ops"));
    // An administrator of one tenant decides nothing in another.
    let moved = Principal::new(Kind::Person, "bolt", ANN.issuer, ANN.subject).unwrap().with_role(Role::Operator);
    store.put_signed_in(&moved, &by()).await.unwrap();
    assert_eq!(role().await, Role::Operator);
}

async fn a_role_that_is_given_counts_also_where_the_provider_gave_the_same_before(stage: &Stage) {
    let store = stage.team().await;
    store.put_signed_in(&ann().with_role(Role::User), &by()).await.unwrap();
    let give = async || store.change_member("acme", ANN, MemberChange::Role(Role::User), &by()).await.unwrap();
    assert_eq!(give().await, MemberChangeOutcome::Done);
    store.put_signed_in(&ann().with_role(Role::Operator), &by()).await.unwrap();
    assert_eq!(store.member(ANN).await.unwrap().unwrap().role(), Role::User, "the provider made her an operator since");
    let rows = kinds(&store).await.len();
    assert_eq!(give().await, MemberChangeOutcome::Done);
    assert_eq!(kinds(&store).await.len(), rows, "a role that is given already changes nothing");
}

#[tokio::test]
async fn a_team_of_an_older_version_keeps_its_members_and_tokens() {
    for version in 1..=SCRIPTS.len() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap();
        for script in &SCRIPTS[..version] {
            sqlx::raw_sql(*script).execute(store.pool()).await.unwrap();
        }
        let hash = TokenHash::of("t-1");
        let row = "INSERT INTO team_members (issuer, subject, kind, tenant, name, groups, role, changed_at) \
                   VALUES ('https://login.example', 'ann', 'person', 'acme', 'Ann', '[\"eng\"]', 'operator', 1)";
        sqlx::query(row).execute(store.pool()).await.unwrap();
        let token = "INSERT INTO team_tokens (hash, id, issuer, subject, purpose, label, made_at) \
                     VALUES (?, 'id', 'https://login.example', 'ann', 'personal', 'my laptop', 1)";
        sqlx::query(token).bind(hash.0.to_vec()).execute(store.pool()).await.unwrap();

        let team = store.with_team().await.unwrap();
        let found = team.team_token(hash).await.unwrap().unwrap();
        assert_eq!((&found.member, found.profile, &*found.label), (&ann(), None, "my laptop"), "version {version}");
        assert_eq!(team.removed_members().await.unwrap(), []);
        // A row that an older version stored can be changed and removed like any other row.
        team.put_signed_in(&ann().with_role(Role::Viewer), &by()).await.unwrap();
        assert_eq!(team.member(ANN).await.unwrap().unwrap().role(), Role::Viewer, "no administrator gave a role");
        assert!(team.remove_member(ANN, &by()).await.unwrap());
        assert!(team.team_token(hash).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_row_of_a_newer_version_gives_no_right_that_this_one_does_not_know() {
    let (_folder, store) = store().await;
    store.put_member(&ann(), &by()).await.unwrap();
    store.keep_token(ANN, &new("t-1"), &by()).await.unwrap().unwrap();
    let change = async |what: &str| {
        let text = format!("UPDATE team_members SET {what}");
        sqlx::query(sqlx::AssertSqlSafe(text)).execute(store.pool()).await.unwrap();
        store.member(ANN).await.unwrap()
    };
    assert_eq!(change("role = 'owner'").await.unwrap().role(), Role::Scraper);
    assert_eq!(change("kind = 'robot'").await.unwrap().kind(), Kind::Service);
    assert_eq!(change("groups = '{\"eng\": true}'").await.unwrap().groups().count(), 0);
    assert_eq!(change("tenant = '../etc'").await, None, "no principal can have this tenant");
    assert!(store.team_token(TokenHash::of("t-1")).await.unwrap().is_none());
    assert!(change("tenant = 'acme'").await.is_some());
    store.write(query("UPDATE team_tokens SET purpose = 'root'"), "testing").await.unwrap();
    assert!(store.team_token(TokenHash::of("t-1")).await.unwrap().is_none());
}

async fn a_change_of_a_member_with_several_tenants_in_the_team_touches_only_the_right_one(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann().with_role(Role::Admin), &by()).await.unwrap();
    let eve =
        Principal::new(Kind::Person, "bolt", ANN.issuer, "eve").unwrap().named("Eve").unwrap().with_role(Role::Admin);
    store.put_member(&eve, &by()).await.unwrap();
    // The other tenant has an administrator, too, who does not count for this one.
    let lowered = store.change_member("acme", ANN, MemberChange::Role(Role::User), &by()).await.unwrap();
    assert_eq!(lowered, MemberChangeOutcome::LastAdmin);
    assert_eq!(store.members(Some("bolt")).await.unwrap(), [eve]);
    let names: Vec<_> = store.members(None).await.unwrap().iter().map(|member| member.tenant().to_owned()).collect();
    assert_eq!(names, ["acme", "bolt"]);
    let (ours, theirs) = (TokenFilter::OfTenant("acme"), TokenFilter::OfTenant("bolt"));
    store.keep_token(ANN, &new("t-1"), &by()).await.unwrap();
    assert_eq!((store.team_tokens(ours).await.unwrap().len(), store.team_tokens(theirs).await.unwrap().len()), (1, 0));
    assert_eq!(store.revoke_tokens(theirs, &by()).await.unwrap(), 0);
    assert_eq!(store.revoke_tokens(ours, &by()).await.unwrap(), 1);
}

async fn a_token_takes_those_along_that_were_made_with_it(stage: &Stage) {
    let store = stage.team().await;
    store.put_member(&ann(), &by()).await.unwrap();
    let keep = async |token: NewToken| store.keep_token(ANN, &token, &by()).await.unwrap().unwrap();
    let first = keep(new("t-1")).await;
    let second = keep(new("t-2").made_with(&first)).await;
    let third = keep(new("t-3").made_with(&second)).await;
    keep(new("t-4")).await;
    assert_eq!(store.revoke_tokens(TokenFilter::Id(&third), &by()).await.unwrap(), 1);
    keep(new("t-5").made_with(&second)).await;
    assert_eq!(store.revoke_tokens(TokenFilter::Id(&first), &by()).await.unwrap(), 3);
    let left = store.team_tokens(TokenFilter::Of(ANN)).await.unwrap();
    assert_eq!(left.len(), 1);
    assert!(store.team_token(TokenHash::of("t-4")).await.unwrap().is_some());
    // A request that was let in just before still makes no token.
    for revoked in [&first, &second] {
        let late = new("t-6").made_with(revoked);
        assert_eq!(store.keep_token(ANN, &late, &by()).await.unwrap(), None);
    }
    assert_eq!(store.team_tokens(TokenFilter::Of(ANN)).await.unwrap(), left);
}

#[tokio::test]
async fn what_takes_access_away_is_on_the_disk_when_it_returns() {
    let (_folder, store) = store().await;
    let level = async || sqlx::query_scalar::<_, i64>("PRAGMA synchronous").fetch_one(store.pool()).await.unwrap();
    let (normal, full) = (1, 2);
    let keep = async |token: &str| {
        let id = store.keep_token(ANN, &new(token), &by()).await.unwrap().unwrap();
        assert_eq!(level().await, normal);
        id
    };
    store.put_member(&ann(), &by()).await.unwrap();
    let id = keep("t-1").await;
    store.revoke_tokens(TokenFilter::Id(&id), &by()).await.unwrap();
    assert_eq!(level().await, full);
    keep("t-2").await;
    store.change_member("acme", ANN, MemberChange::Role(Role::Viewer), &by()).await.unwrap();
    assert_eq!(level().await, full);
    keep("t-3").await;
    store.remove_member(ANN, &by()).await.unwrap();
    assert_eq!(level().await, full);
}

async fn a_removed_member_is_noted_until_its_values_are_deleted(stage: &Stage) {
    let store = stage.team().await;
    let noted = async || store.removed_members().await.unwrap();
    store.put_member(&ann(), &by()).await.unwrap();
    assert_eq!(noted().await, []);
    let of = RemovedMember::of;
    let moved = Principal::new(Kind::Person, "bolt", ANN.issuer, ANN.subject).unwrap();
    store.put_member(&moved, &by()).await.unwrap();
    assert_eq!(noted().await, [of(&ann())], "what it gave to the old tenant is not the new one's");
    store.remove_member(ANN, &by()).await.unwrap();
    assert_eq!(noted().await, [of(&ann()), of(&moved)]);
    store.mark_values_deleted(&of(&ann())).await.unwrap();
    assert_eq!(noted().await, [of(&moved)]);
}

async fn a_removed_or_moved_user_who_comes_back_has_a_new_membership(stage: &Stage) {
    let store = stage.team().await;
    let key = async || store.member(ANN).await.unwrap().unwrap().key();
    let memberships = async |person: &Principal| {
        let person = person.person_key();
        store.memberships(std::slice::from_ref(&person)).await.unwrap().get(&person).copied().unwrap_or_default()
    };
    store.put_member(&ann(), &by()).await.unwrap();
    assert_eq!(key().await, ann().key());
    store.remove_member(ANN, &by()).await.unwrap();
    store.put_member(&ann(), &by()).await.unwrap();
    assert_eq!((key().await, memberships(&ann()).await), (ann().in_membership(1).key(), 1));
    // Another name or group ends no membership.
    store.put_member(&ann().in_groups(["eng"]).unwrap(), &by()).await.unwrap();
    assert_eq!(key().await, ann().in_membership(1).key());

    let moved = Principal::new(Kind::Person, "bolt", ANN.issuer, ANN.subject).unwrap();
    store.put_member(&moved, &by()).await.unwrap();
    assert_eq!((key().await, memberships(&moved).await), (moved.key(), 0));
    store.put_signed_in(&ann(), &by()).await.unwrap();
    assert_eq!((key().await, memberships(&moved).await), (ann().in_membership(2).key(), 1));
    // The departures name the memberships that ended, also after the member has returned.
    let removed = store.removed_members().await.unwrap();
    let keys: Vec<_> = removed.iter().map(RemovedMember::key).collect();
    assert_eq!(keys, [ann().key(), ann().in_membership(1).key(), moved.key()]);
    for removed in &removed {
        store.mark_values_deleted(removed).await.unwrap();
    }
    assert_eq!((store.removed_members().await.unwrap(), memberships(&ann()).await), (Vec::new(), 2));
}

on_both!(
    a_token_proves_the_current_state_of_its_member,
    an_unchanged_member_is_not_written,
    revoked_tokens_and_those_of_removed_members_prove_nothing_and_the_audit_log_says_who_did_it,
    an_expired_token_proves_nothing_and_its_row_is_deleted_with_the_next_token,
    an_administrator_changes_only_members_of_their_own_tenant_and_never_the_last_of_them,
    a_role_that_an_administrator_gave_stays_when_the_member_signs_in_again,
    a_role_that_is_given_counts_also_where_the_provider_gave_the_same_before,
    a_change_of_a_member_with_several_tenants_in_the_team_touches_only_the_right_one,
    a_token_takes_those_along_that_were_made_with_it,
    a_removed_member_is_noted_until_its_values_are_deleted,
    a_removed_or_moved_user_who_comes_back_has_a_new_membership
);
