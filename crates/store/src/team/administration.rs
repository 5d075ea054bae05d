//! Changes of members by an administrator of their tenant. Each tenant keeps at least one administrator, so that its
//! members do not need the operator of the team.

use chrono::Utc;
use toolrack_host::{Caller, Principal, principal::Role};

use super::{MemberIdentity, find_member, find_role_by_admin, removed};
use crate::{
    StoreError, TeamStore,
    audit::{Entry, append},
    database::{Transaction, query, query_scalar},
    now,
};

/// A change of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChange {
    /// The member has this role from now on, even if the provider names another one.
    Role(Role),
    /// The member is removed with its tokens and grants.
    Remove,
}

/// The outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberChangeOutcome {
    /// The change is made.
    Done,
    /// The tenant has no such member.
    NoMember,
    /// The tenant would have no administrator any more: nothing was changed.
    LastAdmin,
}

impl TeamStore {
    /// Changes a member of `tenant`, unless the tenant would lose its last administrator, and records the change in the
    /// [audit log](crate::audit), in one transaction. The change is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn change_member(
        &self,
        tenant: &str,
        owner: MemberIdentity<'_>,
        change: MemberChange,
        caller: &Caller,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let operation = "changing a member of the team";
        let mut transaction = self.begin_durably(operation).await?;
        let member = find_member(&mut transaction, owner).await?;
        let Some(member) = member.filter(|member| member.tenant() == tenant) else {
            return Ok(MemberChangeOutcome::NoMember);
        };
        let stays_admin = change == MemberChange::Role(Role::Admin);
        if member.role() == Role::Admin && !stays_admin {
            let admin_count = count_admins(&mut transaction, tenant).await?;
            if admin_count <= 1 {
                return Ok(MemberChangeOutcome::LastAdmin);
            }
        }
        let role_by_admin = find_role_by_admin(&mut transaction, owner, tenant).await?;
        let entry = match change {
            MemberChange::Role(role) if role_by_admin == Some(role) => return Ok(MemberChangeOutcome::Done),
            // Stores the role even if it is the same as before, because the provider no longer decides it from now on.
            MemberChange::Role(role) => {
                set_role_by_admin(&mut transaction, owner, role).await?;
                Entry::of_member("member_changed", caller, &member.with_role(role))
            }
            MemberChange::Remove => {
                remove(&mut transaction, &member).await?;
                Entry::of_member("member_removed", caller, &member)
            }
        };
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await?;
        Ok(MemberChangeOutcome::Done)
    }

    /// Removes a member and all its tokens, and records that in the audit log, in one transaction. Returns whether the
    /// member existed. The change is on the disk when this returns.
    ///
    /// # Errors
    /// [`StoreError`] when the database fails.
    pub async fn remove_member(&self, owner: MemberIdentity<'_>, caller: &Caller) -> Result<bool, StoreError> {
        let operation = "removing a member of the team";
        let mut transaction = self.begin_durably(operation).await?;
        let Some(member) = find_member(&mut transaction, owner).await? else { return Ok(false) };
        remove(&mut transaction, &member).await?;
        let entry = Entry::of_member("member_removed", caller, &member);
        append(&mut transaction, &[(Utc::now().timestamp_millis(), entry)]).await?;
        transaction.commit().await?;
        Ok(true)
    }
}

async fn count_admins(transaction: &mut Transaction, tenant: &str) -> Result<i64, StoreError> {
    query_scalar("SELECT count(*) FROM team_members WHERE tenant = $1 AND role = $2")
        .bind(tenant)
        .bind(Role::Admin.word())
        .fetch_one(transaction)
        .await
}

/// Stores the role that an administrator gives to a member.
async fn set_role_by_admin(
    transaction: &mut Transaction,
    owner: MemberIdentity<'_>,
    role: Role,
) -> Result<(), StoreError> {
    query(
        "UPDATE team_members SET role = $1, role_is_given = TRUE, changed_at = $2 WHERE issuer = $3 AND subject = $4",
    )
    .bind(role.word())
    .bind(now())
    .bind(owner.issuer)
    .bind(owner.subject)
    .execute(transaction)
    .await?;
    Ok(())
}

/// Removes a member. Because of their foreign keys, the database then also removes the member's tokens and grants.
async fn remove(transaction: &mut Transaction, member: &Principal) -> Result<(), StoreError> {
    removed::record_departure(transaction, member).await?;
    query("DELETE FROM team_members WHERE issuer = $1 AND subject = $2")
        .bind(member.issuer())
        .bind(member.subject())
        .execute(transaction)
        .await?;
    Ok(())
}
