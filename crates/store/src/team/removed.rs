//! Memberships that ended: what their members gave is in the databases of the tenants, from which it is still to be
//! deleted.

use std::collections::HashMap;

use sqlx::{QueryBuilder, Sqlite, SqliteConnection, Transaction};
use toolrack_host::Principal;

use crate::{StoreError, TeamStore, TokenOwner, rows::from_row};

/// A member who was removed, or who moved to another tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedMember {
    /// The tenant.
    pub tenant: String,
    /// The [key](Principal::person_key) of the person.
    pub person: String,
    /// The number of the membership that ended.
    pub membership: u32,
}

from_row!(RemovedMember { tenant, person, membership });

impl RemovedMember {
    /// The membership of `member`, which has ended.
    #[must_use]
    pub fn of(member: &Principal) -> Self {
        Self { tenant: member.tenant().to_owned(), person: member.person_key(), membership: member.membership() }
    }

    /// The [key](Principal::key) that the member had.
    #[must_use]
    pub fn key(&self) -> String {
        Principal::key_of(&self.person, self.membership)
    }
}

impl TeamStore {
    /// The members whose values are still to be deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn removed_members(&self) -> Result<Vec<RemovedMember>, StoreError> {
        sqlx::query_as(
            "SELECT tenant, person, membership FROM team_departures WHERE is_forgotten = 0 \
             ORDER BY tenant, person, membership",
        )
        .fetch_all(&self.pool)
        .await
        .map_err(self.error("reading the removed members of the team"))
    }

    /// The values of this member have been deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forgot_member(&self, removed: &RemovedMember) -> Result<(), StoreError> {
        sqlx::query("UPDATE team_departures SET is_forgotten = 1 WHERE person = ? AND membership = ?")
            .bind(&removed.person)
            .bind(removed.membership)
            .execute(&self.pool)
            .await
            .map_err(self.error("writing the removed members of the team"))?;
        Ok(())
    }

    /// The numbers of the memberships that people have now, or would have, by their [keys](Principal::person_key); 0
    /// for those who are not in the result.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn memberships(&self, people: &[String]) -> Result<HashMap<String, u32>, StoreError> {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT person, count(*) FROM team_departures WHERE person IN (");
        let mut list = query.separated(", ");
        for person in people {
            list.push_bind(person);
        }
        query.push(") GROUP BY person");
        let rows: Vec<(String, u32)> = query
            .build_query_as()
            .fetch_all(&self.pool)
            .await
            .map_err(self.error("reading the removed members of the team"))?;
        Ok(rows.into_iter().collect())
    }
}

/// The number of the membership that `person` has now, or would have.
pub(super) async fn membership(connection: &mut SqliteConnection, person: &Principal) -> Result<u32, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM team_departures WHERE person = ?")
        .bind(person.person_key())
        .fetch_one(connection)
        .await
}

/// Notes that the membership of `member` has ended, and that its values are to be deleted.
pub(super) async fn note(
    transaction: &mut Transaction<'static, Sqlite>,
    member: &Principal,
) -> Result<(), sqlx::Error> {
    let RemovedMember { tenant, person, membership } = RemovedMember::of(member);
    sqlx::query(
        "INSERT INTO team_departures (person, membership, tenant, is_forgotten) VALUES (?, ?, ?, 0) \
         ON CONFLICT DO NOTHING",
    )
    .bind(person)
    .bind(membership)
    .bind(tenant)
    .execute(&mut **transaction)
    .await?;
    Ok(())
}

/// Ends all tokens, sessions and grants of `owner`: they were given for a membership that has ended.
pub(super) async fn shut_out(
    transaction: &mut Transaction<'static, Sqlite>,
    owner: TokenOwner<'_>,
) -> Result<(), sqlx::Error> {
    for delete in [
        "DELETE FROM team_grants WHERE issuer = $1 AND subject = $2",
        "DELETE FROM team_tokens WHERE issuer = $1 AND subject = $2",
    ] {
        sqlx::query(delete).bind(owner.issuer).bind(owner.subject).execute(&mut **transaction).await?;
    }
    Ok(())
}
