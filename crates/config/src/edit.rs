//! Changes one entry (the configuration of one server) of a configuration file, and no other part of the file.
//!
//! An edit is a splice: it copies the text before and after the entry byte for byte, with its comments, unknown keys,
//! indentation and line ends. The editors of the libraries change more: jsonc-parser rewrites the lines around a
//! change, and toml_edit rewrites the line ends of the whole file. Before an edit writes a file, it parses the new text
//! again, and fails if another entry would change.
//!
//! A lock on the file's folder excludes other Toolrack processes. The file is replaced in one step: no reader sees half
//! of it, and no crash leaves half of it. New files are readable only by their owner (0600), because they often contain
//! tokens.

mod diff;
mod foreign;
mod hidden;
mod merge;
mod objects;
pub(crate) mod other_programs;
mod render;
mod revise;
mod splice;
mod target;
mod toml;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value as Json, json};
use toolrack_host::text::for_line;

use crate::{
    dialect,
    document::Document,
    entry::{Report, decode},
    node::{Member, Node},
    problem::Problem,
    suggest::intended_name,
    trust::hash,
};

pub use revise::{Revision, revise};
pub use target::{EditTarget, NoEditTarget};

/// Options of an edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Replace an entry of the same name, instead of refusing.
    pub replace: bool,
    /// Compute the change without writing it.
    pub dry_run: bool,
}

/// The result of an edit, or of a dry run.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The file, with symbolic links followed.
    pub path: PathBuf,
    /// Whether the edit created the file.
    pub created: bool,
    /// The change in the form of a unified diff, with secrets hidden. Empty when nothing changed.
    pub diff: String,
    /// Warnings about a new entry.
    pub warnings: Vec<Problem>,
    /// The [hash](crate::Entry::hash) of the entry before the edit; `None` if there was none.
    pub hash_before: Option<String>,
    /// The hash of the entry after the edit. An agreement to run the entry must be for this hash, so that it does not
    /// cover later changes by another process.
    pub hash_after: Option<String>,
}

/// The reason why a file was not edited. The file is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The entry has errors.
    #[error("`{}` cannot be added: {}", for_line(name), joined_errors(problems))]
    Invalid {
        /// The entry's name.
        name: String,
        /// The errors and warnings of the entry.
        problems: Vec<Problem>,
    },
    /// There is an entry of this name.
    #[error(
        "`{}` is already configured in {}: choose another name, remove it first, or replace it",
        for_line(name),
        shown_path(path)
    )]
    Exists {
        /// The entry's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The entry changed since it was read.
    #[error(
        "`{}` in {} was changed meanwhile: look at it again, and repeat the change",
        for_line(name),
        shown_path(path)
    )]
    Changed {
        /// The entry's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no entry of this name.
    #[error("{} has no entry `{}`{}", shown_path(path), for_line(name), did_you_mean(near.as_deref()))]
    Missing {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// A similar name that exists.
        near: Option<String>,
    },
    /// The file has two entries of this name, so it is unclear which one to edit.
    #[error("{} has two entries `{}`: remove one by hand", shown_path(path), for_line(name))]
    Ambiguous {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be parsed.
    #[error("{0}")]
    Unreadable(Box<Problem>),
    /// The file belongs to another program, whose format cannot express a part of the entry.
    #[error(
        "{} belongs to {program}, which has nothing like `{field}`: leave it out, or add the server to a file of your own",
        shown_path(path)
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The program.
        program: &'static str,
        /// The field of the entry.
        field: String,
    },
    /// The file is of no known format, so it is unclear where its servers are.
    #[error(
        "{} has neither `[[defaults.mcp]]` nor `[mcp_servers.…]`: name it `toolrack.toml`, or write the first server by hand",
        shown_path(path)
    )]
    UnknownForm {
        /// The file.
        path: PathBuf,
    },
    /// Another process is editing the file.
    #[error("{} is being edited by another process: try again", shown_path(path))]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {kind}; check that the folder exists and can be written", shown_path(path), kind = source.kind())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The change would have touched another entry, which is a bug of Toolrack. Nothing was written.
    #[error("{} has a form that cannot be edited safely: edit it by hand", shown_path(path))]
    Unsafe {
        /// The file.
        path: PathBuf,
    },
}

