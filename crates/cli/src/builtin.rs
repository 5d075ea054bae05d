//! Provides `builtin`, the MCP server inside this program: read-only file tools below one folder, and a clock.
//!
//! With it, Toolrack is useful on a fresh machine, without Node, Python or a configuration. It is an ordinary MCP
//! server behind an in-process link, without any privilege that another server would not have. It must never change
//! anything, and never show what lies outside its folder.

mod clock;
mod fence;
mod files;
mod search;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use rmcp::{
    ErrorData, ServerHandler,
    handler::server::{tool::schema_for_output, wrapper::Parameters},
    model::{CallToolResult, ContentBlock, Implementation, MetaObject, ServerCapabilities, ServerConfig},
    tool, tool_handler, tool_router,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use fence::Fence;
use serde_json::Map;
use toolrack_host::{
    Desired, ServerName, ServerSpec,
    mcp::{Annotations, TEXT_IS_WHOLE},
    spec::Source,
};

use crate::native::native_server;

/// The name under which the server is configured.
pub(crate) const NAME: &str = "builtin";

/// Returns the built-in servers, for a user in `folder`.
pub(crate) fn desired_servers(folder: &Path) -> Desired {
    // Never fails: the name is a valid one.
    let Ok(name) = ServerName::new(NAME) else {
        return Desired::new();
    };
    let folder = folder.to_owned();
    let server = native_server(NAME, move || Builtin::new(folder.clone()));
    let mut spec = ServerSpec::native(server);
    spec.source = Source { scope: "built in".to_owned(), path: None };
    Desired::from([(name, spec)])
}

/// Returns the server's tools, without a connection.
pub(crate) fn tools() -> Vec<rmcp::model::Tool> {
    Builtin::tool_router().list_all()
}

/// Returns the annotations of the tool `name`.
pub(crate) fn annotations_of(name: &str) -> Option<Annotations> {
    let tool = tools().into_iter().find(|tool| tool.name == name)?;
    // `rmcp` and the host have types of their own for the same JSON.
    tool.annotations.and_then(|hints| serde_json::from_value(serde_json::to_value(hints).ok()?).ok())
}

/// The MCP server. Each connection gets a value of its own.
#[derive(Clone, Debug)]
pub(crate) struct Builtin {
    fence: Arc<Fence>,
}

impl Builtin {
    /// Creates a server that shows only the files below `folder`.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { fence: Arc::new(Fence::new(folder)) }
    }

    /// Runs `work` on a thread for blocking work: a slow disk must not hold up anything else.
    ///
    /// If the returned future is dropped, `work` still runs to its end, or to a limit of its own (such as that of a
    /// search). Its result is discarded.
    async fn run_blocking<T, F>(&self, work: F) -> Result<Result<T, files::FileError>, ErrorData>
    where
        T: Send + 'static,
        F: FnOnce(&Fence) -> Result<T, files::FileError> + Send + 'static,
    {
        let fence = Arc::clone(&self.fence);
        tokio::task::spawn_blocking(move || work(&fence))
            .await
            .map_err(|_| ErrorData::internal_error("the file tool failed", None))
    }
}

/// The folder to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct FolderArguments {
    /// A folder, relative to the working folder. Default: the working folder itself.
    #[serde(default = "working_folder")]
    path: String,
}

/// The file to read, and how much of it.
#[derive(Debug, Deserialize, JsonSchema)]
struct ReadArguments {
    /// A file, relative to the working folder.
    path: String,
    /// Return only this many lines from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    head: Option<u32>,
    /// Return only this many lines from the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    tail: Option<u32>,
}

/// The file or folder to describe.
#[derive(Debug, Deserialize, JsonSchema)]
struct InfoArguments {
    /// A file or folder, relative to the working folder.
    path: String,
}

/// The pattern to search for, and the folder to search.
#[derive(Debug, Deserialize, JsonSchema)]
struct SearchArguments {
    /// A glob such as `*.rs` (any file of that name) or `src/**/*.rs` (a path below the folder searched). Without any
    /// of `*?[{` it finds every name that contains it.
    pattern: String,
    /// The folder to search, relative to the working folder. Default: the working folder itself.
    #[serde(default = "working_folder")]
    path: String,
}

/// Which clock to read.
#[derive(Debug, Deserialize, JsonSchema)]
struct TimeArguments {
    /// `UTC`, `local`, or an offset such as `+02:00`. Default: `local`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    timezone: Option<String>,
}

fn working_folder() -> String {
    ".".to_owned()
}

