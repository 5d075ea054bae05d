//! Deletes the tokens of a team: those whose time is over, without their grants, and those that are revoked, with their
//! grants.
//!
//! A grant is what a user allowed an OAuth client. Its access tokens last for an hour, and the client gets new ones as
//! long as the grant lasts.
//!
//! A trigger of the database (`team_token_of_a_grant_revoked`) also deletes the grant of a deleted token. It takes the
//! deletion for a revocation if the token has not ended by the clock of the database. That clock can differ from the
//! clock of this program by minutes or hours, so nothing here relies on the trigger. Older replicas do.

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

/// Deletes `tokens`, which are revoked, and then their grants. Returns those that were still there.
pub(super) async fn revoke<'t>(
    transaction: &mut Transaction,
    tokens: &'t [TeamToken],
) -> Result<Vec<&'t TeamToken>, StoreError> {
    let mut revoked = Vec::with_capacity(tokens.len());
    for token in tokens {
        // Without its family, because the trigger would at once delete the grant and all other tokens of it: these
        // would then not be among the revoked ones.
        query("UPDATE team_tokens SET family = NULL WHERE id = $1").bind(&token.id).execute(transaction).await?;
        let deleted = query("DELETE FROM team_tokens WHERE id = $1").bind(&token.id).execute(transaction).await?;
        if deleted > 0 {
            revoked.push(token);
        }
    }
    for family in tokens.iter().filter_map(|token| token.family.as_ref()) {
        query("DELETE FROM team_grants WHERE family = $1").bind(family).execute(transaction).await?;
    }
    Ok(revoked)
}
