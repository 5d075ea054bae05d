//! Changes that an administrator makes to the members of their own tenant.

use chrono::Utc;
use sqlx::{Sqlite, Transaction};
use toolrack_host::{Caller, Principal, principal::Role};

use super::{TokenOwner, given_role, member, removed};
use crate::{
    StoreError, TeamStore,
    audit::{Entry, append},
    now,
};

/// A change of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChange {
    /// The member has this role from now on, whatever its provider says.
    Role(Role),
    /// The member is removed with its tokens and grants.
    Remove,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChanged {
    /// The change counts.
    Done,
    /// The tenant has no such member.
    NoMember,
    /// The tenant would have no administrator any more: nothing was changed.
    LastAdmin,
}

impl TeamStore {
    /// Changes a member of `tenant`, unless its last administrator would go by that, and records the change in the [audit
    /// log](crate::audit), in one transaction.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn change_member(
        &self,
        tenant: &str,
        owner: TokenOwner<'_>,
        change: MemberChange,
        caller: &Caller,
    ) -> Result<MemberChanged, StoreError> {
        let doing = "changing a member of the team";
        let mut transaction = self.begin(doing).await?;
        let found = member(&mut transaction, owner).await.map_err(self.error(doing))?;
        let Some(found) = found.filter(|found| found.tenant() == tenant) else { return Ok(MemberChanged::NoMember) };
        let stays_admin = change == MemberChange::Role(Role::Admin);
        if found.role() == Role::Admin && !stays_admin {
            let admins = count_admins(&mut transaction, tenant).await.map_err(self.error(doing))?;
            if admins <= 1 {
                return Ok(MemberChanged::LastAdmin);
            }
        }
        let given = given_role(&mut transaction, owner, tenant).await.map_err(self.error(doing))?;
        let entry = match change {
            MemberChange::Role(role) if given == Some(role) => return Ok(MemberChanged::Done),
            // Also where the role is the same: the provider no longer decides about it.
            MemberChange::Role(role) => {
                give_role(&mut transaction, owner, role).await.map_err(self.error(doing))?;
                Entry::of_member("member_changed", caller, &found.with_role(role))
            }
            MemberChange::Remove => {
                remove(&mut transaction, &found).await.map_err(self.error(doing))?;
                Entry::of_member("member_removed", caller, &found)
            }
        };
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await.map_err(self.error(doing))?;
        transaction.commit().await.map_err(self.error(doing))?;
        Ok(MemberChanged::Done)
    }

    /// Removes a member and all its tokens, and records that in the audit log, in one transaction. Returns whether
    /// there was one.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn remove_member(&self, owner: TokenOwner<'_>, caller: &Caller) -> Result<bool, StoreError> {
        let doing = "removing a member of the team";
        let mut transaction = self.begin(doing).await?;
        let Some(member) = member(&mut transaction, owner).await.map_err(self.error(doing))? else { return Ok(false) };
        remove(&mut transaction, &member).await.map_err(self.error(doing))?;
        let entry = Entry::of_member("member_removed", caller, &member);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await.map_err(self.error(doing))?;
        transaction.commit().await.map_err(self.error(doing))?;
        Ok(true)
    }
}

async fn count_admins(transaction: &mut Transaction<'static, Sqlite>, tenant: &str) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("SELECT count(*) FROM team_members WHERE tenant = ? AND role = ?")
        .bind(tenant)
        .bind(Role::Admin.word())
        .fetch_one(&mut **transaction)
        .await
}

async fn give_role(
    transaction: &mut Transaction<'static, Sqlite>,
    owner: TokenOwner<'_>,
    role: Role,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE team_members SET role = ?, role_is_given = 1, changed_at = ? WHERE issuer = ? AND subject = ?")
        .bind(role.word())
        .bind(now())
        .bind(owner.issuer)
        .bind(owner.subject)
        .execute(&mut **transaction)
        .await?;
    Ok(())
}

/// Its tokens and grants go with it, by their foreign keys.
async fn remove(transaction: &mut Transaction<'static, Sqlite>, member: &Principal) -> Result<(), sqlx::Error> {
    removed::note(transaction, member).await?;
    sqlx::query("DELETE FROM team_members WHERE issuer = ? AND subject = ?")
        .bind(member.issuer())
        .bind(member.subject())
        .execute(&mut **transaction)
        .await?;
    Ok(())
}
