//! The versions of MCP that the gateway speaks, and the names of fields in `_meta` of 2026-07-28.

/// The version of the modern era, in which each request carries its own state.
pub(super) const MODERN_VERSION: &str = "2026-07-28";

/// The versions of the legacy era, which begin a session with a handshake (`initialize`), newest first.
pub(super) const LEGACY_VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The only version in which a client may send several messages in one array.
pub(super) const BATCH_VERSION: &str = LEGACY_VERSIONS[2];

/// All supported versions, newest first.
pub(super) const VERSIONS: [&str; 5] =
    [MODERN_VERSION, LEGACY_VERSIONS[0], LEGACY_VERSIONS[1], LEGACY_VERSIONS[2], LEGACY_VERSIONS[3]];

pub(super) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const META_CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const META_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const META_SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
pub(super) const META_SERVER: &str = "io.modelcontextprotocol/serverInfo";
