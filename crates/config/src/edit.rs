//! Changes a configuration file, and nothing in it but one entry.
//!
//! An edit is a splice: the text before and after the entry is copied byte for byte, with its comments, its unknown
//! keys, its indentation and its line ends. (jsonc-parser's own editor rewrites the lines around a change.) Before
//! anything is written, the new text is read again, and an edit after which another entry reads differently is refused.
//!
//! A lock on the file's folder keeps two of us apart, and the file is replaced in one step, so that neither a crash nor
//! a reader ever sees half of it. New files are for their owner only (0600): they often hold tokens.

mod diff;
mod render;
mod splice;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use serde_json::{Value as Json, json};

use crate::{
    dialect::{self, Raw, json as reader},
    document::{Document, Kind},
    entry::{Report, closest, decode},
    node::{Member, Node},
    problem::Problem,
};

/// How to edit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Put the entry in the place of one of the same name, instead of refusing.
    pub replace: bool,
    /// Work out the change and write nothing.
    pub dry_run: bool,
}

/// What an edit did, or would do.
#[derive(Clone, Debug)]
pub struct Edited {
    /// The file, with symbolic links followed.
    pub path: PathBuf,
    /// Whether the file was made.
    pub created: bool,
    /// The change in the form of a unified diff, with secrets hidden. Empty when nothing changed.
    pub diff: String,
    /// What looks like a mistake in a new entry.
    pub warnings: Vec<Problem>,
}

/// Why a file was not edited. It is as it was.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// The entry has errors in it.
    #[error("`{name}` cannot be added: {}", list(problems))]
    Invalid {
        /// The entry's name.
        name: String,
        /// Its errors, and its warnings.
        problems: Vec<Problem>,
    },
    /// There is an entry of this name.
    #[error("`{name}` is already configured in {}: choose another name, remove it first, or replace it", path.display())]
    Exists {
        /// The entry's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no entry of this name.
    #[error("{} has no entry `{name}`{}", path.display(), did_you_mean(near.as_deref()))]
    Missing {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
        /// A name that may have been meant.
        near: Option<String>,
    },
    /// The file has two entries of this name, so that neither can be meant.
    #[error("{} has two entries `{name}`: remove one by hand", path.display())]
    Ambiguous {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read as it is.
    #[error("{0}")]
    Unreadable(Box<Problem>),
    /// The file is not JSON.
    #[error("{} is TOML, which is edited by hand", path.display())]
    NotJson {
        /// The file.
        path: PathBuf,
    },
    /// Another process is editing the file.
    #[error("{} is being edited by another process: try again", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("cannot {doing} {}: {kind}; check that the folder exists and can be written", path.display(), kind = source.kind())]
    Io {
        /// What was attempted.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The change would have touched another entry. A mistake of ours; nothing was written.
    #[error("{} has a form that cannot be edited safely: edit it by hand", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
    },
}

fn list(problems: &[Problem]) -> String {
    let errors = problems.iter().filter(|problem| problem.is_error());
    errors.map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ")
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default()
}

/// Adds the entry `name` to the file at `path`, which is made, with its folders, when there is none.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn add(path: &Path, name: &str, entry: &Json, options: Options) -> Result<Edited, EditError> {
    let warnings = check(name, entry)?;
    let edited = change(path, options.dry_run, |file| match file.find(name)? {
        Some(_) if !options.replace => Err(EditError::Exists { name: name.to_owned(), path: path.to_owned() }),
        Some((_, member)) => Ok(splice::replace(file.text(), member, entry)),
        None => Ok(file.insert(name, entry)),
    })?;
    Ok(Edited { warnings, ..edited })
}

/// Removes the entry `name` from the file at `path`.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn remove(path: &Path, name: &str, options: Options) -> Result<Edited, EditError> {
    if !path.exists() {
        // Not even the folder is made for this.
        return Err(EditError::Missing { name: name.to_owned(), path: path.to_owned(), near: None });
    }
    change(path, options.dry_run, |file| match file.find(name)? {
        Some((container, member)) => Ok(splice::remove(file.text(), container, member)),
        None => Err(file.missing(name)),
    })
}

/// Switches the entry `name` on or off. Where the file has no such entry, a lone `enabled` is added, which switches the
/// entry of a weaker layer.
///
/// Blocks up to 5 s while another process edits the file.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn switch(path: &Path, name: &str, enabled: bool, options: Options) -> Result<Edited, EditError> {
    change(path, options.dry_run, |file| {
        let Some((_, member)) = file.find(name)? else {
            return Ok(file.insert(name, &json!({ "enabled": enabled })));
        };
        let entry = &member.node;
        Ok(match (entry.get("enabled"), entry.get("disabled")) {
            (Some(field), _) => splice::replace(file.text(), field, &json!(enabled)),
            (None, Some(field)) => splice::replace(file.text(), field, &json!(!enabled)),
            (None, None) => splice::insert(file.text(), entry, "enabled", &json!(enabled)),
        })
    })
}

/// Refuses an entry with errors; returns the warnings about another.
fn check(name: &str, entry: &Json) -> Result<Vec<Problem>, EditError> {
    let raw = Raw { name: name.to_owned(), name_at: 0..0, node: Node::from_json(entry) };
    let mut report = Report::new(None, name);
    decode(&raw, &mut report);
    let broken = report.has_errors();
    let problems = report.into_problems();
    if broken {
        return Err(EditError::Invalid { name: name.to_owned(), problems });
    }
    Ok(problems)
}

/// A file that is being edited.
struct File {
    document: Document,
    root: Option<Node>,
}