fn joined_errors(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error());
    errors.map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!(": did you mean `{}`?", for_line(near))).unwrap_or_default()
}

fn shown_path(path: &Path) -> String {
    for_line(&path.display().to_string()).into_owned()
}

/// Adds the entry `name` to the file at `path`, creating it and its folders when it does not exist.
///
/// In the file of another program, the entry takes that program's format; it is an error if that format cannot express
/// the entry. It is also an error if the entry contains `***`, which marks a hidden secret and is not a value.
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then unchanged.
pub fn add(path: &Path, name: &str, entry: &Json, options: Options) -> Result<Edited, EditError> {
    let warnings = check_new(name, entry)?;
    let edited = change(path, name, options.dry_run, |file| add_or_replace(file, name, entry, options.replace))?;
    Ok(Edited { warnings, ..edited })
}

/// The reason why several entries were not added. None of them was, and the file is unchanged.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct NotAdded {
    /// The entry that cannot be added; the first one for an error of the file as a whole.
    pub name: String,
    /// The reason.
    pub error: EditError,
}

/// Adds several entries to the file at `path`, each as [`add`] does, and writes the file once: with all of them or not
/// at all. Returns the edit of each entry, in the order of `entries`. The diff of each is against the file that already
/// has the entries before it. Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`NotAdded`]; the file is then unchanged.
pub fn add_all(path: &Path, entries: &BTreeMap<String, Json>, options: Options) -> Result<Vec<Edited>, NotAdded> {
    let Some(first) = entries.keys().next() else { return Ok(Vec::new()) };
    // The entry that is being added, for an error about it.
    let mut current_name = first.as_str();
    let mut add_each = || -> Result<_, EditError> {
        let mut warnings = Vec::new();
        for (name, entry) in entries {
            current_name = name;
            warnings.push(check_new(name, entry)?);
        }
        current_name = first;
        let (mut edited, created) = rewrite(path, options.dry_run, |file| {
            let mut text = file.text().to_owned();
            let mut edited = Vec::new();
            for (name, entry) in entries {
                current_name = name;
                let file = reparsed(file, &text)?;
                let (new_text, edited_entry) =
                    edit_open_file(&*file, name, |file| add_or_replace(file, name, entry, options.replace))?;
                text = new_text;
                edited.push(edited_entry);
            }
            Ok((text, edited))
        })?;
        for (edited, warnings) in edited.iter_mut().zip(warnings) {
            edited.warnings = warnings;
        }
        if let Some(first) = edited.first_mut() {
            first.created = created;
        }
        Ok(edited)
    };
    let result = add_each();
    result.map_err(|error| NotAdded { name: current_name.to_owned(), error })
}

/// Adds or replaces the entry `name`. Returns the new text of the file.
fn add_or_replace(file: &dyn EditableFile, name: &str, entry: &Json, replace: bool) -> Result<String, EditError> {
    match file.find(name)? {
        true if !replace => Err(EditError::Exists { name: name.to_owned(), path: file.path() }),
        true => file.replace(name, &file.translated(name, entry)?),
        false => file.insert(name, &file.translated(name, entry)?),
    }
}

/// Removes the entry `name` from the file at `path`.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then unchanged.
pub fn remove(path: &Path, name: &str, options: Options) -> Result<Edited, EditError> {
    if !path.exists() {
        // Without this check, the lock would create the folder.
        return Err(EditError::Missing { name: name.to_owned(), path: path.to_owned(), near: None });
    }
    change(path, name, options.dry_run, |file| match file.find(name)? {
        true => file.remove(name),
        false => Err(missing(file, name)),
    })
}

/// Enables or disables the entry `name`. If the file has no such entry, adds one that has only `enabled`: it enables or
/// disables the entry of the same name in another file.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then unchanged.
pub fn switch(path: &Path, name: &str, enabled: bool, options: Options) -> Result<Edited, EditError> {
    change(path, name, options.dry_run, |file| match file.find(name)? {
        true => file.switch(name, enabled),
        // Other programs would treat an entry with only `enabled` as a server without a command.
        false if !file.is_toolrack_file() => Err(missing(file, name)),
        false => file.insert(name, &json!({ "enabled": enabled })),
    })
}

