//! Tells the sender of a request who they are: the identity behind the token of the request, and its rights.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::SentBy;
use crate::rights::Right;

/// The principal behind a request.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// `local` for the user of the daemon's machine.
    tenant: String,
    /// `person` or `service`.
    kind: &'static str,
    /// The id, as in `GET /api/v1/members`.
    id: String,
    /// Who proved the identity.
    issuer: String,
    /// The identity at the issuer.
    subject: String,
    /// The name to show for it.
    name: String,
    groups: Vec<String>,
    role: &'static str,
    /// Its rights. Each route in this description names the right that it needs.
    #[schema(example = json!(["see", "use"]))]
    rights: Vec<&'static str>,
}

/// The principal that sends this request, and its rights.
#[utoipa::path(get, path = "/api/v1/me", tag = "me", responses((status = 200, body = Me)))]
pub(super) async fn get(SentBy(caller): SentBy) -> Json<Me> {
    let principal = caller.principal();
    Json(Me {
        tenant: principal.tenant().to_owned(),
        kind: principal.kind().word(),
        id: principal.key(),
        issuer: principal.issuer().to_owned(),
        subject: principal.subject().to_owned(),
        name: principal.name().to_owned(),
        groups: principal.groups().map(str::to_owned).collect(),
        role: principal.role().word(),
        rights: Right::ALL.into_iter().filter(|right| right.is_held_by(principal)).map(Right::word).collect(),
    })
}
