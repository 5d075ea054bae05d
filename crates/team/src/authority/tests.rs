use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tempfile::TempDir;
use tokio::time::timeout;
use toolrack_host::{
    Caller, Way,
    principal::{Kind, Role},
};
use toolrack_store::{MemberIdentity, NewToken, Store, TokenFilter};

use super::*;
use crate::tokens::Secret;

const ANN: MemberIdentity<'static> = MemberIdentity { issuer: "toolrack", subject: "ann" };

fn ann(role: Role) -> Principal {
    Principal::new(Kind::Person, "acme", ANN.issuer, ANN.subject).unwrap().with_role(role)
}

fn by() -> Caller {
    Caller::local(Way::Cli)
}

struct Team {
    folder: TempDir,
    store: TeamStore,
    authority: Arc<Authority>,
    watching: tokio::task::JoinSet<()>,
}

impl Team {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("toolrack.db")).await.unwrap().with_team().await.unwrap();
        store.put_member(&ann(Role::User), &by()).await.unwrap();
        let authority = Arc::new(Authority::new(store.clone()));
        let mut watching = tokio::task::JoinSet::new();
        watching.spawn(Arc::clone(&authority).watch(CancellationToken::new()));
        Self { folder, store, authority, watching }
    }

    async fn token(&self, ends_at: Option<DateTime<Utc>>) -> (Secret, String) {
        let secret = Secret::new(Purpose::Personal).unwrap();
        let new = NewToken { ends_at, ..NewToken::new(secret.hash(), Purpose::Personal) };
        let id = self.store.keep_token(ANN, &new, &by()).await.unwrap().unwrap();
        (secret, id)
    }

    /// Makes the row of a token unreadable.
    async fn damage(&self, id: &str) {
        let options = SqliteConnectOptions::new().filename(self.folder.path().join("toolrack.db"));
        let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
        let query = sqlx::query("UPDATE team_tokens SET label = CAST(x'ff' AS TEXT) WHERE id = ?").bind(id);
        query.execute(&mut connection).await.unwrap();
    }

    async fn prove(&self, secret: &Secret) -> Option<ProvedToken> {
        self.authority.prove(secret.reveal()).await.unwrap()
    }
}

/// Waits for the end of a token, at most one second: the time that the documentation promises.
async fn ends_within_a_second(proved: &ProvedToken) {
    timeout(Duration::from_secs(1), proved.ended()).await.unwrap();
}

#[tokio::test]
async fn a_revoked_token_ends_running_requests_and_opens_no_new_ones() {
    let team = Team::new().await;
    let ((one, id), (other, _)) = (team.token(None).await, team.token(None).await);
    let (proved, kept) = (team.prove(&one).await.unwrap(), team.prove(&other).await.unwrap());
    assert_eq!(team.store.revoke_tokens(TokenFilter::Id(&id), &by()).await.unwrap(), 1);
    ends_within_a_second(&proved).await;
    assert!(team.prove(&one).await.is_none());
    assert!(!kept.0.ended.is_cancelled() && team.prove(&other).await.is_some());
}

#[tokio::test]
async fn a_changed_role_ends_open_requests_and_applies_to_the_next() {
    let team = Team::new().await;
    let (secret, _) = team.token(None).await;
    let proved = team.prove(&secret).await.unwrap();
    assert_eq!(proved.member().role(), Role::User);
    team.store.put_member(&ann(Role::Viewer), &by()).await.unwrap();
    ends_within_a_second(&proved).await;
    assert_eq!(team.prove(&secret).await.unwrap().member().role(), Role::Viewer);
}

#[tokio::test]
async fn an_unreadable_token_does_not_keep_other_tokens_from_ending() {
    let team = Team::new().await;
    let tokens = [team.token(None).await, team.token(None).await, team.token(None).await];
    let mut proved = Vec::new();
    for (secret, _) in &tokens {
        proved.push(team.prove(secret).await.unwrap());
    }
    let [(_, unreadable), revoked @ ..] = &tokens;
    team.damage(unreadable).await;
    for (_, id) in revoked {
        assert_eq!(team.store.revoke_tokens(TokenFilter::Id(id), &by()).await.unwrap(), 1);
        ends_within_a_second(&proved.remove(1)).await;
    }
}

#[tokio::test]
async fn a_token_is_valid_until_it_expires() {
    let team = Team::new().await;
    let (secret, _) = team.token(Some(Utc::now() + chrono::Duration::seconds(2))).await;
    let proved = team.prove(&secret).await.unwrap();
    timeout(Duration::from_secs(4), proved.ended()).await.unwrap();
    assert!(team.prove(&secret).await.is_none());
}

#[tokio::test]
async fn a_known_token_needs_no_store_and_an_unknown_one_fails_without_it() {
    let team = Team::new().await;
    let (secret, _) = team.token(None).await;
    let proved = team.prove(&secret).await.unwrap();
    team.store.close().await;
    assert!(Arc::ptr_eq(&team.prove(&secret).await.unwrap().0, &proved.0));
    let unknown = Secret::new(Purpose::Personal).unwrap();
    assert!(matches!(team.authority.prove(unknown.reveal()).await, Err(Unavailable::Store(_))));
    // A text that cannot be a token is refused without the store.
    assert!(team.authority.prove("guess").await.unwrap().is_none());
    assert_eq!(team.watching.len(), 1);
}

#[tokio::test]
async fn only_tokens_in_use_are_kept_beyond_the_bound() {
    let team = Team::new().await;
    let (secret, _) = team.token(None).await;
    let token = team.store.team_token(secret.hash()).await.unwrap().unwrap();
    let proved = || ProvedToken::new(Proof::Stored(token.clone()));
    let mut known = TokenCache::default();
    let in_use = known.keep(TokenHash::of("in use"), proved()).unwrap();
    for number in 1..=MAX_CACHED_TOKENS {
        assert!(known.keep(TokenHash::of(&number.to_string()), proved()).is_some());
    }
    assert!(known.by_hash.len() <= MAX_CACHED_TOKENS);
    assert!(known.by_hash.contains_key(&TokenHash::of("in use")) && !in_use.0.ended.is_cancelled());
}

#[tokio::test]
async fn many_revoked_tokens_all_end_within_a_second() {
    let team = Team::new().await;
    let mut proved = Vec::new();
    for _ in 0..TOKENS_PER_QUERY + 10 {
        proved.push(team.prove(&team.token(None).await.0).await.unwrap());
    }
    team.store.revoke_tokens(TokenFilter::Of(ANN), &by()).await.unwrap();
    let all = futures::future::join_all(proved.iter().map(ProvedToken::ended));
    timeout(Duration::from_secs(1), all).await.unwrap();
}
