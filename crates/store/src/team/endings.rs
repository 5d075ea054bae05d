//! Deletes the tokens of a team. Expired tokens are deleted without their grants, revoked tokens with their grants.
//!
//! A grant is a user's permission for an OAuth client. Its access tokens last for an hour, and the client gets new ones
//! as long as the grant lasts.
//!
//! A trigger of the database (`team_token_of_a_grant_revoked`) deletes the grant of a deleted token, unless the token
//! has expired by the clock of the database. That clock can differ from the clock of this program by minutes or hours,
//! so this file does not rely on the trigger. Older replicas do.

use super::TeamToken;
use crate::{
    StoreError,
    database::{Transaction, query},
};

/// Deletes the tokens that have expired at `now`, in seconds since 1970. Their grants stay.
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

/// Deletes `tokens`, and then their grants. Returns the tokens that the store still had.
pub(super) async fn revoke<'t>(
    transaction: &mut Transaction,
    tokens: &'t [TeamToken],
) -> Result<Vec<&'t TeamToken>, StoreError> {
    let mut deleted_tokens = Vec::with_capacity(tokens.len());
    for token in tokens {
        // Removes the family first. Otherwise the trigger would delete the grant with all its other tokens, and those
        // would be missing in the result.
        query("UPDATE team_tokens SET family = NULL WHERE id = $1").bind(&token.id).execute(transaction).await?;
        let deleted_rows = query("DELETE FROM team_tokens WHERE id = $1").bind(&token.id).execute(transaction).await?;
        if deleted_rows > 0 {
            deleted_tokens.push(token);
        }
    }
    for family in tokens.iter().filter_map(|token| token.family.as_ref()) {
        query("DELETE FROM team_grants WHERE family = $1").bind(family).execute(transaction).await?;
    }
    Ok(deleted_tokens)
}
