//! The codes of JSON-RPC errors, as JSON-RPC and MCP define them. Every crate of Toolrack that is not for tests takes
//! them from here.

/// The message is not JSON (JSON-RPC 2.0, 5.1).
pub const PARSE_ERROR: i64 = -32700;

/// The message is JSON, and not a request (JSON-RPC 2.0, 5.1).
pub const INVALID_REQUEST: i64 = -32600;

/// The other side does not have the method (JSON-RPC 2.0, 5.1).
pub const METHOD_NOT_FOUND: i64 = -32601;

/// The parameters do not fit the method (JSON-RPC 2.0, 5.1). Since MCP 2026-07-28, also: there is no such resource.
pub const INVALID_PARAMS: i64 = -32602;

/// The other side failed (JSON-RPC 2.0, 5.1).
pub const INTERNAL_ERROR: i64 = -32603;

/// The first of the codes that JSON-RPC leaves to implementations (JSON-RPC 2.0, 5.1).
pub const SERVER_ERROR: i64 = -32000;

/// There is no such resource (MCP 2025-11-25 and older: Server Features, Resources, Error Handling).
pub const RESOURCE_NOT_FOUND: i64 = -32002;

/// The headers of a request do not match its body (MCP 2026-07-28, Streamable HTTP).
pub const HEADER_MISMATCH: i64 = -32020;

/// The request needs a capability that the client did not declare (MCP 2026-07-28). The data names the capability.
pub const MISSING_CAPABILITY: i64 = -32021;

/// The server does not know the version of MCP in the request (MCP 2026-07-28). The data lists the versions it knows.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// The user must open pages before the request is sent again (MCP 2025-11-25: Client Features, Elicitation, URL
/// Elicitation Required Error).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// The user rejected the request (MCP 2025-11-25: Client Features, Sampling, Error Handling).
pub const REJECTED: i64 = -1;