#[tool_router]
impl Builtin {
    /// Lists a folder: one line per entry, as `[DIR] name`, `[FILE] name  size` or `[LINK] name`.
    #[tool(
        output_schema = schema_for_output::<files::Listing>(),
        annotations(title = "List a folder", read_only_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    async fn list_directory(
        &self,
        Parameters(FolderArguments { path }): Parameters<FolderArguments>,
    ) -> Result<CallToolResult, ErrorData> {
        let listing = self.run_blocking(move |fence| files::list(fence, &path)).await?;
        Ok(structured_result(listing, files::Listing::lines))
    }

    /// Reads a text file, whole or only its first or last lines. At most 1 MiB is shown.
    #[tool(annotations(
        title = "Read a text file",
        read_only_hint = true,
        idempotent_hint = true,
        open_world_hint = false
    ))]
    async fn read_text_file(
        &self,
        Parameters(ReadArguments { path, head, tail }): Parameters<ReadArguments>,
    ) -> Result<CallToolResult, ErrorData> {
        let part = match (head, tail) {
            (None, None) => files::Part::Whole,
            (Some(lines), None) => files::Part::Head(lines),
            (None, Some(lines)) => files::Part::Tail(lines),
            (Some(_), Some(_)) => return Ok(error_result(&files::FileError::HeadAndTail)),
        };
        let text = self.run_blocking(move |fence| files::read(fence, &path, part)).await?;
        Ok(match text {
            Err(why) => error_result(&why),
            Ok(text) => {
                let mut content = vec![ContentBlock::text(text.text)];
                content.extend(text.note.map(ContentBlock::text));
                CallToolResult::success(content)
            }
        })
    }

    /// Tells kind, size, times and permissions of a file or folder.
    #[tool(
        output_schema = schema_for_output::<files::Info>(),
        annotations(title = "About a file", read_only_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    async fn file_info(
        &self,
        Parameters(InfoArguments { path }): Parameters<InfoArguments>,
    ) -> Result<CallToolResult, ErrorData> {
        let info = self.run_blocking(move |fence| files::info(fence, &path)).await?;
        Ok(structured_result(info, files::Info::lines))
    }

    /// Finds files and folders by name, down to 32 folders deep and at most 1,000 of them. Links are not followed.
    #[tool(
        output_schema = schema_for_output::<search::Found>(),
        annotations(title = "Find files", read_only_hint = true, idempotent_hint = true, open_world_hint = false)
    )]
    async fn search_files(
        &self,
        Parameters(SearchArguments { pattern, path }): Parameters<SearchArguments>,
        context: rmcp::service::RequestContext<rmcp::RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let cancelled = context.ct;
        let search_result = self
            .run_blocking(move |fence| search::search(fence, &path, &pattern, &|| cancelled.is_cancelled()))
            .await?;
        Ok(structured_result(search_result, search::Found::lines))
    }

    /// Tells the time of this machine.
    #[tool(
        output_schema = schema_for_output::<clock::Time>(),
        annotations(title = "What time is it", read_only_hint = true, open_world_hint = false)
    )]
    async fn current_time(
        &self,
        Parameters(TimeArguments { timezone }): Parameters<TimeArguments>,
    ) -> Result<CallToolResult, ErrorData> {
        Ok(match clock::time_in(chrono::Utc::now(), timezone.as_deref().unwrap_or("local")) {
            Ok(time) => structured_result::<_, clock::BadTimezone>(Ok(time), clock::Time::line),
            Err(why) => error_result(&why),
        })
    }
}

#[tool_handler]
impl ServerHandler for Builtin {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("toolrack-builtin", env!("CARGO_PKG_VERSION")).with_title("Toolrack's own tools"),
            )
            .with_instructions(
                "Read-only tools for the files below the working folder, and a clock. Paths are relative to the \
                 working folder; nothing outside it can be seen.",
            )
    }
}

/// Returns a result that a user and a model read as `text`, and a program as structured content.
fn structured_result<T: Serialize, E: std::fmt::Display>(
    result: Result<T, E>,
    text: impl FnOnce(&T) -> String,
) -> CallToolResult {
    match result {
        Err(why) => error_result(&why),
        Ok(value) => {
            let mut result = CallToolResult::success(vec![ContentBlock::text(text(&value))]);
            result.structured_content = serde_json::to_value(&value).ok();
            // Says that the text covers all of the structured content, so that a model gets only the text.
            result.meta = Some(MetaObject(Map::from_iter([(TEXT_IS_WHOLE.to_owned(), true.into())])));
            result
        }
    }
}

fn error_result(why: &impl std::fmt::Display) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(why.to_string())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_that_it_only_reads() {
        let tools = Builtin::tool_router().list_all();
        assert_eq!(
            tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(),
            ["current_time", "file_info", "list_directory", "read_text_file", "search_files"]
        );
        for tool in tools {
            let schema = serde_json::to_string(&tool.input_schema).unwrap();
            assert!(!schema.contains("null"), "each field has one type: {schema}");
            let annotations = tool.annotations.unwrap();
            assert_eq!(annotations.read_only_hint, Some(true), "{}", tool.name);
            assert_eq!(annotations.open_world_hint, Some(false), "{}", tool.name);
            assert!(tool.description.is_some(), "{}", tool.name);
        }
    }
}
