//! Stores the members of a team (people and services), and the tokens that stand for them.
//!
//! The store has only the hash of a token. A token has no role or group of its own, so that a change of its member
//! applies to all tokens of the member at once.
//!
//! Tokens of one family end together. There are two kinds of families: the access tokens of one grant (a user's
//! permission for an OAuth client), and the tokens that a user made with another token.

mod administration;
mod endings;
mod front_door;
mod removed;

use std::ops::Deref;

use chrono::{DateTime, Utc};
use sha2::{Digest as _, Sha256};
use toolrack_host::{
    Caller, Principal,
    principal::{BadPrincipal, Kind, Role},
};
use uuid::Uuid;

pub use self::administration::{MemberChange, MemberChangeOutcome};
pub use self::front_door::{CodeUse, Grant, GrantFilter, NewGrant, RefreshHash, RefreshUse, RegisteredClient};
pub use self::removed::RemovedMember;
#[cfg(feature = "postgres")]
use crate::{Database, database::Backend};
use crate::{
    Store, StoreError,
    audit::{Entry, append},
    database::{QueryBuilder, Transaction, query, query_scalar},
    now,
    rows::from_row,
};

/// The hash of a token, by which the store finds it. SHA-256 is enough, because a token has 256 random bits, which
/// cannot be guessed. A hash that is slow to compute would not be safer.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of `token`.
    #[must_use]
    pub fn of(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }
}

/// Shows only the first digits, which are enough to tell hashes apart in a log.
impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TokenHash({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// A person or a service uses the token until it ends or is revoked.
    Personal,
    /// An OAuth client got the token after a person consented.
    Access,
    /// A browser has it as a cookie, after a person signed in.
    Browser,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Personal, Self::Access, Self::Browser];

    /// Returns the word for the purpose, in the database and for programs. It never changes.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Personal => "personal",
            Self::Access => "access",
            Self::Browser => "browser",
        }
    }
}

/// The prefix of [`NewToken::family`] for a token that a user made with another token. After it comes the id of that
/// other token.
const MADE_WITH_PREFIX: &str = "with:";

/// A token to store.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// The hash of the token.
    pub hash: TokenHash,
    /// The purpose of the token.
    pub purpose: Purpose,
    /// A name that users see.
    pub label: String,
    /// The OAuth client that has the token.
    pub client: Option<String>,
    /// The family of tokens that end together; see also [`Self::made_with`].
    pub family: Option<String>,
    /// The only profile whose MCP endpoint the token opens. `None` if the token is not bound to a profile.
    pub profile: Option<String>,
    /// When the token ends; `None` if it does not end by itself.
    pub ends_at: Option<DateTime<Utc>>,
}

impl NewToken {
    /// Creates a token for `purpose`, without a name, a client, a family or a profile. It does not end by itself.
    #[must_use]
    pub fn new(hash: TokenHash, purpose: Purpose) -> Self {
        let (client, family, profile, ends_at) = (None, None, None, None);
        Self { hash, purpose, label: String::new(), client, family, profile, ends_at }
    }

    /// Records that the owner made this token with the token `id`, and so ends this token when that one is revoked.
    #[must_use]
    pub fn made_with(self, id: &str) -> Self {
        Self { family: Some(format!("{MADE_WITH_PREFIX}{id}")), ..self }
    }
}

/// A stored token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TeamToken {
    /// The id of the token. It gives no access.
    pub id: String,
    /// The member for whom the token stands, with the present role and groups.
    pub member: Principal,
    /// The purpose of the token.
    pub purpose: Purpose,
    /// A name that users see.
    pub label: String,
    /// The OAuth client that has the token.
    pub client: Option<String>,
    /// The family of tokens that end together.
    pub family: Option<String>,
    /// The only profile whose MCP endpoint the token opens. `None` if the token is not bound to a profile.
    pub profile: Option<String>,
    /// When the token was made.
    pub made_at: DateTime<Utc>,
    /// When the token ends; `None` if it does not end by itself.
    pub ends_at: Option<DateTime<Utc>>,
}

/// The identity of a member.
#[derive(Clone, Copy, Debug)]
pub struct MemberIdentity<'a> {
    /// The identity provider of the member, such as its issuer in OpenID Connect.
    pub issuer: &'a str,
    /// The id that the issuer has for the member.
    pub subject: &'a str,
}

