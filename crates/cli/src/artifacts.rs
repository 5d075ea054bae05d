//! Provides an MCP server inside this program. With it, a model reads the results of calls that were too long for it,
//! in pieces.

use rmcp::{
    ErrorData, ServerHandler,
    handler::server::wrapper::Parameters,
    model::{CallToolResult, ContentBlock, ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::Deserialize;
use toolrack_store::ArtifactFolder;

/// The default and the largest size of a piece, in bytes.
const DEFAULT_BYTES: u32 = 20_000;
const MAX_BYTES: u32 = 100_000;

/// The MCP server. Each connection gets a value of its own.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactServer {
    folder: ArtifactFolder,
}

impl ArtifactServer {
    /// A server of the results in `folder`.
    pub(crate) fn new(folder: ArtifactFolder) -> Self {
        Self { folder }
    }
}

/// Which result, and how much of it.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadArguments {
    /// The handle, as the cut result names it.
    handle: String,
    /// The offset of the first byte. Default: 0.
    #[serde(default)]
    from: u64,
    /// How many bytes, at most 100000. Default: 20000.
    #[serde(default = "default_bytes")]
    bytes: u32,
}

fn default_bytes() -> u32 {
    DEFAULT_BYTES
}

#[tool_router]
impl ArtifactServer {
    #[tool(
        description = "Reads a piece of a result that was too long and is kept as an artifact.",
        annotations(title = "Read artifact", read_only_hint = true, open_world_hint = false)
    )]
    async fn read_artifact(
        &self,
        Parameters(ReadArguments { handle, from, bytes }): Parameters<ReadArguments>,
    ) -> Result<CallToolResult, ErrorData> {
        // A piece has at least 4 bytes, so that it contains at least one character of UTF-8.
        let limit = usize::try_from(bytes.clamp(4, MAX_BYTES)).unwrap_or(usize::MAX);
        Ok(match self.folder.read(&handle, from, limit).await {
            Ok(piece) => {
                let head = format!("[bytes {} to {} of {}]\n", piece.from, piece.to, piece.total);
                CallToolResult::success(vec![ContentBlock::text(head + &piece.text)])
            }
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        })
    }
}

#[tool_handler]
impl ServerHandler for ArtifactServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}
