//! Caches names for completion: the tools of each server as of its last connection, and its prompts and resources as
//! they were last listed. The cached data of one server are its note.
//!
//! The note of a server is one small file below the data folder, named after the place where the server is configured.
//! It is valid only for the entry (the server's configuration in a file) that was connected: if the entry changes, the
//! note is ignored. Notes can be deleted at any time, and no failure here fails a command.

mod offers;

use std::{
    fs::{self, DirBuilder, File},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use atomic_write_file::OpenOptions;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolrack_config::{Entry, trust::content_hash};
use toolrack_host::{
    mcp::{self, Annotations},
    text,
};

pub(crate) use offers::{Offer, OfferList, Offers};

/// The most files of notes. Beyond that, the notes whose last change is oldest are deleted.
const MAX_SERVERS: usize = 500;
/// The most tools of one server.
const MAX_TOOLS: usize = 2_000;
/// The most arguments of one tool.
const MAX_ARGUMENTS: usize = 100;
/// The most values of one argument.
const MAX_VALUES: usize = 100;
/// The most bytes of a name that is noted. A longer name is not worth completing.
const MAX_NAME_BYTES: usize = 128;
/// The most bytes of a description.
const MAX_ABOUT_BYTES: usize = 80;
/// The most bytes of one file.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The name of a file consists of this many hex digits of a hash: 128 bits, which do not collide by chance.
const FILE_STEM_DIGITS: usize = 32;

/// The format version of the files. Files of another version are not read.
const FORMAT_VERSION: u32 = 2;

/// A tool, as completion needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tool {
    pub(super) name: String,
    /// Safe to print, and short.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) about: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) arguments: Vec<Argument>,
    /// The annotations of the tool; `None` in older notes, and for tools of the built-in server, which are never noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Annotations>,
}

/// An argument of a tool, as completion needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Argument {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) about: String,
    /// All possible values, when they are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) values: Vec<String>,
}

/// Identifies a server by its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfiguredServer {
    pub(crate) name: String,
    /// The name of the note's file: a hash of the place where the server is configured.
    file_stem: String,
    /// The hash of the server's entry.
    hash: String,
}

impl From<&Entry> for ConfiguredServer {
    fn from(entry: &Entry) -> Self {
        let file = entry.source.path.as_ref().map(|path| path.to_string_lossy());
        let place_hash = content_hash(&json!([entry.scope.as_str(), file, entry.name]));
        Self {
            name: entry.name.clone(),
            file_stem: place_hash[..FILE_STEM_DIGITS].to_owned(),
            hash: entry.hash.clone(),
        }
    }
}

/// The content of one file. [`Notebook::is_up_to_date`] relies on the order of these fields: `tools` comes last.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// The [`FORMAT_VERSION`] of the program that wrote the note.
    form: u32,
    /// The hash of the server's entry.
    hash: String,
    /// The [`ToolsHash`] of the tools from which the note was made.
    #[serde(default)]
    listing: u64,
    tools: Vec<Tool>,
}

/// A hash of a server's tools. If it is unchanged, the note need not be written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ToolsHash(u64);

impl ToolsHash {
    pub(crate) fn of<'a>(tools: impl Iterator<Item = &'a mcp::Tool>) -> Self {
        let mut hasher = DefaultHasher::new();
        for tool in tools {
            (&tool.name, &tool.description, tool.input_schema.get()).hash(&mut hasher);
        }
        Self(hasher.finish())
    }
}

/// The folder of the notes.
#[derive(Clone, Debug)]
pub(crate) struct Notebook {
    folder: PathBuf,
}

impl Notebook {
    /// Returns the folder of the notes below the data folder `data`.
    pub(crate) fn below(data: &Path) -> Self {
        Self { folder: data.join("completion") }
    }

    fn file(&self, server: &ConfiguredServer) -> PathBuf {
        self.folder.join(format!("{}.json", server.file_stem))
    }

    /// Returns the noted tools of `server`, or none if there is no note for its current entry.
    pub(super) fn read_tools(&self, server: &ConfiguredServer) -> Vec<Tool> {
        let note = read_note(&self.file(server)).and_then(|text| serde_json::from_str::<Note>(&text).ok());
        let note = note.filter(|note| note.form == FORMAT_VERSION && note.hash == server.hash);
        note.map(|note| note.tools).unwrap_or_default()
    }

    /// Returns whether the note of `server` was made from tools with this hash. Reads only the beginning of the file.
    pub(crate) fn is_up_to_date(&self, server: &ConfiguredServer, tools_hash: ToolsHash) -> bool {
        let beginning =
            Note { form: FORMAT_VERSION, hash: server.hash.clone(), listing: tools_hash.0, tools: Vec::new() };
        let Ok(mut beginning) = serde_json::to_vec(&beginning) else {
            return false;
        };
        // Compare only what comes before the tools: without the end of the empty list of tools.
        beginning.truncate(beginning.len() - b"]}".len());
        let mut file_beginning = vec![0; beginning.len()];
        let read_result = File::open(self.file(server)).and_then(|mut file| file.read_exact(&mut file_beginning));
        read_result.is_ok() && file_beginning == beginning
    }