/// A selection of tokens.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TokenFilter<'a> {
    /// All tokens.
    All,
    /// The tokens of one tenant.
    OfTenant(&'a str),
    /// The tokens of one member.
    Of(MemberIdentity<'a>),
    /// The token with this id, and the tokens that were [made with it](NewToken::made_with).
    Id(&'a str),
    /// The token with this hash.
    Hash(TokenHash),
    /// The tokens with these hashes: at most some thousands, because one query contains them all.
    Hashes(&'a [TokenHash]),
    /// The tokens of one family, which end together.
    Family(&'a str),
}

struct MemberRow {
    issuer: String,
    subject: String,
    kind: String,
    tenant: String,
    name: String,
    groups: String,
    role: String,
    membership: i64,
}

from_row!(MemberRow { issuer, subject, kind, tenant, name, groups, role, membership });

struct TokenRow {
    id: String,
    purpose: String,
    label: String,
    client: Option<String>,
    family: Option<String>,
    profile: Option<String>,
    made_at: i64,
    ends_at: Option<i64>,
    member: MemberRow,
}

from_row!(TokenRow { id, purpose, label, client, family, profile, made_at, ends_at } flatten member);

impl MemberRow {
    /// Returns the principal. If a newer version has written an unknown kind or role, uses the kind or role with the
    /// fewest rights.
    fn into_principal(self) -> Result<Principal, BadPrincipal> {
        let kind = if self.kind == Kind::Person.word() { Kind::Person } else { Kind::Service };
        let groups: Vec<String> = serde_json::from_str(&self.groups).unwrap_or_default();
        Principal::new(kind, &self.tenant, &self.issuer, &self.subject)?
            .named(&self.name)?
            .in_groups(groups.iter().map(String::as_str))
            .map(|principal| principal.with_role(self.role.parse().unwrap_or(Role::Scraper)))
            .map(|principal| principal.in_membership(removed::membership_number(self.membership)))
    }
}

impl TokenRow {
    /// Returns the token; `None` if this version cannot understand its row.
    fn into_token(self) -> Option<TeamToken> {
        let to_time = |seconds| DateTime::from_timestamp(seconds, 0);
        Some(TeamToken {
            id: self.id,
            member: self.member.into_principal().ok()?,
            purpose: Purpose::ALL.into_iter().find(|purpose| purpose.word() == self.purpose)?,
            label: self.label,
            client: self.client,
            family: self.family,
            profile: self.profile,
            made_at: to_time(self.made_at)?,
            ends_at: match self.ends_at {
                Some(seconds) => Some(to_time(seconds)?),
                None => None,
            },
        })
    }
}

impl TokenFilter<'_> {
    /// Adds the condition for these tokens to `query`. In it, `t` is the row of a token, and `m` the row of its member.
    /// Each selection has its own condition, so that the database uses the right index.
    fn push_condition(self, query: &mut QueryBuilder) {
        match self {
            Self::All => query.push("TRUE"),
            Self::OfTenant(tenant) => query.push("m.tenant = ").push_bind(tenant.to_owned()),
            Self::Of(owner) => query
                .push("t.issuer = ")
                .push_bind(owner.issuer.to_owned())
                .push(" AND t.subject = ")
                .push_bind(owner.subject.to_owned()),
            Self::Id(id) => query
                .push("t.id IN (WITH RECURSIVE made (id) AS (SELECT id FROM team_tokens WHERE id = ")
                .push_bind(id.to_owned())
                .push(" UNION SELECT child.id FROM team_tokens child JOIN made ON child.family = ")
                .push_bind(MADE_WITH_PREFIX)
                .push(" || made.id) SELECT id FROM made)"),
            Self::Hash(hash) => query.push("t.hash = ").push_bind(hash.0.to_vec()),
            Self::Hashes(hashes) => {
                query.push("t.hash IN (").push_list(hashes.iter().map(|hash| &hash.0[..])).push(")")
            }
            Self::Family(family) => query.push("t.family = ").push_bind(family.to_owned()),
        };
    }
}

/// The scripts that create the tables of a team, in order.
const SCRIPTS: [&str; 7] = [
    include_str!("../team_migrations/0001_members.sql"),
    include_str!("../team_migrations/0002_front_door.sql"),
    include_str!("../team_migrations/0003_profiles.sql"),
    include_str!("../team_migrations/0004_given_roles.sql"),
    include_str!("../team_migrations/0005_removed.sql"),
    include_str!("../team_migrations/0006_departures.sql"),
    include_str!("../team_migrations/0007_replicas.sql"),
];

/// The store of an installation that serves a team. Clones share it.
///
/// [`Store::with_team`] creates its tables. A file without a team does not have them, because SQLite reads the
/// definitions of all tables whenever a program opens the file.
#[derive(Clone, Debug)]
pub struct TeamStore {
    store: Store,
}

impl Deref for TeamStore {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.store
    }
}

impl Store {
    /// Returns this store with the tables of a team. Creates them or brings them up to date first if necessary, in one
    /// transaction.
    ///
    /// # Errors
    /// [`StoreError::Newer`] when a newer version has created the tables; others when the database fails.
    pub async fn with_team(&self) -> Result<TeamStore, StoreError> {
        #[cfg(feature = "postgres")]
        if let Backend::Postgres(tenant) = &self.backend {
            return tenant.database().team().await;
        }
        let operation = "making the tables of a team";
        let mut transaction = self.begin(operation).await?;
        let has_team_schema: bool =
            query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'team_schema')")
                .fetch_one(&mut transaction)
                .await?;
        let found_version: i64 = match has_team_schema {
            true => query_scalar("SELECT version FROM team_schema").fetch_one(&mut transaction).await,
            false => Ok(0),
        }?;
        let known_version = SCRIPTS.len() as i64;
        if found_version > known_version {
            return Err(StoreError::Newer { path: self.path().to_owned(), found: found_version, known: known_version });
        }
        for script in SCRIPTS.into_iter().skip(usize::try_from(found_version).unwrap_or_default()) {
            transaction.run_script(script).await?;
        }
        transaction.commit().await?;
        Ok(TeamStore { store: self.clone() })
    }
}

#[cfg(feature = "postgres")]
impl Database {
    /// Returns the store of the members of a team, their tokens, and what they allowed clients.
    ///
    /// # Errors
    /// [`StoreError::Database`] when the database fails.
    pub async fn team(&self) -> Result<TeamStore, StoreError> {
        Ok(TeamStore { store: self.front_door().await? })
    }
}

impl TeamStore {
    /// Adds a member of a team, or changes its name, groups, role and tenant, and records that in the [audit
    /// log](crate::audit), in one transaction. When the member moves to another tenant, all its tokens, sessions and
    /// grants end. Does nothing if the member is stored like this already.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn put_member(&self, member: &Principal, caller: &Caller) -> Result<(), StoreError> {
        self.write_member(member, AdminRolePolicy::Replace, caller).await
    }

    /// Like [`Self::put_member`], for a member whom a provider has just signed in. If an administrator gave a role to
    /// the member, the member keeps that role.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn put_signed_in(&self, member: &Principal, caller: &Caller) -> Result<(), StoreError> {
        self.write_member(member, AdminRolePolicy::Keep, caller).await
    }

    /// Adds or changes a member. `role_policy` decides about a role that an administrator gave to the member.
    async fn write_member(
        &self,
        new_member: &Principal,
        role_policy: AdminRolePolicy,
        caller: &Caller,
    ) -> Result<(), StoreError> {
        let operation = "writing a member of the team";
        let groups = serde_json::to_string(&new_member.groups().collect::<Vec<_>>()).unwrap_or_default();
        let owner = MemberIdentity { issuer: new_member.issuer(), subject: new_member.subject() };
        let mut transaction = self.begin(operation).await?;
        let member_before = find_member(&mut transaction, owner).await?;
        let role_by_admin = match role_policy {
            AdminRolePolicy::Keep => find_role_by_admin(&mut transaction, owner, new_member.tenant()).await?,
            AdminRolePolicy::Replace => None,
        };
        let membership = removed::membership(&mut transaction, new_member).await?;
        let member_after =
            new_member.clone().with_role(role_by_admin.unwrap_or(new_member.role())).in_membership(membership);
        let changed_rows = query(
            "INSERT INTO team_members (issuer, subject, kind, tenant, name, groups, role, changed_at, role_is_given, \
             membership) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (issuer, subject) DO UPDATE SET kind = excluded.kind, \
             tenant = excluded.tenant, name = excluded.name, groups = excluded.groups, role = excluded.role, \
             changed_at = excluded.changed_at, role_is_given = excluded.role_is_given, membership = excluded.membership \
             WHERE (team_members.kind, team_members.tenant, team_members.name, team_members.groups, team_members.role) <> \
             (excluded.kind, excluded.tenant, excluded.name, excluded.groups, excluded.role)",
        )
        .bind(member_after.issuer())
        .bind(member_after.subject())
        .bind(member_after.kind().word())
        .bind(member_after.tenant())
        .bind(member_after.name())
        .bind(groups)
        .bind(member_after.role().word())
        .bind(now())
        .bind(role_by_admin.is_some())
        .bind(membership)
        .execute(&mut transaction)
        .await?;
        if let Some(member_before) = member_before.filter(|member| member.tenant() != member_after.tenant()) {
            removed::record_departure(&mut transaction, &member_before).await?;
            removed::end_access(&mut transaction, owner).await?;
        }
        if changed_rows > 0 {
            let entry = Entry::of_member("member_changed", caller, &member_after);
            append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        }
        transaction.commit().await
    }

    /// Returns the members of `tenant`, or of all tenants for `None`, in the order of tenants and names.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn members(&self, tenant: Option<&str>) -> Result<Vec<Principal>, StoreError> {
        let rows: Vec<MemberRow> = query(
            "SELECT issuer, subject, kind, tenant, name, groups, role, membership FROM team_members \
             WHERE ($1 IS NULL OR tenant = $1) ORDER BY tenant, name, issuer, subject",
        )
        .bind(tenant)
        .fetch_all(&mut self.begin_read("reading the members of the team").await?)
        .await?;
        Ok(rows.into_iter().filter_map(|row| row.into_principal().ok()).collect())
    }

    /// Returns the member with this identity.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn member(&self, owner: MemberIdentity<'_>) -> Result<Option<Principal>, StoreError> {
        let mut connection = self.begin_read("reading a member of the team").await?;
        find_member(&mut connection, owner).await
    }

    /// Stores a token of `owner`, records that in the audit log, and returns its id. Also removes the rows of tokens
    /// that have ended. Returns `None`, and stores nothing, if the member does not exist. Does the same if this token
    /// [was made](NewToken::made_with) with a token that has become invalid.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn keep_token(
        &self,
        owner: MemberIdentity<'_>,
        token: &NewToken,
        caller: &Caller,
    ) -> Result<Option<String>, StoreError> {
        let mut transaction = self.begin("writing a token of the team").await?;
        let id = insert_token(&mut transaction, owner, token, caller).await?;
        if id.is_some() {
            transaction.commit().await?;
        }
        Ok(id)
    }

    /// Returns the tokens that `filter` selects and that have not ended, in the order of tenant, member and time.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn team_tokens(&self, filter: TokenFilter<'_>) -> Result<Vec<TeamToken>, StoreError> {
        find_tokens(&mut self.begin_read("reading tokens of the team").await?, filter).await
    }

    /// Returns the token with this hash, unless it has ended.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn team_token(&self, hash: TokenHash) -> Result<Option<TeamToken>, StoreError> {
        Ok(self.team_tokens(TokenFilter::Hash(hash)).await?.pop())
    }

    /// Revokes the tokens that `filter` selects, with their grants, records each in the audit log, and returns how many
    /// there were. The change is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn revoke_tokens(&self, filter: TokenFilter<'_>, caller: &Caller) -> Result<usize, StoreError> {
        let operation = "revoking tokens of the team";
        let mut transaction = self.begin_durably(operation).await?;
        // The transaction has the lock of the writers, so no user can make a further token with one of these meanwhile.
        let tokens = find_tokens(&mut transaction, filter).await?;
        let revoked_tokens = endings::revoke(&mut transaction, &tokens).await?;
        let now_millis = Utc::now().timestamp_millis();
        let audit_row = |token: &TeamToken| {
            (now_millis, Entry::of_token("token_revoked", caller, &token.member, &token.id, &token.label))
        };
        let rows: Vec<_> = revoked_tokens.into_iter().map(audit_row).collect();
        append(&mut transaction, &rows).await?;
        transaction.commit().await?;
        Ok(rows.len())
    }

    /// Returns the version of the team. This number grows with each change of a member or a token, and with each other
    /// change of the rights that a token gives.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn team_version(&self) -> Result<i64, StoreError> {
        query_scalar("SELECT version FROM team_version")
            .fetch_one(&mut self.begin_read("reading the version of the team").await?)
            .await
    }
}

