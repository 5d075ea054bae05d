//! Members who were removed: what they gave is in the databases of their tenants, from which it is still to be deleted.

use sqlx::{Sqlite, Transaction};
use toolrack_host::Principal;

use crate::{StoreError, TeamStore, rows::from_row};

/// A member who was removed, or who moved to another tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedMember {
    /// The tenant.
    pub tenant: String,
    /// The [key](Principal::key) of the member.
    pub member: String,
}

from_row!(RemovedMember { tenant, member });

impl TeamStore {
    /// The members whose values are still to be deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn removed_members(&self) -> Result<Vec<RemovedMember>, StoreError> {
        sqlx::query_as("SELECT tenant, member FROM team_removed ORDER BY tenant, member")
            .fetch_all(&self.pool)
            .await
            .map_err(self.error("reading the removed members of the team"))
    }

    /// The values of this member have been deleted.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn forgot_member(&self, removed: &RemovedMember) -> Result<(), StoreError> {
        sqlx::query("DELETE FROM team_removed WHERE tenant = ? AND member = ?")
            .bind(&removed.tenant)
            .bind(&removed.member)
            .execute(&self.pool)
            .await
            .map_err(self.error("writing the removed members of the team"))?;
        Ok(())
    }
}

/// Notes that the values of `member` are to be deleted.
pub(super) async fn note(
    transaction: &mut Transaction<'static, Sqlite>,
    member: &Principal,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO team_removed (tenant, member) VALUES (?, ?) ON CONFLICT DO NOTHING")
        .bind(member.tenant())
        .bind(member.key())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