/// Returns the warnings about a new entry. It is an error if the entry has errors, or `***` in place of a secret.
fn check_new(name: &str, entry: &Json) -> Result<Vec<Problem>, EditError> {
    hidden::refuse_hidden(name, entry)?;
    check(name, entry)
}

/// Returns the warnings about an entry. It is an error if the entry has errors.
fn check(name: &str, entry: &Json) -> Result<Vec<Problem>, EditError> {
    let raw_entry = Member { name: name.to_owned(), name_span: 0..0, node: Node::from_json(entry) };
    let mut report = Report::new(None, name);
    decode(&raw_entry, &mut report);
    let has_errors = report.has_errors();
    let problems = report.into_problems();
    if has_errors {
        return Err(EditError::Invalid { name: name.to_owned(), problems });
    }
    Ok(problems)
}

/// Parses `text` as a configuration file called `name`; returns its servers and its problems. Reads no file.
#[must_use]
pub fn validate(name: &str, text: &str) -> (Vec<String>, Vec<Problem>) {
    let document = Document::new(Some(PathBuf::from(name)), text);
    let servers = match dialect::servers(&document) {
        Ok(servers) => servers,
        Err(problem) => return (Vec::new(), vec![*problem]),
    };
    let mut problems = servers.problems;
    let mut names = Vec::new();
    for raw_entry in &servers.entries {
        let mut report = Report::new(Some(&document), &raw_entry.name);
        decode(raw_entry, &mut report);
        problems.extend(report.into_problems());
        names.push(raw_entry.name.clone());
    }
    (names, problems)
}

/// Returns the error that `file` has no entry `name`, with a similar name that it has.
fn missing(file: &dyn EditableFile, name: &str) -> EditError {
    let names = file.names();
    EditError::Missing {
        name: name.to_owned(),
        path: file.path(),
        near: intended_name(name, names.iter().map(String::as_str)).map(str::to_owned),
    }
}

/// A file that is being edited. Every change returns the whole new text, without the byte order mark.
trait EditableFile {
    /// Returns the file with its text.
    fn document(&self) -> &Document;

    /// Returns the same file with another text.
    fn reopened(&self, document: Document) -> Result<Box<dyn EditableFile>, EditError>;

    /// Returns whether the file is Toolrack's own, which no other program reads.
    fn is_toolrack_file(&self) -> bool;

    /// Returns the names of its entries.
    fn names(&self) -> Vec<String>;

    /// Returns whether the file has an entry `name`. It is an error if it has two of them.
    fn find(&self, name: &str) -> Result<bool, EditError> {
        match self.names().iter().filter(|other| *other == name).count() {
            0 | 1 => Ok(self.names().iter().any(|other| other == name)),
            _ => Err(EditError::Ambiguous { name: name.to_owned(), path: self.path() }),
        }
    }

    /// Returns whether the entry `name` is Toolrack's own, which no other program reads.
    fn is_toolrack_entry(&self, name: &str) -> bool;

    /// Converts `entry` into the format of the program that owns the file. It is an error if that format cannot express
    /// a part of the entry.
    fn translated(&self, name: &str, entry: &Json) -> Result<Json, EditError>;

    /// Adds an entry, in the format of the file. The name must be free.
    fn insert(&self, name: &str, entry: &Json) -> Result<String, EditError>;

    /// Replaces the entry `name` by `entry`, which is in the format of the file.
    fn replace(&self, name: &str, entry: &Json) -> Result<String, EditError>;

    /// Sets the member at `path` in the entry `name` to `value`, or removes the member if there is no `value`. `None`
    /// if the member is written in a form in which it cannot be changed alone.
    fn set(&self, name: &str, path: &[String], value: Option<&Json>) -> Option<String>;

    /// Removes the entry `name`.
    fn remove(&self, name: &str) -> Result<String, EditError>;

    /// Enables or disables the entry `name`: changes its `enabled` or `disabled`, or adds such a field.
    fn switch(&self, name: &str, enabled: bool) -> Result<String, EditError>;

    /// Returns the entries and all other parts of the file, to compare it before and after an edit.
    fn parts(&self) -> Parts;

    fn path(&self) -> PathBuf {
        self.document().path.clone().unwrap_or_default()
    }

    fn text(&self) -> &str {
        &self.document().text
    }

    /// Returns the error that the file is written in a form that cannot be edited safely.
    fn unsafe_edit_error(&self) -> EditError {
        EditError::Unsafe { path: self.path() }
    }
}