/// Stores a token of `owner` in a transaction: see [`TeamStore::keep_token`].
async fn insert_token(
    transaction: &mut Transaction,
    owner: MemberIdentity<'_>,
    token: &NewToken,
    caller: &Caller,
) -> Result<Option<String>, StoreError> {
    let Some(member) = find_member(transaction, owner).await? else { return Ok(None) };
    endings::delete_expired(transaction, now()).await?;
    // The token of the request may have been revoked since the daemon accepted the request.
    if let Some(parent_id) = token.family.as_deref().and_then(|family| family.strip_prefix(MADE_WITH_PREFIX)) {
        let parent: Option<String> = query_scalar("SELECT id FROM team_tokens WHERE id = $1")
            .bind(parent_id)
            .fetch_optional(transaction)
            .await?;
        if parent.is_none() {
            return Ok(None);
        }
    }
    let id = Uuid::now_v7().simple().to_string();
    query(
        "INSERT INTO team_tokens (hash, id, issuer, subject, purpose, label, client, family, profile, made_at, \
         ends_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    )
    .bind(&token.hash.0[..])
    .bind(&id)
    .bind(owner.issuer)
    .bind(owner.subject)
    .bind(token.purpose.word())
    .bind(&token.label)
    .bind(&token.client)
    .bind(&token.family)
    .bind(&token.profile)
    .bind(now())
    .bind(token.ends_at.map(|ends_at| ends_at.timestamp()))
    .execute(transaction)
    .await?;
    let entry = Entry::of_token("token_made", caller, &member, &id, &token.label);
    append(transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
    Ok(Some(id))
}

/// Whether a member who is written again keeps the role that an administrator gave to the member.
#[derive(Clone, Copy)]
enum AdminRolePolicy {
    Keep,
    Replace,
}

/// Returns the role that an administrator of `tenant` gave to the member, if one did.
async fn find_role_by_admin(
    connection: &mut Transaction,
    owner: MemberIdentity<'_>,
    tenant: &str,
) -> Result<Option<Role>, StoreError> {
    let word: Option<String> = query_scalar(
        "SELECT role FROM team_members WHERE issuer = $1 AND subject = $2 AND tenant = $3 AND role_is_given",
    )
    .bind(owner.issuer)
    .bind(owner.subject)
    .bind(tenant)
    .fetch_optional(connection)
    .await?;
    Ok(word.and_then(|word| word.parse().ok()))
}

async fn find_member(connection: &mut Transaction, owner: MemberIdentity<'_>) -> Result<Option<Principal>, StoreError> {
    let row: Option<MemberRow> = query(
        "SELECT issuer, subject, kind, tenant, name, groups, role, membership FROM team_members \
         WHERE issuer = $1 AND subject = $2",
    )
    .bind(owner.issuer)
    .bind(owner.subject)
    .fetch_optional(connection)
    .await?;
    Ok(row.and_then(|row| row.into_principal().ok()))
}

async fn find_tokens(connection: &mut Transaction, filter: TokenFilter<'_>) -> Result<Vec<TeamToken>, StoreError> {
    let mut query = QueryBuilder::new(
        "SELECT t.id, t.purpose, t.label, t.client, t.family, t.profile, t.made_at, t.ends_at, m.issuer, m.subject, m.kind, \
         m.tenant, m.name, m.groups, m.role, m.membership FROM team_tokens t JOIN team_members m \
         ON m.issuer = t.issuer AND m.subject = t.subject WHERE ",
    );
    filter.push_condition(&mut query);
    query.push(" AND (t.ends_at IS NULL OR t.ends_at > ").push_bind(now());
    query.push(") ORDER BY m.tenant, m.name, t.made_at, t.id");
    let rows: Vec<TokenRow> = query.build().fetch_all(connection).await?;
    Ok(rows.into_iter().filter_map(TokenRow::into_token).collect())
}

#[cfg(test)]
mod tests;
