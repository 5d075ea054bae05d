//! Stores the data of a team's front door, the endpoints for sign-in and OAuth. These data are the registered clients,
//! the grants of users to clients, and the refused requests.
//!
//! A grant is a user's permission for a client. The client first gets a code, and exchanges it for an access token and
//! a refresh token. Each refresh token can be used once, to get the next two tokens. All refresh tokens of a grant
//! begin with the same random part, the handle of the grant. So the store finds the grant of a used token, too, and
//! notices the second use.

use chrono::{TimeDelta, Utc};
use toolrack_host::{Caller, Principal};
use uuid::Uuid;

use super::{MemberIdentity, MemberRow, NewToken, TokenHash, find_member, insert_token};
use crate::{
    StoreError, TeamStore,
    audit::{DoorRefusal, Entry, append},
    database::{QueryBuilder, Transaction, query, query_scalar},
    now,
    rows::from_row,
};

/// How long the store keeps a registered client that no user has used.
const UNUSED_CLIENT_LIFE: TimeDelta = TimeDelta::hours(24);
/// How long the store keeps a client after its last use. This is longer than the life of any grant.
const USED_CLIENT_LIFE: TimeDelta = TimeDelta::days(90);
/// The maximum number of clients that no user has used. Beyond that, the oldest is deleted.
const MAX_UNUSED_CLIENTS: i64 = 2_000;
/// The maximum number of clients. Beyond that, the client whose last use is the longest ago is deleted.
const MAX_CLIENTS: i64 = 20_000;
/// How long a client can exchange a code.
const CODE_LIFE: TimeDelta = TimeDelta::seconds(60);
/// How long the store keeps a code that no client has exchanged. A client that comes too late then gets an error that
/// says so.
const LATE_CODE_LIFE: TimeDelta = TimeDelta::minutes(10);
/// How long a grant is valid without a renewal.
const IDLE_GRANT_LIFE: TimeDelta = TimeDelta::days(14);
/// The maximum life of a grant. After that, the daemon asks the user again.
const GRANT_LIFE: TimeDelta = TimeDelta::days(60);
/// The maximum number of grants of one member. Beyond that, the oldest is deleted.
const MAX_GRANTS: i64 = 200;

/// A client that registered itself (RFC 7591). All data are the client's own claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisteredClient {
    /// The id of the client.
    pub id: String,
    /// The name that the client gives itself.
    pub name: String,
    /// The addresses to which the client may have users redirected.
    pub redirect_uris: Vec<String>,
}

/// A new grant of a user to a client, with the code that the client exchanges for tokens.
#[derive(Clone, Debug)]
pub struct NewGrant<'a> {
    /// The user.
    pub owner: MemberIdentity<'a>,
    /// The client's id.
    pub client: &'a str,
    /// The name that the client gives itself.
    pub client_name: &'a str,
    /// The address to which the code goes.
    pub redirect_uri: &'a str,
    /// The challenge of PKCE, by S256.
    pub challenge: &'a str,
    /// The resource that the tokens of the grant open.
    pub resource: &'a str,
    /// The scope of the grant's tokens.
    pub scope: &'a str,
    /// The hash of the code that the client exchanges for tokens.
    pub code: TokenHash,
}

/// A grant of a user to a client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Grant {
    /// The id of the grant, which is also the family of its access tokens. The id gives no access.
    pub family: String,
    /// The user.
    pub member: Principal,
    /// The client's id.
    pub client: String,
    /// The name that the client gives itself. Untrusted.
    pub client_name: String,
    /// The address to which the code went.
    pub redirect_uri: String,
    /// The challenge of PKCE.
    pub challenge: String,
    /// The resource that the tokens of the grant open.
    pub resource: String,
    /// The scope of the grant's tokens.
    pub scope: String,
    /// When the user gave the grant, in seconds since 1970.
    pub made_at: i64,
    /// When the client last got a token, in seconds since 1970.
    pub renewed_at: Option<i64>,
    /// When the grant ends unless it is renewed, in seconds since 1970.
    pub ends_at: i64,
}