    /// Returns the annotations that `tool` had when `server` was last connected with its current entry; `None` if they
    /// are unknown.
    pub(crate) fn annotations_of(&self, server: &ConfiguredServer, tool: &str) -> Option<Annotations> {
        self.read_tools(server).into_iter().find(|noted_tool| noted_tool.name == tool)?.claims
    }

    /// Writes the note of `server`. Does nothing if the note is up to date, or cannot be written.
    pub(crate) fn write_tools(&self, server: &ConfiguredServer, tools_hash: ToolsHash, mut tools: Vec<Tool>) {
        tools.retain(|tool| is_worth_completing(&tool.name));
        tools.truncate(MAX_TOOLS);
        let note = Note { form: FORMAT_VERSION, hash: server.hash.clone(), listing: tools_hash.0, tools };
        if let Ok(text) = serde_json::to_string(&note) {
            self.write_if_changed(&self.file(server), &text);
        }
    }

    /// Writes `text` into `file`, unless that is its content already.
    fn write_if_changed(&self, file: &Path, text: &str) {
        let old_text = read_note(file);
        if text.len() as u64 > MAX_FILE_BYTES || old_text.as_deref() == Some(text) {
            return;
        }
        if old_text.is_none() {
            self.make_room();
        }
        if let Err(error) = self.replace(file, text) {
            tracing::debug!(file = %file.display(), %error, "nothing is noted for completion");
        }
    }

    /// Replaces `file` as a whole, so that no reader sees a part of it.
    fn replace(&self, file: &Path, text: &str) -> std::io::Result<()> {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.folder)?;
        let mut options = OpenOptions::new();
        #[cfg(unix)]
        atomic_write_file::unix::OpenOptionsExt::preserve_mode(&mut options, false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut new_file = options.open(file)?;
        new_file.write_all(text.as_bytes())?;
        new_file.commit()
    }

    /// Deletes as many of the oldest notes as is necessary for one more.
    fn make_room(&self) {
        let Ok(files) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut files: Vec<(SystemTime, PathBuf)> =
            files.flatten().filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file.path()))).collect();
        files.sort();
        let surplus = (files.len() + 1).saturating_sub(MAX_SERVERS);
        for (_, file) in &files[..surplus] {
            // If that fails, there is one note too many.
            let _ = fs::remove_file(file);
        }
    }
}

/// Returns the text of a note; `None` when the file is missing, is not a regular file, or is too large to be a note.
fn read_note(file: &Path) -> Option<String> {
    let file = File::open(file).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn is_worth_completing(name: &str) -> bool {
    name.len() <= MAX_NAME_BYTES && is_shell_safe(name)
}

/// Returns the first line of a description, clipped and safe to print.
fn short_description(description: Option<&str>) -> String {
    let first_line = description.and_then(|words| words.trim().lines().next()).unwrap_or_default();
    text::clip(&text::for_line(first_line), MAX_ABOUT_BYTES).into_owned()
}

impl Tool {
    /// Creates the note of a tool of a server. `conceal` hides the secrets that the server was given, because the
    /// tool's texts may repeat them.
    pub(crate) fn from_mcp(tool: &mcp::Tool, conceal: &dyn Fn(&str) -> String) -> Self {
        // If a secret is hidden in the text, it may no longer be JSON. Then no arguments are noted.
        let schema = serde_json::from_str(&conceal(tool.input_schema.get())).unwrap_or_default();
        let description = tool.description.as_deref().map(conceal);
        let claims = Some(Annotations { title: None, ..tool.annotations.clone() });
        Self { claims, ..Self::new(&conceal(&tool.name), description.as_deref(), &schema) }
    }

    /// Creates the note of a tool of the built-in server.
    pub(super) fn from_rmcp(tool: &rmcp::model::Tool) -> Self {
        let schema = Value::Object((*tool.input_schema).clone());
        Self::new(&tool.name, tool.description.as_deref(), &schema)
    }

    fn new(name: &str, description: Option<&str>, schema: &Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let arguments =
            properties.into_iter().flatten().filter(|(name, _)| is_worth_completing(name)).take(MAX_ARGUMENTS);
        let arguments = arguments.map(|(name, schema)| Argument {
            name: name.clone(),
            about: short_description(schema.get("description").and_then(Value::as_str)),
            values: listed_values(schema),
        });
        Self {
            name: name.to_owned(),
            about: short_description(description),
            arguments: arguments.collect(),
            claims: None,
        }
    }
}

/// Returns the values that this schema allows, if it lists them.
fn listed_values(schema: &Value) -> Vec<String> {
    if schema.get("type").and_then(Value::as_str) == Some("boolean") {
        return vec!["true".to_owned(), "false".to_owned()];
    }
    let values = schema.get("enum").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    values
        .iter()
        .filter_map(Value::as_str)
        .filter(|value| is_worth_completing(value))
        .take(MAX_VALUES)
        .map(str::to_owned)
        .collect()
}

/// Returns whether `word` can be typed without quotes in every shell: it has no special or invisible character, and
/// does not look like an option.
pub(crate) fn is_shell_safe(word: &str) -> bool {
    let mut characters = word.chars();
    characters.next().is_some_and(|first| first.is_alphanumeric() || first == '_')
        && characters.all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@' | '+' | '/'))
        && text::for_line(word) == word
}

#[cfg(test)]
mod tests;