/// The content of a file by section and name. The entries are in the sections `server` and `codex`, and the other
/// members of the file are in the section `top`.
type Parts = BTreeMap<(&'static str, String), Json>;

/// Adds each member of `value` as a part of `section`.
fn add_parts(parts: &mut Parts, section: &'static str, value: Json) {
    if let Json::Object(members) = value {
        parts.extend(members.into_iter().map(|(name, value)| ((section, name), value)));
    }
}

/// Changes the entry `name` from `old` to `new`, without rewriting the members that are equal in both. If a member
/// cannot be changed alone, replaces the whole entry.
fn change_members(
    file: &dyn EditableFile,
    name: &str,
    old: &Map<String, Json>,
    new: &Json,
) -> Result<String, EditError> {
    let differences = merge::differences(old, new.as_object().unwrap_or(&Map::new()));
    let mut text = file.text().to_owned();
    for (path, value) in differences {
        let file = reparsed(file, &text)?;
        match file.set(name, &path, value.as_ref()) {
            Some(new_text) => text = new_text,
            None => return file.replace(name, new),
        }
    }
    Ok(text)
}

/// Parses another text as the same file.
fn reparsed(file: &dyn EditableFile, text: &str) -> Result<Box<dyn EditableFile>, EditError> {
    file.reopened(Document::new(file.document().path.clone(), text)).map_err(|_| file.unsafe_edit_error())
}

fn open(document: Document) -> Result<Box<dyn EditableFile>, EditError> {
    match document.path.as_deref().is_some_and(dialect::is_toml) {
        true => Ok(Box::new(toml::TomlFile::open(document)?)),
        false => Ok(Box::new(objects::JsonFile::open(document)?)),
    }
}

/// The maximum number of attempts at an edit. If a program that does not use the lock writes the file during an edit,
/// the edit is computed again.
const MAX_ATTEMPTS: usize = 3;

/// Changes the entry `name` of the file at `path`.
fn change(
    path: &Path,
    name: &str,
    dry_run: bool,
    mut edit: impl FnMut(&dyn EditableFile) -> Result<String, EditError>,
) -> Result<Edited, EditError> {
    let (edited, created) = rewrite(path, dry_run, |file| edit_open_file(file, name, &mut edit))?;
    Ok(Edited { created, ..edited })
}

/// Changes the entry `name` of the parsed file `file`. Returns the new text, and a description of the change.
fn edit_open_file(
    file: &dyn EditableFile,
    name: &str,
    edit: impl FnOnce(&dyn EditableFile) -> Result<String, EditError>,
) -> Result<(String, Edited), EditError> {
    let text = edit(file)?;
    let edited_file = ensure_safe(file, &text)?;
    let edited = Edited {
        path: file.path(),
        // The caller sets this, because only the caller knows whether the file exists.
        created: false,
        diff: diff::unified(&file.path(), file.text(), &text),
        warnings: Vec::new(),
        hash_before: hash_of(file, name),
        hash_after: hash_of(&*edited_file, name),
    };
    Ok((text, edited))
}

/// Calls `edit` with the file at `path`, and writes the new text that `edit` returns, unless `dry_run` is set. Returns
/// the other value that `edit` returns, and whether the file was created.
fn rewrite<T>(
    path: &Path,
    dry_run: bool,
    mut edit: impl FnMut(&dyn EditableFile) -> Result<(String, T), EditError>,
) -> Result<(T, bool), EditError> {
    let target = write::follow_links(path)?;
    let mut attempt = || {
        let document = Document::read(&target).map_err(EditError::Unreadable)?;
        let original_text = document.as_ref().map(|document| document.restore_byte_order_mark(&document.text));
        let file = open(document.unwrap_or_else(|| Document::new(Some(target.clone()), "")))?;
        let (text, edited) = edit(&*file)?;
        let content = file.document().restore_byte_order_mark(&text);
        if !dry_run && text != file.text() && !write::replace_if_unchanged(&target, original_text.as_deref(), &content)?
        {
            // Another program has changed the file since this attempt read it.
            return Ok(None);
        }
        Ok(Some((edited, original_text.is_none() && !dry_run)))
    };
    let mut attempt_repeatedly = || {
        for _ in 0..MAX_ATTEMPTS {
            if let Some(edited) = attempt()? {
                return Ok(edited);
            }
        }
        Err(EditError::Busy { path: target.clone() })
    };
    if dry_run { attempt_repeatedly() } else { write::with_lock(&target, attempt_repeatedly) }
}

/// Parses `text` as the edited file. Returns an error if more than one part differs from `file`: an edit changes a
/// single entry.
fn ensure_safe(file: &dyn EditableFile, text: &str) -> Result<Box<dyn EditableFile>, EditError> {
    let edited_file = reparsed(file, text)?;
    let (old_parts, new_parts) = (file.parts(), edited_file.parts());
    let names: BTreeSet<_> = old_parts.keys().chain(new_parts.keys()).collect();
    let changed_parts = names.into_iter().filter(|name| old_parts.get(*name) != new_parts.get(*name));
    if changed_parts.count() > 1 { Err(file.unsafe_edit_error()) } else { Ok(edited_file) }
}

/// Returns the entry `name` as it is written in the file.
fn written_entry(file: &dyn EditableFile, name: &str) -> Result<Option<Member>, EditError> {
    let servers = dialect::servers(file.document()).map_err(EditError::Unreadable)?;
    Ok(servers.entries.into_iter().rfind(|raw_entry| raw_entry.name == name))
}

/// Returns the [`Entry::hash`](crate::Entry::hash) that the entry `name` has once the file is loaded; `None` if the
/// file has no such entry.
fn hash_of(file: &dyn EditableFile, name: &str) -> Option<String> {
    let raw_entry = written_entry(file, name).ok().flatten()?;
    Some(hash(&raw_entry.node))
}

/// The diff of a change; see [`fuzzing`](crate::fuzzing).
#[cfg(feature = "fuzzing")]
pub(crate) use diff::unified as diff;

/// Writes `value` as a TOML file; see [`fuzzing`](crate::fuzzing).
#[cfg(feature = "fuzzing")]
pub(crate) fn toml_of(value: &Json) -> Option<String> {
    let value = toml::to_toml(value)?;
    Some(toml_edit::DocumentMut::from(value.as_inline_table()?.clone().into_table()).to_string())
}

/// Adds an entry to a file, then switches, replaces and removes it, and switches the other entries; see
/// [`fuzzing`](crate::fuzzing).
#[cfg(feature = "fuzzing")]
pub(crate) fn every_edit(path: &str, text: &str) {
    let opened = |text: &str| open(Document::new(Some(path.into()), text));
    let Ok(file) = opened(text) else { return };
    for name in file.names() {
        let switched = file.find(&name).and_then(|_| file.switch(&name, false));
        if let Ok(switched) = switched
            && ensure_safe(&*file, &switched).is_ok()
        {
            assert_eq!(opened(&switched).map(|file| file.names()).ok(), Some(file.names()), "{switched}");
        }
    }
    if !matches!(file.find("new"), Ok(false)) {
        return;
    }
    let Ok(added) = file.insert("new", &json!({ "command": "x", "args": ["a"] })) else { return };
    if ensure_safe(&*file, &added).is_err() {
        // An edit may refuse a form that it cannot change, and then writes nothing.
        return;
    }
    assert!(contains_in_order(&added, file.text()), "{added}");
    let Ok(file_with_new) = opened(&added) else { panic!("{added}") };
    assert!(matches!(file_with_new.find("new"), Ok(true)), "{added}");
    for change in [
        file_with_new.switch("new", false),
        file_with_new.replace("new", &json!({ "command": "y" })),
        file_with_new.remove("new"),
    ] {
        let Ok(changed) = change else { panic!("{added}") };
        assert!(ensure_safe(&*file_with_new, &changed).is_ok(), "{changed}");
        assert!(contains_in_order(&changed, file.text()), "{changed}");
    }
}

/// Returns whether `text` contains all of `part`, in this order, ignoring white space and commas.
#[cfg(feature = "fuzzing")]
fn contains_in_order(text: &str, part: &str) -> bool {
    let mut chars = text.chars();
    let mut expected_chars = part.chars().filter(|c| !c.is_whitespace() && *c != ',');
    expected_chars.all(|c| chars.any(|other| other == c))
}

#[cfg(test)]
mod tests;
