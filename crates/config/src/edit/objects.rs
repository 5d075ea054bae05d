//! Edits the entries (each configures one server) of JSON files. [`EditableFile`](super::EditableFile) says what an
//! edit can do, and `splice` changes the text.

use serde_json::{Value as Json, json};

use super::{EditError, Parts, add_parts, foreign, splice};
use crate::{
    dialect::{json as reader, not_an_object},
    document::Document,
    node::{Member, Node},
};

/// A JSON file that is being edited.
pub(super) struct JsonFile {
    document: Document,
    root: Option<Node>,
    /// Whether new entries must be converted into the format of opencode. Always `false` with `keys`: the caller then
    /// gives entries in the format of the file.
    is_opencode: bool,
    /// Whether the file is in the format of opencode's version 2.
    is_opencode_v2: bool,
    /// The keys under which the servers are, as in `mcp.servers`, if the caller knows them. `None` if the keys are
    /// found from the content of the file.
    keys: Option<Vec<String>>,
}

impl JsonFile {
    pub(super) fn open(document: Document) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        let null_node = Node { span: 0..0, value: crate::node::Value::Null };
        let is_opencode = reader::is_opencode(&document, root.as_ref().unwrap_or(&null_node));
        let nested_servers = root.as_ref().and_then(|root| root.get("mcp")).and_then(|mcp| mcp.node.get("servers"));
        // In version 1, `mcp.servers` is a server of that name, which has a `type`.
        let is_opencode_v2 = is_opencode && nested_servers.is_some_and(|servers| servers.node.text("type").is_none());
        let file = Self { document, root, is_opencode, is_opencode_v2, keys: None };
        file.servers_object()?;
        Ok(file)
    }

    /// Opens the file of a program that has its servers under `keys`.
    pub(super) fn open_at_keys(document: Document, keys: &[String]) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        let file = Self { document, root, is_opencode: false, is_opencode_v2: false, keys: Some(keys.to_owned()) };
        file.servers_object()?;
        Ok(file)
    }

    /// Opens a file of opencode in the format of either version. Its entries are under known keys.
    pub(super) fn open_opencode(document: Document) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        let servers = root.as_ref().and_then(|root| root.get("mcp")?.node.get("servers"));
        let is_opencode_v2 = servers.is_some_and(|servers| servers.node.text("type").is_none());
        let keys: &[&str] = if is_opencode_v2 { &["mcp", "servers"] } else { &["mcp"] };
        Self::open_at_keys(document, &keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>())
    }

    /// Returns the object with the servers; `None` if the file has none yet.
    fn servers_object(&self) -> Result<Option<&Node>, EditError> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        if let Some(keys) = &self.keys {
            return self.object_at(root, keys);
        }
        match reader::servers_object(&self.document, root) {
            Ok(reader::ServersObject::Under(node) | reader::ServersObject::Root(node)) => Ok(Some(node)),
            Ok(reader::ServersObject::Missing) => Ok(None),
            Err(problem) => Err(EditError::Unreadable(problem)),
        }
    }

    /// Returns the object at `keys`; `None` if one of the keys is missing. It is an error if one of the values on the
    /// way is not an object.
    fn object_at<'a>(&'a self, root: &'a Node, keys: &[String]) -> Result<Option<&'a Node>, EditError> {
        let mut node = root;
        for depth in 0..=keys.len() {
            if node.members().is_none() {
                return Err(EditError::Unreadable(not_an_object(&self.document, node, &shown_keys(&keys[..depth]))));
            }
            match keys.get(depth).map(|key| node.get(key)) {
                None => return Ok(Some(node)),
                Some(None) => return Ok(None),
                Some(Some(member)) => node = &member.node,
            }
        }
        Ok(None)
    }

    /// Returns the text with `entry` added below `keys`. Adds the keys that the file does not have yet.
    fn insert_with_keys(&self, keys: &[String], name: &str, entry: &Json) -> String {
        let mut value = json!({ name: entry });
        for (depth, key) in keys.iter().enumerate().rev() {
            let parent = self.root.as_ref().and_then(|root| self.object_at(root, &keys[..depth]).ok().flatten());
            if let Some(parent) = parent {
                return splice::insert(&self.document.text, parent, key, &value);
            }
            value = json!({ key: value });
        }
        splice::create(&self.document.text, &value)
    }

    /// Returns the object with the servers, and the entry `name` in it.
    fn servers_object_and_member(&self, name: &str) -> Result<(&Node, &Member), EditError> {
        let servers_object = self.servers_object()?.ok_or_else(|| super::EditableFile::unsafe_edit_error(self))?;
        let member = servers_object.get(name).ok_or_else(|| super::EditableFile::unsafe_edit_error(self))?;
        Ok((servers_object, member))
    }
}

impl super::EditableFile for JsonFile {
    fn document(&self) -> &Document {
        &self.document
    }

    fn reopened(&self, document: Document) -> Result<Box<dyn super::EditableFile>, EditError> {
        Ok(match &self.keys {
            Some(keys) => Box::new(Self::open_at_keys(document, keys)?),
            None => Box::new(Self::open(document)?),
        })
    }

