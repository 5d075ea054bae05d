//! Reads the limits of a tenant from the team file: tables of quotas, such as `calls_per_day = 1000`. Each quota bounds
//! how much of a quantity may be used in a window of time.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use toolrack_host::{Quota, QuotaSet};

/// The limits of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The quotas of all members together.
    pub all: QuotaSet,
    /// The quotas of each member.
    pub each_member: QuotaSet,
}

impl Limits {
    /// Returns whether any quota limits this quantity.
    #[must_use]
    pub fn bounds(&self, quantity: toolrack_host::Quantity) -> bool {
        self.all.iter().chain(self.each_member.iter()).any(|quota| quota.quantity() == quantity)
    }
}

/// Reads a table of quotas. Its field `each_member` is itself a table of quotas.
impl<'de> Deserialize<'de> for Limits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LimitsVisitor;
        impl<'de> Visitor<'de> for LimitsVisitor {
            type Value = Limits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of quotas")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Limits, A::Error> {
                let mut limits = Limits::default();
                while let Some(name) = table.next_key::<String>()? {
                    if name == "each_member" {
                        limits.each_member = table.next_value()?;
                    } else {
                        limits.all.add(Quota::read(&name, table.next_value()?).map_err(A::Error::custom)?);
                    }
                }
                Ok(limits)
            }
        }
        deserializer.deserialize_map(LimitsVisitor)
    }
}
