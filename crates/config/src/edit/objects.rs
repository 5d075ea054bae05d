//! Edits of JSON.

use serde_json::{Value as Json, json};

use super::{EditError, Parts, foreign, put, splice};
use crate::{
    dialect::json as reader,
    document::Document,
    node::{Member, Node},
};

/// A JSON file that is being edited.
pub(super) struct File {
    document: Document,
    root: Option<Node>,
    /// Whether it is one of opencode's, which has its own words.
    is_opencode: bool,
    /// Whether opencode's words are those of its version 2.
    is_second: bool,
}

impl File {
    pub(super) fn of(document: Document) -> Result<Self, EditError> {
        let root = reader::parse(&document).map_err(EditError::Unreadable)?;
        let nothing = Node { at: 0..0, value: crate::node::Value::Null };
        let is_opencode = reader::is_opencode(&document, root.as_ref().unwrap_or(&nothing));
        let mcp = root.as_ref().and_then(|root| root.get("mcp")).and_then(|mcp| mcp.node.get("servers"));
        let is_second = is_opencode && mcp.is_some_and(|servers| servers.node.text("type").is_none());
        let file = Self { document, root, is_opencode, is_second };
        file.container()?;
        Ok(file)
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

    fn member(&self, name: &str) -> Result<(&Node, &Member), EditError> {
        let container = self.container()?.ok_or_else(|| super::File::refused(self))?;
        let member = container.get(name).ok_or_else(|| super::File::refused(self))?;
        Ok((container, member))
    }
}

impl super::File for File {
    fn document(&self) -> &Document {
        &self.document
    }

    fn is_ours(&self) -> bool {
        !self.is_opencode
    }

    fn names(&self) -> Vec<String> {
        let container = self.container().ok().flatten();
        let members = container.and_then(Node::members).unwrap_or_default();
        members.iter().map(|member| member.name.clone()).collect()
    }

    fn is_ours_in(&self, _: &str) -> bool {
        self.is_ours()
    }

    fn translated(&self, _: &str, entry: &Json) -> Result<Json, EditError> {
        if !self.is_opencode {
            return Ok(entry.clone());
        }
        foreign::for_opencode(entry, self.is_second).map_err(|field| EditError::Foreign {
            path: self.path(),
            program: "opencode",
            field,
        })
    }

    fn insert(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let key = if self.is_opencode { "mcp" } else { "mcpServers" };
        Ok(match (self.container(), &self.root) {
            (Ok(Some(container)), _) => splice::insert(self.text(), container, name, entry),
            (_, Some(root)) => splice::insert(self.text(), root, key, &json!({ name: entry })),
            (_, None) => splice::create(self.text(), &json!({ key: { name: entry } })),
        })
    }

    fn replace(&self, name: &str, entry: &Json) -> Result<String, EditError> {
        let (_, member) = self.member(name)?;
        Ok(splice::replace(self.text(), member, entry))
    }

    fn set(&self, name: &str, path: &[String], value: Option<&Json>) -> Option<String> {
        let (last, parents) = path.split_last()?;
        let entry = &self.member(name).ok()?.1.node;
        let object = parents.iter().try_fold(entry, |node, name| Some(&node.get(name)?.node))?;
        object.members()?;
        Some(match (object.get(last), value) {
            (Some(member), Some(value)) => splice::replace(self.text(), member, value),
            (Some(member), None) => splice::remove(self.text(), object, member),
            (None, Some(value)) => splice::insert(self.text(), object, last, value),
            (None, None) => self.text().to_owned(),
        })
    }

    fn remove(&self, name: &str) -> Result<String, EditError> {
        let (container, member) = self.member(name)?;
        Ok(splice::remove(self.text(), container, member))
    }

    fn switch(&self, name: &str, enabled: bool) -> Result<String, EditError> {
        let (_, member) = self.member(name)?;
        let entry = &member.node;
        Ok(match (entry.get("enabled"), entry.get("disabled")) {
            (Some(field), _) => splice::replace(self.text(), field, &json!(enabled)),
            (None, Some(field)) => splice::replace(self.text(), field, &json!(!enabled)),
            _ if entry.members().is_none() => return Err(self.refused()),
            (None, None) if self.is_second => splice::insert(self.text(), entry, "disabled", &json!(!enabled)),
            (None, None) => splice::insert(self.text(), entry, "enabled", &json!(enabled)),
        })
    }

    fn parts(&self) -> Parts {
        let mut parts = Parts::new();
        let Some(root) = &self.root else {
            return parts;
        };
        let mut top = root.to_json();
        if let Ok(reader::Container::Under(node)) = reader::container(&self.document, root) {
            take_servers(&mut top, &node.to_json());
            put(&mut parts, "server", node.to_json());
        }
        put(&mut parts, "top", top);
        parts
    }
}

/// Takes the servers out of a file's value.
fn take_servers(root: &mut Json, servers: &Json) {
    for path in reader::CONTAINERS {
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
