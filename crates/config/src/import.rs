//! Imports the servers that other programs on this machine have configured, in Toolrack's own format.
//!
//! [`look()`] reads the files of eleven programs and offers every server that it finds, ready for
//! [`edit::add`](crate::edit::add). It changes nothing, resolves no placeholder, starts no program, and skips special
//! files such as pipes.
//!
//! The import reads each field as the program does that owns the file: `timeout` is in milliseconds in some files and
//! in seconds in others, and in one `url` means SSE. It leaves out parts that it cannot convert, and lists them in
//! [`Offer::notes`]. It skips a bad entry or a bad file, reports it as a [`Problem`], and uses all others. An entry is
//! also bad if a name occurs twice in it, because some programs use the first value and others the last.

mod client;
mod env_file;
mod own;
mod places;
mod seal;
mod tables;
mod texts;
mod translate;

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use serde_json::Value as Json;

use crate::{
    dialect,
    document::Document,
    entry::{Decoded, Report, decode, report_duplicates},
    environment::Environment,
    node::{Member, Node, Value},
    problem::Problem,
    redact::redact,
    trust::hash,
};
pub use client::Client;
pub(crate) use own::is_gateway;
use places::SourceFile;
pub(crate) use places::{files_of_the_project, files_of_the_user};
pub use seal::{Sealed, SealedSecret, has_secrets};
use translate::Translated;

/// The size of the largest file of the user that is read: 64 MiB. Claude Code stores its history in the file with its
/// servers.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// A server that another program has configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The program.
    pub client: Client,
    /// The program's file.
    pub path: PathBuf,
    /// The line of the entry in that file, from 1.
    pub line: Option<usize>,
    /// The name of the server. If the program's own name is invalid in Toolrack, this is a similar valid one, and a
    /// note says so.
    pub name: String,
    /// The entry in Toolrack's own form, ready for [`edit::add`](crate::edit::add). Its placeholders are in Toolrack's
    /// syntax and are not resolved.
    pub entry: Json,
    /// The entry with its secrets hidden; see [`redact()`](crate::redact).
    pub view: Json,
    /// The [`content_hash`](crate::trust::content_hash) of [`Self::entry`].
    pub hash: String,
    /// Whether the entry comes from a file in the project, so that the user has to agree to it.
    pub from_project: bool,
    /// The only folder for which the user has configured the server; `None` if it is for every folder, or from a
    /// project's file.
    pub private_to: Option<PathBuf>,
    /// Notes for the user on parts that Toolrack has translated or left out. Safe to print, and without secrets.
    pub notes: Vec<String>,
}

/// The result of [`look()`].
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The servers, in the order of `clients`. Among the entries of one program, an entry that overrides another one
    /// comes first.
    pub offers: Vec<Offer>,
    /// The problems of files and entries.
    pub problems: Vec<Problem>,
    /// The files that exist and were read.
    pub files: Vec<PathBuf>,
}

impl Found {
    /// Returns the offers called `name`.
    pub fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Offer> {
        self.offers.iter().filter(move |offer| offer.name == name)
    }
}

/// Reads the servers that `clients` have configured for the user of `environment` and for the project of `cwd`.
///
/// Reads the files that each program documents for Linux and macOS. Honours `CLAUDE_CONFIG_DIR`, `CODEX_HOME`,
/// `OPENCODE_CONFIG` and `XDG_CONFIG_HOME`. Does not read a project's `.mcp.json`, which Toolrack itself reads. Never
/// fails: leaves out unusable files and entries, and reports them. Reads files of the user of up to 64 MiB, and files
/// of the project of up to 4 MiB.
#[must_use]
pub fn look(environment: &Environment, cwd: &Path, clients: &[Client]) -> Found {
    let mut found = Found::default();
    let mut read_files = BTreeSet::new();
    for &client in clients {
        for file in places::files_of(client, environment, cwd) {
            // One file can be found twice: the home folder can be the project, and a file can be a link to another.
            let identity = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
            if read_files.insert((client.id(), identity)) {
                found.add(&file);
            }
        }
    }
    found
}

/// Reads `text` as a project's file of `client`, and returns its servers; see [`fuzzing`](crate::fuzzing).
#[cfg(feature = "fuzzing")]
pub(crate) fn read(client: Client, text: &str) -> Found {
    let mut found = Found::default();
    let path = PathBuf::from(if client == Client::Codex { "/project/config.toml" } else { "/project/mcp.json" });
    let folder = PathBuf::from("/project");
    let file = SourceFile {
        client,
        path,
        folder: folder.clone(),
        cwd: folder.clone(),
        home: Some(folder),
        from_project: true,
    };
    found.add_document(&file, &Document::new(Some(file.path.clone()), text));
    found
}

impl Found {
    /// Adds the servers of `file`, if it exists.
    fn add(&mut self, file: &SourceFile) {
        // A parsed file takes many times its size, and a repository could bring a large one.
        let result = match file.from_project {
            true => Document::read(&file.path),
            false => Document::read_up_to(&file.path, MAX_BYTES),
        };
        match result {
            Ok(Some(document)) => {
                self.files.push(file.path.clone());
                self.add_document(file, &document);
            }
            Ok(None) => {}
            Err(problem) => self.problems.push(*problem),
        }
    }