/// A selection of grants.
#[derive(Clone, Copy, Debug)]
pub enum GrantFilter<'a> {
    /// The grants of one tenant.
    OfTenant(&'a str),
    /// The grants of one member.
    Of(MemberIdentity<'a>),
}

/// The outcome of using a code.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CodeUse {
    /// The code is valid. This was its only use.
    Good(Box<Grant>),
    /// The code was used before: another program may have a copy of it.
    Used(Box<Grant>),
    /// The code is unknown, or too old.
    Unknown,
}

/// The outcome of using a refresh token.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RefreshUse {
    /// The token is valid, and another one replaces it.
    Good(Box<Grant>),
    /// The token was used before: another program may have a copy of it.
    Used(Box<Grant>),
    /// The token is unknown, or its grant has ended.
    Unknown,
}

/// The two hashes of a refresh token.
#[derive(Clone, Copy, Debug)]
pub struct RefreshHash {
    /// The hash of the part that all refresh tokens of a grant share, by which the store finds the grant.
    pub handle: TokenHash,
    /// The hash of the whole token.
    pub token: TokenHash,
}

struct GrantRow {
    family: String,
    client: String,
    client_name: String,
    redirect_uri: String,
    challenge: String,
    resource: String,
    scope: String,
    made_at: i64,
    renewed_at: Option<i64>,
    ends_at: i64,
    member: MemberRow,
}

from_row!(GrantRow {
    family, client, client_name, redirect_uri, challenge, resource, scope, made_at, renewed_at, ends_at
} flatten member);

impl GrantRow {
    fn into_grant(self) -> Option<Grant> {
        Some(Grant {
            family: self.family,
            member: self.member.into_principal().ok()?,
            client: self.client,
            client_name: self.client_name,
            redirect_uri: self.redirect_uri,
            challenge: self.challenge,
            resource: self.resource,
            scope: self.scope,
            made_at: self.made_at,
            renewed_at: self.renewed_at,
            ends_at: self.ends_at,
        })
    }
}

/// The start of every query for grants, up to the condition.
const SELECT_GRANTS: &str = "SELECT g.family, g.client, g.client_name, g.redirect_uri, g.challenge, g.resource, g.scope, \
    g.made_at, g.renewed_at, g.ends_at, m.issuer, m.subject, m.kind, m.tenant, m.name, m.groups, m.role, m.membership \
    FROM team_grants g JOIN team_members m ON m.issuer = g.issuer AND m.subject = g.subject WHERE ";

/// The name of the operation in error messages.
const WRITING_REFRESH: &str = "writing a refresh token of the team";

/// Returns the time `delta` after `now`, in seconds since 1970.
fn seconds_after(now: i64, delta: TimeDelta) -> i64 {
    now.saturating_add(delta.num_seconds())
}

/// Returns the time in seconds since 1970, by the clock of the database. The times of grants come from this clock: one
/// replica may store a code, and another replica take it. The code is valid for a minute, and the clocks of the
/// replicas may differ by more.
async fn database_now(transaction: &mut Transaction) -> Result<i64, StoreError> {
    Ok(transaction.now_millis().await? / 1_000)
}