    fn is_toolrack_file(&self) -> bool {
        !self.is_opencode && self.keys.is_none()
    }

    fn names(&self) -> Vec<String> {
        let servers_object = self.servers_object().ok().flatten();
        let members = servers_object.and_then(Node::members).unwrap_or_default();
        members.iter().map(|member| member.name.clone()).collect()
    }

    fn is_toolrack_entry(&self, _: &str) -> bool {
        self.is_toolrack_file()
    }

    fn translated(&self, _: &str, entry: &Json) -> Result<Json, EditError> {
        if !self.is_opencode {
            return Ok(entry.clone());
        }
        foreign::for_opencode(entry, self.is_opencode_v2).map_err(|field| EditError::Foreign {
            path: self.path(),
            program: "opencode",
            field,
        })
    }

    fn insert(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let key = if self.is_opencode { "mcp" } else { "mcpServers" };
        Ok(match (self.servers_object(), &self.root) {
            (Ok(None), _) if let Some(keys) = &self.keys => self.insert_with_keys(keys, name, entry),
            (Ok(Some(servers_object)), _) => splice::insert(self.text(), servers_object, name, entry),
            (_, Some(root)) => splice::insert(self.text(), root, key, &json!({ name: entry })),
            (_, None) => splice::create(self.text(), &json!({ key: { name: entry } })),
        })
    }

    fn replace(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let (_, member) = self.servers_object_and_member(name)?;
        Ok(splice::replace(self.text(), member, entry))
    }

    fn set(&self, name: &str, path: &[String], value: Option<&Json>) -> Option<String> {
        let (last_key, parents) = path.split_last()?;
        let entry = &self.servers_object_and_member(name).ok()?.1.node;
        let object = parents.iter().try_fold(entry, |node, name| Some(&node.get(name)?.node))?;
        object.members()?;
        Some(match (object.get(last_key), value) {
            (Some(member), Some(value)) => splice::replace(self.text(), member, value),
            (Some(member), None) => splice::remove(self.text(), object, member),
            (None, Some(value)) => splice::insert(self.text(), object, last_key, value),
            (None, None) => self.text().to_owned(),
        })
    }

    fn remove(&self, name: &str) -> Result<String, EditError> {
        let (servers_object, member) = self.servers_object_and_member(name)?;
        Ok(splice::remove(self.text(), servers_object, member))
    }

    fn switch(&self, name: &str, enabled: bool) -> Result<String, EditError> {
        let (_, member) = self.servers_object_and_member(name)?;
        let entry = &member.node;
        Ok(match (entry.get("enabled"), entry.get("disabled")) {
            (Some(field), _) => splice::replace(self.text(), field, &json!(enabled)),
            (None, Some(field)) => splice::replace(self.text(), field, &json!(!enabled)),
            _ if entry.members().is_none() => return Err(self.unsafe_edit_error()),
            (None, None) if self.is_opencode_v2 => splice::insert(self.text(), entry, "disabled", &json!(!enabled)),
            (None, None) => splice::insert(self.text(), entry, "enabled", &json!(enabled)),
        })
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts::new();
        let Some(root) = &self.root else {
            return parts;
        };
        let mut top = root.to_json();
        if let Some(keys) = &self.keys {
            if let Ok(Some(node)) = self.object_at(root, keys) {
                add_parts(&mut parts, "server", node.to_json());
            }
            remove_at(&mut top, keys);
            add_parts(&mut parts, "top", top);
            return parts;
        }
        // If the outermost object has the servers, they are the members of `top`.
        if let Ok(reader::ServersObject::Under(node)) = reader::servers_object(&self.document, root) {
            remove_servers(&mut top, &node.to_json());
            add_parts(&mut parts, "server", node.to_json());
        }
        add_parts(&mut parts, "top", top);
        parts
    }
}

/// Returns the keys as a message shows them, as in `mcp.servers`.
fn shown_keys(keys: &[String]) -> String {
    if keys.is_empty() { "the file".to_owned() } else { format!("`{}`", keys.join(".")) }
}

/// Removes the member at `keys` from `value`, and every object on the way that becomes empty. An edit adds such objects
/// together with the first server, so they must not count as another part of the file that changed.
fn remove_at(value: &mut Json, keys: &[String]) {
    let (Some((key, rest)), Some(members)) = (keys.split_first(), value.as_object_mut()) else {
        return;
    };
    if let Some(member) = members.get_mut(key) {
        remove_at(member, rest);
        if rest.is_empty() || member.as_object().is_some_and(serde_json::Map::is_empty) {
            members.shift_remove(key);
        }
    }
}

/// Removes the object with the servers from `root`, the value of a file. It is the one that equals `servers`, at any of
/// the places where a file can list its servers.
fn remove_servers(root: &mut Json, servers: &Json) {
    for path in reader::SERVERS_KEYS {
        let Some((last, parents)) = path.split_last() else {
            continue;
        };
        let parent = parents.iter().try_fold(&mut *root, |value, key| value.get_mut(key));
        if let Some(Json::Object(parent)) = parent
            && parent.get(*last) == Some(servers)
        {
            parent.shift_remove(*last);
            return;
        }
    }
}