    /// Adds the servers of `file`, whose content is `document`.
    fn add_document(&mut self, file: &SourceFile, document: &Document) {
        let root = match dialect::parse(document) {
            Ok(Some(root)) => root,
            Ok(None) => return,
            Err(problem) => return self.problems.push(*problem),
        };
        let origin = Origin { file, inputs: inputs(&root), disabled_servers: disabled_servers(file, &root) };
        let mut private_names = BTreeSet::new();
        for servers_object in servers_objects(file, &root) {
            let Some(members) = servers_object.node.members() else {
                let problem = Problem::error(format!("`{}` must be an object of servers", servers_object.name));
                self.problems.push(document.locate(problem, servers_object.node.span.clone()));
                continue;
            };
            let names_given_twice = repeated_names(members);
            for member in members {
                // Private servers of a nearer folder come first, and override servers of the same name in a farther
                // folder.
                if servers_object.private_to.is_some() && !private_names.insert(&member.name) {
                    continue;
                }
                if names_given_twice.contains(&*member.name) {
                    self.report_repeated(document, member);
                } else {
                    self.offer(&origin, document, member, servers_object.private_to);
                }
            }
        }
    }

    /// Reports an entry if another one in the same object has the same name. Programs differ in which of the two they
    /// use, so neither is offered.
    fn report_repeated(&mut self, document: &Document, raw_entry: &Member) {
        let mut report = Report::new(Some(document), &raw_entry.name);
        let problem = Problem::error("the file has several entries of this name");
        report.add(problem.hint("keep one; until then none is imported"), &raw_entry.name_span);
        self.problems.extend(report.into_problems());
    }

    /// Offers the server of the entry `raw_entry`, or reports why it cannot be imported.
    fn offer(&mut self, origin: &Origin<'_>, document: &Document, raw_entry: &Member, private_to: Option<&Path>) {
        let mut report = Report::new(Some(document), &raw_entry.name);
        if is_from_extension(origin.file.client, &raw_entry.node) {
            let problem = Problem::warning("an extension of Zed provides this server, and its entry has no command");
            report.add(problem.hint("add the server itself with `toolrack add`"), &raw_entry.name_span);
            return self.problems.extend(report.into_problems());
        }
        report_duplicates(&raw_entry.node, &mut report);
        if report.has_errors() {
            return self.problems.extend(report.into_problems());
        }
        let Some(Translated { entry: raw_entry, notes }) = translate::entry(origin, raw_entry, &mut report) else {
            return self.problems.extend(report.into_problems());
        };
        match decode(&raw_entry, &mut report) {
            // Toolrack's own gateway is not offered: Toolrack would become its own server.
            Decoded::Server(_) if is_gateway(&raw_entry.node.to_json()) => {}
            Decoded::Server(spec) => {
                self.offers.push(Offer {
                    client: origin.file.client,
                    path: origin.file.path.clone(),
                    line: document.line_of(raw_entry.name_span.start),
                    name: raw_entry.name,
                    hash: hash(&raw_entry.node),
                    entry: raw_entry.node.to_json(),
                    view: redact(&spec),
                    from_project: origin.file.from_project,
                    private_to: private_to.map(Path::to_owned),
                    notes,
                });
            }
            Decoded::Switch(_) => {
                let problem = Problem::warning("this only enables or disables a server that is configured elsewhere");
                report.add(problem.hint("there is nothing to import"), &raw_entry.name_span);
                self.problems.extend(report.into_problems());
            }
            Decoded::Broken => self.problems.extend(report.into_problems()),
        }
    }
}

/// The file that an entry comes from, and the settings of the file that concern the entry.
#[derive(Debug)]
struct Origin<'a> {
    file: &'a SourceFile,
    /// The inputs that VS Code asks the user for.
    inputs: Vec<Input<'a>>,
    /// The names of disabled servers, each with the setting of the file that disables it.
    disabled_servers: Vec<(&'a str, &'static str)>,
}

/// An input that VS Code asks the user for.
#[derive(Debug)]
struct Input<'a> {
    id: &'a str,
    description: &'a str,
    /// Whether VS Code hides the text that the user types.
    is_secret: bool,
    /// The value that VS Code proposes; empty if it proposes none.
    default: &'a str,
}

/// An object of servers in a file.
struct ServersObject<'a> {
    /// The path of its key in the file, for messages.
    name: String,
    node: &'a Node,
    /// The one folder in which its servers are used; `None` for every folder.
    private_to: Option<&'a Path>,
}

