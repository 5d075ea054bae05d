//! Describes servers that members of a team add for themselves.

use crate::egress::Egress;

/// The member of a team who has added a server for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedBy {
    /// The [key](crate::Principal::key) of the member. It is part of the
    /// [fingerprint](super::ServerSpec::fingerprint), so that data stored about one member's server is never used for a
    /// server of another member.
    pub member: String,
    /// The rules for connections to the server, instead of those of the host.
    pub egress: Egress,
}
