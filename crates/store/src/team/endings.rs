//! Deletes the tokens of a team: those whose time is over, without their grants, and those that are revoked, with their
//! grants.
//!
//! A grant is what a user allowed an OAuth client. Its access tokens last for an hour, and the client gets new ones as
//! long as the grant lasts.
//!
//! A trigger of the database (`team_token_of_a_grant_revoked`) also deletes the grant of a deleted token. It takes the
//! deletion for a revocation if the token has not ended by the clock of the database, which can be minutes or hours
//! apart from the clock of this program. So nothing here relies on the trigger; older replicas do.

use super::TeamToken;
use crate::{
    StoreError,
    database::{Transaction, query},
};

/// Deletes the tokens that have ended at `now`, in seconds since 1970. Their grants stay.
pub(super) async fn delete_expired(transaction: &mut Transaction, now: i64) -> Result<(), StoreError> {
    for statement in [
        // Without its family, a token belongs to no grant, so the trigger finds none to delete.
        "UPDATE team_tokens SET family = NULL WHERE ends_at <= $1 AND family IS NOT NULL",
        "DELETE FROM team_tokens WHERE ends_at <= $1",
    ] {
        query(statement).bind(now).execute(transaction).await?;
    }
    Ok(())
}

/// Deletes `token`, which is revoked, and its grant. Returns whether the token was still there.
pub(super) async fn revoke(transaction: &mut Transaction, token: &TeamToken) -> Result<bool, StoreError> {
    let deleted = query("DELETE FROM team_tokens WHERE id = $1").bind(&token.id).execute(transaction).await?;
    if let Some(family) = &token.family {
        query("DELETE FROM team_grants WHERE family = $1").bind(family).execute(transaction).await?;
    }
    Ok(deleted > 0)
}