impl TeamStore {
    /// Stores a client that registered itself. The client ends after 24 hours, unless a user gives it a grant. The
    /// store keeps at most 20,000 clients, and only the newest 2,000 of the clients that no user has used.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn put_client(&self, client: &RegisteredClient) -> Result<(), StoreError> {
        let operation = "writing a client of the team";
        let uris = serde_json::to_string(&client.redirect_uris).unwrap_or_default();
        let mut transaction = self.begin(operation).await?;
        make_room_for_client(&mut transaction).await?;
        query("INSERT INTO team_clients (id, name, redirect_uris, made_at, ends_at) VALUES ($1, $2, $3, $4, $5)")
            .bind(&client.id)
            .bind(&client.name)
            .bind(uris)
            .bind(now())
            .bind(seconds_after(now(), UNUSED_CLIENT_LIFE))
            .execute(&mut transaction)
            .await?;
        transaction.commit().await
    }

    /// Returns the client that registered under `id`, unless it has ended.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn registered_client(&self, id: &str) -> Result<Option<RegisteredClient>, StoreError> {
        let row: Option<(String, String, String)> =
            query("SELECT id, name, redirect_uris FROM team_clients WHERE id = $1 AND ends_at > $2")
                .bind(id)
                .bind(now())
                .fetch_optional(&mut self.begin_read("reading a client of the team").await?)
                .await?;
        Ok(row.and_then(|(id, name, uris)| {
            Some(RegisteredClient { id, name, redirect_uris: serde_json::from_str(&uris).ok()? })
        }))
    }

    /// Stores a grant, and records it in the [audit log](crate::audit), in one transaction. Its code is valid for 60
    /// seconds. A member can have 200 grants; beyond that, the oldest grants end. Returns `false`, and stores nothing,
    /// if the member does not exist.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn begin_grant(&self, grant: &NewGrant<'_>, caller: &Caller) -> Result<bool, StoreError> {
        let operation = "writing a grant of the team";
        let mut transaction = self.begin(operation).await?;
        let Some(member) = find_member(&mut transaction, grant.owner).await? else {
            return Ok(false);
        };
        insert_grant(&mut transaction, grant).await?;
        let entry = Entry::of_grant("client_allowed", caller, &member, grant.client_name);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Marks the code with this hash as used, and returns its grant. A second use is [`CodeUse::Used`], even if the
    /// caller issued no tokens after the first.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn take_code(&self, code: TokenHash) -> Result<CodeUse, StoreError> {
        let operation = "reading a code of the team";
        let mark_used = query(
            "UPDATE team_grants SET code_used_at = $1 WHERE code = $2 AND code_used_at IS NULL AND code_ends_at > $1",
        );
        let mut transaction = self.begin(operation).await?;
        let now = database_now(&mut transaction).await?;
        let marked_rows = mark_used.bind(now).bind(&code.0[..]).execute(&mut transaction).await?;
        transaction.commit().await?;
        let grant = self.find_grant("g.code_used_at IS NOT NULL AND g.code = ", &code).await?;
        Ok(match grant {
            Some(grant) if marked_rows > 0 => CodeUse::Good(Box::new(grant)),
            Some(grant) => CodeUse::Used(Box::new(grant)),
            None => CodeUse::Unknown,
        })
    }

    /// Gives the grant `family` its first refresh token. Returns `false` if the grant has ended, or has a token
    /// already. The token is on the disk when this returns. If a crash could undo it, its later use would look like a
    /// theft.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn set_first_refresh(&self, family: &str, refresh_hash: RefreshHash) -> Result<bool, StoreError> {
        let mut transaction = self.begin_durably(WRITING_REFRESH).await?;
        let now = database_now(&mut transaction).await?;
        let changed_rows = query(
            "UPDATE team_grants SET handle = $1, refresh = $2, renewed_at = $3, \
             ends_at = CASE WHEN ends_for_good_at < $4 THEN ends_for_good_at ELSE $4 END \
             WHERE family = $5 AND handle IS NULL",
        )
        .bind(&refresh_hash.handle.0[..])
        .bind(&refresh_hash.token.0[..])
        .bind(now)
        .bind(seconds_after(now, IDLE_GRANT_LIFE))
        .bind(family)
        .execute(&mut transaction)
        .await?;
        transaction.commit().await?;
        Ok(changed_rows > 0)
    }

    /// Returns the grant of a refresh token: as [`RefreshUse::Good`] if the token is the grant's current token, and as
    /// [`RefreshUse::Used`] if it is an earlier token.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn find_refresh(&self, refresh_hash: RefreshHash) -> Result<RefreshUse, StoreError> {
        let Some(grant) = self.find_grant("g.handle = ", &refresh_hash.handle).await? else {
            return Ok(RefreshUse::Unknown);
        };
        let current_hash: Option<Vec<u8>> = query_scalar("SELECT refresh FROM team_grants WHERE family = $1")
            .bind(&grant.family)
            .fetch_optional(&mut self.begin_read("reading a refresh token of the team").await?)
            .await?;
        let is_current = current_hash.is_some_and(|current_hash| current_hash == refresh_hash.token.0);
        Ok(if is_current { RefreshUse::Good(Box::new(grant)) } else { RefreshUse::Used(Box::new(grant)) })
    }

    /// Replaces the refresh token `old_hash` of a grant by `new_hash`, and stores `access_token`, the next access token
    /// of the grant, in one transaction. So a failure uses up no refresh token. Returns whether the old token was still
    /// the current one: of two callers with the same token, only one gets `true`. As with the [first
    /// token](Self::set_first_refresh), the change is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn renew_grant(
        &self,
        grant: &Grant,
        (old_hash, new_hash): (RefreshHash, TokenHash),
        access_token: &NewToken,
        caller: &Caller,
    ) -> Result<bool, StoreError> {
        let mut transaction = self.begin_durably(WRITING_REFRESH).await?;
        let now = database_now(&mut transaction).await?;
        let changed_rows = query(
            "UPDATE team_grants SET refresh = $1, renewed_at = $2, \
             ends_at = CASE WHEN ends_for_good_at < $3 THEN ends_for_good_at ELSE $3 END \
             WHERE handle = $4 AND refresh = $5 AND ends_at > $2",
        )
        .bind(&new_hash.0[..])
        .bind(now)
        .bind(seconds_after(now, IDLE_GRANT_LIFE))
        .bind(&old_hash.handle.0[..])
        .bind(&old_hash.token.0[..])
        .execute(&mut transaction)
        .await?;
        let owner = MemberIdentity { issuer: grant.member.issuer(), subject: grant.member.subject() };
        if changed_rows == 0 || insert_token(&mut transaction, owner, access_token, caller).await?.is_none() {
            return Ok(false);
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// Ends a grant with its refresh token and its access tokens, and records that in the audit log, in one
    /// transaction. Returns whether the grant existed. The change is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn end_grant(&self, family: &str, caller: &Caller) -> Result<bool, StoreError> {
        let operation = "ending a grant of the team";
        let mut transaction = self.begin_durably(operation).await?;
        let mut select = QueryBuilder::new(SELECT_GRANTS);
        select.push("g.family = ").push_bind(family);
        let row: Option<GrantRow> = select.build().fetch_optional(&mut transaction).await?;
        let Some(grant) = row.and_then(GrantRow::into_grant) else { return Ok(false) };
        // A trigger of the database then deletes the access tokens, which have the same family.
        query("DELETE FROM team_grants WHERE family = $1").bind(family).execute(&mut transaction).await?;
        let entry = Entry::of_grant("client_ended", caller, &grant.member, &grant.client_name);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Returns the valid grants that `filter` selects, the newest first.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn grants(&self, filter: GrantFilter<'_>) -> Result<Vec<Grant>, StoreError> {
        let mut connection = self.begin_read("reading grants of the team").await?;
        let now = database_now(&mut connection).await?;
        let mut query = QueryBuilder::new(SELECT_GRANTS);
        match filter {
            GrantFilter::OfTenant(tenant) => query.push("m.tenant = ").push_bind(tenant),
            GrantFilter::Of(owner) => {
                query.push("g.issuer = ").push_bind(owner.issuer).push(" AND g.subject = ").push_bind(owner.subject)
            }
        };
        query.push(" AND g.handle IS NOT NULL AND g.ends_at > ").push_bind(now);
        query.push(" ORDER BY g.made_at DESC, g.family DESC");
        let rows: Vec<GrantRow> = query.build().fetch_all(&mut connection).await?;
        Ok(rows.into_iter().filter_map(GrantRow::into_grant).collect())
    }

    /// Records in the audit log that an endpoint of the front door refused bad input. The caller must limit the number
    /// of these rows, because any client can cause one.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn record_door_refusal(&self, refusal: &DoorRefusal<'_>) -> Result<(), StoreError> {
        let operation = "writing what the door refused";
        let mut transaction = self.begin(operation).await?;
        let entry = Entry::of_door_refusal(refusal);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await
    }

    /// Returns the valid grant that meets a condition. The condition is the SQL `condition`, which ends in `= `,
    /// followed by `hash`.
    async fn find_grant(&self, condition: &'static str, hash: &TokenHash) -> Result<Option<Grant>, StoreError> {
        let mut connection = self.begin_read("reading a grant of the team").await?;
        let now = database_now(&mut connection).await?;
        let mut select = QueryBuilder::new(SELECT_GRANTS);
        select.push(condition).push_bind(&hash.0[..]).push(" AND g.ends_at > ").push_bind(now);
        let row: Option<GrantRow> = select.build().fetch_optional(&mut connection).await?;
        Ok(row.and_then(GrantRow::into_grant))
    }
}