/// Returns the objects of servers in a file with this `root`. Claude Code's objects for a single folder come first.
fn servers_objects<'a>(file: &'a SourceFile, root: &'a Node) -> Vec<ServersObject<'a>> {
    let object_at = |path: &[&str]| {
        let node = path.iter().try_fold(root, |node, key| Some(&node.get(key)?.node))?;
        let is_present = !matches!(node.value, Value::Null);
        is_present.then(|| ServersObject { name: path.join("."), node, private_to: None })
    };
    match file.client {
        Client::ClaudeCode => {
            let private_objects = file.cwd.ancestors().filter_map(|folder| {
                let node = &claude_project(root, folder)?.get("mcpServers")?.node;
                Some(ServersObject { name: "mcpServers".to_owned(), node, private_to: Some(folder) })
            });
            private_objects.chain(object_at(&["mcpServers"])).collect()
        }
        Client::VsCode => {
            // In VS Code's settings, a dot in a key stands for one level of nesting (`mcp.servers`).
            [object_at(&["servers"]), object_at(&["mcp", "servers"]), object_at(&["mcp.servers"])]
                .into_iter()
                .flatten()
                .collect()
        }
        Client::Codex => object_at(&["mcp_servers"]).into_iter().collect(),
        Client::Zed => object_at(&["context_servers"]).into_iter().collect(),
        // Version 2 nests the servers one level deeper; a reader of version 1 would take that level for a server.
        Client::OpenCode => {
            let nested =
                object_at(&["mcp", "servers"]).filter(|servers_object| servers_object.node.get("type").is_none());
            nested.or_else(|| object_at(&["mcp"])).into_iter().collect()
        }
        Client::ClaudeDesktop | Client::Cursor | Client::Windsurf | Client::Gemini | Client::Qbit | Client::Synapse => {
            object_at(&["mcpServers"]).into_iter().collect()
        }
    }
}

/// Returns the names that several of `members` have.
fn repeated_names(members: &[Member]) -> HashSet<&str> {
    let mut names = HashSet::with_capacity(members.len());
    members.iter().map(|member| &*member.name).filter(|name| !names.insert(*name)).collect()
}

/// Returns whether Zed starts the server through an extension. Only the extension knows the command.
fn is_from_extension(client: Client, entry: &Node) -> bool {
    let has_field = |field: &str| entry.get(field).is_some();
    client == Client::Zed
        && !has_field("command")
        && !has_field("url")
        && (has_field("settings") || entry.text("source").is_some())
}

/// Returns the settings of Claude Code for the project in `folder`.
fn claude_project<'a>(root: &'a Node, folder: &Path) -> Option<&'a Node> {
    Some(&root.get("projects")?.node.get(folder.to_str()?)?.node)
}

/// Returns the inputs in a file of VS Code that have an id.
fn inputs(root: &Node) -> Vec<Input<'_>> {
    let Some(Value::List(inputs)) = root.get("inputs").map(|member| &member.node.value) else {
        return Vec::new();
    };
    let is_secret = |input: &'_ Node| -> bool {
        matches!(input.get("password").map(|member| &member.node.value), Some(Value::Bool(true)))
    };
    let inputs = inputs.iter().filter_map(|input| {
        let (description, default) = (input.text("description"), input.text("default"));
        let (description, default) = (description.unwrap_or_default(), default.unwrap_or_default());
        Some(Input { id: input.text("id")?, description, is_secret: is_secret(input), default })
    });
    inputs.collect()
}

/// Returns the names of the servers that settings of the file disable, each with its setting.
fn disabled_servers<'a>(file: &SourceFile, root: &'a Node) -> Vec<(&'a str, &'static str)> {
    match file.client {
        Client::ClaudeCode => {
            let project = file.cwd.ancestors().find_map(|folder| claude_project(root, folder));
            let names = project.and_then(|project| texts_of(project, "disabledMcpServers")).unwrap_or_default();
            names.into_iter().map(|name| (name, "disabledMcpServers")).collect()
        }
        Client::Gemini => {
            let Some(settings) = root.get("mcp").map(|member| &member.node) else {
                return Vec::new();
            };
            let excluded_names = texts_of(settings, "excluded").unwrap_or_default();
            let mut disabled: Vec<_> = excluded_names.into_iter().map(|name| (name, "mcp.excluded")).collect();
            if let Some(allowed_names) = texts_of(settings, "allowed") {
                let servers = root.get("mcpServers").and_then(|member| member.node.members()).unwrap_or_default();
                let not_allowed =
                    servers.iter().map(|member| &*member.name).filter(|name| !allowed_names.contains(name));
                disabled.extend(not_allowed.map(|name| (name, "mcp.allowed")));
            }
            disabled
        }
        Client::OpenCode => {
            // opencode calls tools `server_tool`, and the pattern `server_*` disables all tools of a server.
            let tools = root.get("tools").and_then(|member| member.node.members()).unwrap_or_default();
            let disabled = tools.iter().filter(|member| matches!(member.node.value, Value::Bool(false)));
            disabled
                .filter_map(|member| Some((member.name.strip_suffix('*')?.trim_end_matches('_'), "tools")))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the texts of the list `key`, or `None` if there is no such list.
fn texts_of<'a>(node: &'a Node, key: &str) -> Option<Vec<&'a str>> {
    match &node.get(key)?.node.value {
        Value::List(nodes) => Some(nodes.iter().filter_map(Node::as_text).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