impl File {
    /// The file at `path`, and whether there is one.
    fn read(path: &Path) -> Result<(Self, bool), EditError> {
        let document = Document::read(path, Kind::Regular).map_err(EditError::Unreadable)?;
        let exists = document.is_some();
        let document = document.unwrap_or_else(|| Document::new(Some(path.to_owned()), ""));
        Ok((Self::of(document)?, exists))
    }

    fn of(document: Document) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        let file = Self { document, root };
        file.container()?;
        Ok(file)
    }

    fn path(&self) -> PathBuf {
        self.document.path.clone().unwrap_or_default()
    }

    fn text(&self) -> &str {
        &self.document.text
    }

    /// The object that holds the servers.
    fn container(&self) -> Result<Option<&Node>, EditError> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        match reader::container(&self.document, root) {
            Ok(reader::Container::Under(node) | reader::Container::Root(node)) => Ok(Some(node)),
            Ok(reader::Container::Missing) => Ok(None),
            Err(problem) => Err(EditError::Unreadable(problem)),
        }
    }

    fn find(&self, name: &str) -> Result<Option<(&Node, &Member)>, EditError> {
        let Some(container) = self.container()? else {
            return Ok(None);
        };
        let mut found = container.members().unwrap_or_default().iter().filter(|member| member.name == name);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(EditError::Ambiguous { name: name.to_owned(), path: self.path() }),
            (found, None) => Ok(found.map(|member| (container, member))),
        }
    }

    fn insert(&self, name: &str, entry: &Json) -> String {
        match (self.container(), &self.root) {
            (Ok(Some(container)), _) => splice::insert(self.text(), container, name, entry),
            (_, Some(root)) => splice::insert(self.text(), root, "mcpServers", &json!({ name: entry })),
            (_, None) => splice::create(self.text(), &json!({ "mcpServers": { name: entry } })),
        }
    }

    fn missing(&self, name: &str) -> EditError {
        let container = self.container().ok().flatten();
        let names = container.and_then(Node::members).unwrap_or_default();
        EditError::Missing {
            name: name.to_owned(),
            path: self.path(),
            near: closest(name, names.iter().map(|member| &*member.name)).map(str::to_owned),
        }
    }
}

fn change(
    path: &Path,
    dry_run: bool,
    edit: impl FnOnce(&File) -> Result<String, EditError>,
) -> Result<Edited, EditError> {
    if dialect::is_toml(path) {
        return Err(EditError::NotJson { path: path.to_owned() });
    }
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let edit = || {
        let (file, exists) = File::read(&target)?;
        let text = edit(&file)?;
        ensure_safe(&file, &text)?;
        let whole = file.document.with_text(&text);
        if !dry_run && text != file.text() {
            write::replace(&target, &whole)?;
        }
        Ok(Edited {
            path: target.clone(),
            created: !exists && !dry_run,
            diff: diff::of(&target, file.text(), &text),
            warnings: Vec::new(),
        })
    };
    if dry_run { edit() } else { write::locked(&target, edit) }
}

/// Refuses a text that differs from the file in more than one entry, or anywhere else.
fn ensure_safe(file: &File, text: &str) -> Result<(), EditError> {
    let refused = || EditError::Unsafe { path: file.path() };
    let edited = Document::new(None, text);
    let root = reader::parse(&edited).map_err(|_| refused())?;
    let before = parts(&file.document, file.root.as_ref());
    let after = parts(&edited, root.as_ref());
    let names: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let changed = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    if changed.count() > 1 { Err(refused()) } else { Ok(()) }
}

/// The entries of a file, and all that stands beside them.
fn parts(document: &Document, root: Option<&Node>) -> BTreeMap<(&'static str, String), Json> {
    let Some(root) = root else {
        return BTreeMap::new();
    };
    let mut top = root.to_json();
    let mut parts = BTreeMap::new();
    if let Ok(reader::Container::Under(node)) = reader::container(document, root) {
        take_servers(&mut top);
        put(&mut parts, "server", node.to_json());
    }
    put(&mut parts, "top", top);
    parts
}

fn put(parts: &mut BTreeMap<(&'static str, String), Json>, place: &'static str, value: Json) {
    if let Json::Object(members) = value {
        parts.extend(members.into_iter().map(|(name, value)| ((place, name), value)));
    }
}

/// Takes the servers out of a file's value.
fn take_servers(root: &mut Json) {
    for path in reader::CONTAINERS {
        let Some((last, parents)) = path.split_last() else {
            continue;
        };
        let parent = parents.iter().try_fold(&mut *root, |value, key| value.get_mut(key));
        if let Some(Json::Object(parent)) = parent
            && parent.remove(*last).is_some()
        {
            return;
        }
    }
}

/// Adds an entry to `text` and takes it out again; see [`fuzzing`](crate::fuzzing).
#[cfg(feature = "fuzzing")]
pub(crate) fn add_and_remove(text: &str) {
    let parsed = |text: &str| File::of(Document::new(None, text));
    let Ok(file) = parsed(text) else { return };
    if !matches!(file.find("new"), Ok(None)) {
        return;
    }
    let added = file.insert("new", &json!({ "command": "x", "args": ["a"] }));
    assert!(ensure_safe(&file, &added).is_ok(), "{added}");
    let Ok(file) = parsed(&added) else { panic!("{added}") };
    let Ok(Some((container, member))) = file.find("new") else { panic!("{added}") };
    let removed = splice::remove(&added, container, member);
    assert!(ensure_safe(&file, &removed).is_ok(), "{removed}");
}

#[cfg(test)]
mod tests;
