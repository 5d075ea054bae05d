//! Records memberships that have ended. The values and servers of such members stay in the databases of their tenants
//! until another part of the daemon deletes them. The table `team_departures` says whose values must still be deleted.

use std::collections::HashMap;

use toolrack_host::Principal;

use crate::{
    MemberIdentity, StoreError, TeamStore,
    database::{QueryBuilder, Transaction, query, query_scalar},
};

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

impl RemovedMember {
    /// Returns the present membership of `member`, as one that has ended.
    #[must_use]
    pub fn of(member: &Principal) -> Self {
        Self { tenant: member.tenant().to_owned(), person: member.person_key(), membership: member.membership() }
    }

    /// Returns the [key](Principal::key) that the member had.
    #[must_use]
    pub fn key(&self) -> String {
        Principal::key_of(&self.person, self.membership)
    }
}

/// The name of the operation in error messages.
const READING: &str = "reading the removed members of the team";

impl TeamStore {
    /// Returns the members whose values are still to be deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn removed_members(&self) -> Result<Vec<RemovedMember>, StoreError> {
        let rows: Vec<(String, String, i64)> = query(
            "SELECT tenant, person, membership FROM team_departures WHERE is_forgotten = FALSE \
             ORDER BY tenant, person, membership",
        )
        .fetch_all(&mut self.begin_read(READING).await?)
        .await?;
        let to_removed_member =
            |(tenant, person, membership)| RemovedMember { tenant, person, membership: membership_number(membership) };
        Ok(rows.into_iter().map(to_removed_member).collect())
    }

    /// Records that the values of this member have been deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn mark_values_deleted(&self, member: &RemovedMember) -> Result<(), StoreError> {
        let update = query("UPDATE team_departures SET is_forgotten = TRUE WHERE person = $1 AND membership = $2")
            .bind(&member.person)
            .bind(member.membership);
        self.write(update, "writing the removed members of the team").await?;
        Ok(())
    }

    /// Returns the number of each person's present or next membership, by the person's [key](Principal::person_key).
    /// The number counts the memberships that have ended. People whose number is 0 are not in the result.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn memberships(&self, people: &[String]) -> Result<HashMap<String, u32>, StoreError> {
        let mut query = QueryBuilder::new("SELECT person, count(*) FROM team_departures WHERE person IN (");
        query.push_list(people).push(") GROUP BY person");
        let rows: Vec<(String, i64)> = query.build().fetch_all(&mut self.begin_read(READING).await?).await?;
        Ok(rows.into_iter().map(|(person, count)| (person, membership_number(count))).collect())
    }
}

/// Returns the number of the membership that `person` has now, or would get.
pub(super) async fn membership(connection: &mut Transaction, person: &Principal) -> Result<u32, StoreError> {
    let count_ended = query_scalar("SELECT count(*) FROM team_departures WHERE person = $1");
    Ok(membership_number(count_ended.bind(person.person_key()).fetch_one(connection).await?))
}

/// Converts the stored number of a membership.
pub(super) fn membership_number(stored_number: i64) -> u32 {
    u32::try_from(stored_number).unwrap_or(u32::MAX)
}

/// Records that the membership of `member` has ended, and that the member's values are to be deleted.
pub(super) async fn record_departure(transaction: &mut Transaction, member: &Principal) -> Result<(), StoreError> {
    let RemovedMember { tenant, person, membership } = RemovedMember::of(member);
    query(
        "INSERT INTO team_departures (person, membership, tenant, is_forgotten) VALUES ($1, $2, $3, FALSE) \
         ON CONFLICT DO NOTHING",
    )
    .bind(person)
    .bind(membership)
    .bind(tenant)
    .execute(transaction)
    .await?;
    Ok(())
}

/// Ends all tokens, sessions and grants of `owner`, whose membership has ended.
pub(super) async fn end_access(transaction: &mut Transaction, owner: MemberIdentity<'_>) -> Result<(), StoreError> {
    for delete in [
        "DELETE FROM team_grants WHERE issuer = $1 AND subject = $2",
        "DELETE FROM team_tokens WHERE issuer = $1 AND subject = $2",
    ] {
        query(delete).bind(owner.issuer).bind(owner.subject).execute(transaction).await?;
    }
    Ok(())
}