/// Removes the clients that have ended, and then the oldest clients, until the limits allow one more.
async fn make_room_for_client(transaction: &mut Transaction) -> Result<(), StoreError> {
    query("DELETE FROM team_clients WHERE ends_at <= $1").bind(now()).execute(transaction).await?;
    query(
        "DELETE FROM team_clients WHERE used_at IS NULL AND id NOT IN (SELECT id FROM team_clients \
         WHERE used_at IS NULL ORDER BY made_at DESC, id DESC LIMIT $1)",
    )
    .bind(MAX_UNUSED_CLIENTS - 1)
    .execute(transaction)
    .await?;
    query(
        "DELETE FROM team_clients WHERE id NOT IN (SELECT id FROM team_clients \
         ORDER BY coalesce(used_at, made_at) DESC, id DESC LIMIT $1)",
    )
    .bind(MAX_CLIENTS - 1)
    .execute(transaction)
    .await?;
    Ok(())
}

/// Inserts a grant, and marks the client as used. Removes grants that have ended, and the oldest grants beyond the
/// limit.
async fn insert_grant(transaction: &mut Transaction, grant: &NewGrant<'_>) -> Result<(), StoreError> {
    let now = database_now(transaction).await?;
    query("DELETE FROM team_grants WHERE ends_at <= $1").bind(now).execute(transaction).await?;
    query(
        "DELETE FROM team_grants WHERE issuer = $1 AND subject = $2 AND family NOT IN (SELECT family \
         FROM team_grants WHERE issuer = $1 AND subject = $2 ORDER BY made_at DESC, family DESC LIMIT $3)",
    )
    .bind(grant.owner.issuer)
    .bind(grant.owner.subject)
    .bind(MAX_GRANTS - 1)
    .execute(transaction)
    .await?;
    query(
        "INSERT INTO team_grants (family, issuer, subject, client, client_name, redirect_uri, challenge, resource, \
         scope, code, code_ends_at, made_at, ends_at, ends_for_good_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    )
    .bind(Uuid::now_v7().simple().to_string())
    .bind(grant.owner.issuer)
    .bind(grant.owner.subject)
    .bind(grant.client)
    .bind(grant.client_name)
    .bind(grant.redirect_uri)
    .bind(grant.challenge)
    .bind(grant.resource)
    .bind(grant.scope)
    .bind(&grant.code.0[..])
    .bind(seconds_after(now, CODE_LIFE))
    .bind(now)
    // `ends_at`: a grant without tokens ends soon. The first refresh token makes it later.
    .bind(seconds_after(now, LATE_CODE_LIFE))
    .bind(seconds_after(now, GRANT_LIFE))
    .execute(transaction)
    .await?;
    query("UPDATE team_clients SET used_at = $1, ends_at = $2 WHERE id = $3")
        .bind(now)
        .bind(seconds_after(now, USED_CLIENT_LIFE))
        .bind(grant.client)
        .execute(transaction)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
