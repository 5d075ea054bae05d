//! Defines what happens to values that do not match a tool's schema, to invisible characters, and to tools that differ
//! from their pins (trusted definitions).

use serde::{Deserialize, Serialize};

words! {
    /// The treatment of a result whose structured content does not match the tool's output schema, or is missing. A
    /// result that the tool itself marks as an error need not match. If a result cannot be checked, it passes with a
    /// warning.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum OutputSchema {
        /// Forward it with a warning.
        #[default]
        Warn "warn",
        /// Replace it by an error result that names the mismatch.
        Reject "reject",
    }
}

words! {
    /// The treatment of invisible characters (tag characters, zero-width characters, bidi controls and similar ones) in
    /// the texts of a server's tools, prompts and resources, and in its instructions. Names, and everything that a call
    /// has to send back, stay unchanged in either case; so do pinned definitions.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Invisible {
        /// Remove them; see [`text::without_invisible`](crate::text::without_invisible).
        #[default]
        Remove "remove",
        /// Keep them.
        Keep "keep",
    }
}

words! {
    /// The treatment of arguments of a call that do not match the input schema of their tool. Arguments that cannot be
    /// checked (the schema is unusable, or the check takes too long) are always sent; the gate and the user see the
    /// same arguments.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ValidateArgs {
        /// Send them unchecked.
        #[default]
        Off "off",
        /// Send them, and add a warning to the result.
        Warn "warn",
        /// Do not send them: the call fails and names the mismatch.
        Strict "strict",
    }
}

words! {
    /// The treatment of a tool that differs from its pin, the definition that the host trusts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PinMode {
        /// No tool is pinned or compared.
        Off "off",
        /// A warning is reported, and the tool can be used.
        Warn "warn",
        /// A warning is reported, and the tool is in quarantine: no call of it is sent until a user approves it. The
        /// default.
        #[default]
        Enforce "enforce",
    }
}
