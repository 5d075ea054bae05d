//! Merges a changed entry (the configuration of one server) into the file: unchanged fields stay as they are written,
//! in their own format, and so do all fields that Toolrack does not know.
//!
//! A member may have another name than the field that it sets. To find the members that set a field, the merge leaves
//! each member out, parses the entry again and compares the fields. It also parses the merged entry, to check it.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value as Json, json};
use toolrack_host::ServerSpec;

use super::{EditError, EditableFile};
use crate::{
    entry::{Decoded, Report, canonical, decode},
    node::{Member, Node},
    redact,
};

/// The members of an entry.
type Fields = Map<String, Json>;

/// The fields that say what kind of server an entry is. They are always converted together with a changed field,
/// because no program can read an entry without them.
const KIND_FIELDS: &[&str] = &["type", "command", "args", "url"];

/// Groups of fields that are converted together for another program, because the meaning of one depends on the others.
const FIELD_GROUPS: &[&[&str]] = &[KIND_FIELDS, &["env", "inherit_env"]];

/// Parses an entry. Returns the server, and the names of those members that Toolrack does not use; `None` if the entry
/// is not a valid server.
pub(super) fn decode_entry(name: &str, node: Node) -> Option<(ServerSpec, Vec<String>)> {
    let raw_entry = Member { name: name.to_owned(), name_span: 0..0, node };
    let mut report = Report::new(None, name);
    match decode(&raw_entry, &mut report) {
        Decoded::Server(spec) => Some((*spec, report.into_ignored())),
        Decoded::Switch(_) | Decoded::Broken => None,
    }
}

/// Returns all fields of `entry`, in Toolrack's format.
fn decoded_fields(name: &str, entry: &Json) -> Option<Fields> {
    let (spec, _) = decode_entry(name, Node::from_json(entry))?;
    normalized_fields(redact::proposal(&spec))
}

fn normalized_fields(entry: Json) -> Option<Fields> {
    match with_integers(entry) {
        Json::Object(fields) => Some(fields),
        _ => None,
    }
}

/// Returns the value with whole numbers as integers, because `60.0` and `60` are the same time and must compare as
/// equal.
fn with_integers(value: Json) -> Json {
    match value {
        Json::Number(number) if number.is_f64() => Json::Number(whole_number(&number).unwrap_or(number)),
        Json::Array(items) => items.into_iter().map(with_integers).collect(),
        Json::Object(members) => members.into_iter().map(|(name, member)| (name, with_integers(member))).collect(),
        other => other,
    }
}

fn whole_number(number: &Number) -> Option<Number> {
    let text = number.as_f64().filter(|value| value.fract() == 0.0)?.to_string();
    text.parse::<i64>().ok().map(Number::from)
}

/// An entry that an editor sends back.
pub(super) struct ReturnedEntry<'a> {
    pub(super) name: &'a str,
    /// The entry in the file.
    pub(super) entry_in_file: &'a Fields,
    /// The entry as it was shown.
    pub(super) shown_entry: &'a Json,
    /// The entry as the editor sent it.
    pub(super) sent_entry: &'a Json,
    /// The sent entry, with the values from the file in place of `***`.
    pub(super) revealed_entry: &'a Json,
}

impl ReturnedEntry<'_> {
    /// Returns the new entry, in the format of `file`.
    pub(super) fn merged(&self, file: &dyn EditableFile) -> Result<Json, EditError> {
        let current_fields = decoded_fields(self.name, &Json::Object(self.entry_in_file.clone())).unwrap_or_default();
        let (target_fields, changed_fields) = self.target_fields(&current_fields);
        let mut new_entry = self.entry_in_file.clone();
        self.copy_unknown(&mut new_entry);
        if changed_fields.is_empty() {
            return Ok(Json::Object(new_entry));
        }
        let merge = Merge {
            name: self.name,
            current_fields: &current_fields,
            target_fields: &target_fields,
            changed_fields: &changed_fields,
        };
        if !file.is_toolrack_entry(self.name) {
            return merge.merge_for_other_program(file, new_entry);
        }
        // The new entry must have exactly the target fields. The merge in place comes first, because it changes less.
        let candidates = [merge.merge_in_place(new_entry.clone()), merge.merge_in_own_format(new_entry.clone())];
        let has_target_fields =
            |merged: &Fields| decoded_fields(self.name, &Json::Object(merged.clone())).as_ref() == Some(&target_fields);
        Ok(Json::Object(
            candidates.into_iter().find(has_target_fields).unwrap_or_else(|| self.rewritten(new_entry, &target_fields)),
        ))
    }

    /// Returns the fields of the new entry, and the names of the changed ones. A field that the user did not change
    /// stays as it is in the file. The view may show another value than the file, such as the folder of a project or
    /// the `enabled` of another file. The user did not write that value, so it does not go into this file.
    fn target_fields(&self, current_fields: &Fields) -> (Fields, BTreeSet<String>) {
        // An entry that is not a valid server is compared as it is.
        let parse_fields = |entry: &Json| {
            decoded_fields(self.name, entry).or_else(|| normalized_fields(entry.clone())).unwrap_or_default()
        };
        let (shown_fields, sent_fields, revealed_fields) =
            (parse_fields(self.shown_entry), parse_fields(self.sent_entry), parse_fields(self.revealed_entry));
        let mut target = current_fields.clone();
        let mut changed_fields = BTreeSet::new();
        for field in shown_fields.keys().chain(sent_fields.keys()) {
            let is_as_shown = shown_fields.get(field) == sent_fields.get(field);
            if is_as_shown || current_fields.get(field) == revealed_fields.get(field) {
                continue;
            }
            changed_fields.insert(field.clone());
            // `drop` only gives both arms the same type.
            match revealed_fields.get(field) {
                Some(value) => drop(target.insert(field.clone(), value.clone())),
                None => drop(target.shift_remove(field)),
            }
        }
        (target, changed_fields)
    }

    /// Copies the members of the sent entry that are not fields of Toolrack into `base`.
    fn copy_unknown(&self, base: &mut Fields) {
        let unknown = decode_entry(self.name, Node::from_json(self.revealed_entry))
            .map(|(_, unknown)| unknown)
            .unwrap_or_default();
        for name in unknown {
            base.extend(self.revealed_entry.get(&name).map(|value| (name, value.clone())));
        }
    }

    /// Returns all `target` fields in Toolrack's format, after those members of `base` that are no fields of Toolrack.
    fn rewritten(&self, mut base: Fields, target: &Fields) -> Fields {
        let unknown = decode_entry(self.name, Node::from_json(&Json::Object(base.clone()))).map(|(_, unknown)| unknown);
        let unknown = unknown.unwrap_or_default();
        base.retain(|name, _| unknown.contains(name));
        base.extend(target.clone());
        base
    }
}

/// The change of an entry from the current fields to the target fields, all in Toolrack's format.
struct Merge<'a> {
    name: &'a str,
    /// The fields of the entry in the file.
    current_fields: &'a Fields,
    /// The fields that the entry shall have.
    target_fields: &'a Fields,
    /// The names of the fields that the user changed.
    changed_fields: &'a BTreeSet<String>,
}

impl Merge<'_> {
    /// Merges for the file of another program: converts the old and the new entry into that program's format, and
    /// applies to `base` the members in which they differ.
    fn merge_for_other_program(&self, file: &dyn EditableFile, mut base: Fields) -> Result<Json, EditError> {
        let Self { current_fields, target_fields, changed_fields, .. } = *self;
        let is_changed = |group: &[&str]| group.iter().any(|field| changed_fields.contains(*field));
        let is_affected = |field: &str| {
            let mut groups = FIELD_GROUPS.iter().filter(|group| group.contains(&field));
            changed_fields.contains(field) || groups.any(|group| *group == KIND_FIELDS || is_changed(group))
        };
        let translate = |fields: &Fields| {
            let selected = fields.iter().filter(|(field, _)| is_affected(field));
            let selected: Fields = selected.map(|(field, value)| (field.clone(), value.clone())).collect();
            file.translated(self.name, &Json::Object(selected))
        };
        let Json::Object(new_members) = translate(target_fields)? else {
            return Err(file.unsafe_edit_error());
        };
        // If the format cannot express the old entry, every new member counts as changed.
        let old_members =
            translate(current_fields).ok().and_then(|members| members.as_object().cloned()).unwrap_or_default();
        base.retain(|name, _| !old_members.contains_key(name) || new_members.contains_key(name));
        base.extend(new_members.into_iter().filter(|(name, value)| old_members.get(name) != Some(value)));
        let merged = Json::Object(base);
        // The entry may have been written in a format other than this program's.
        if decoded_fields(self.name, &merged).is_none() {
            file.translated(self.name, &Json::Object(target_fields.clone()))
        } else {
            Ok(merged)
        }
    }

    /// Writes every changed field under its name in the file.
    fn merge_in_place(&self, mut base: Fields) -> Fields {
        for field in self.changed_fields {
            let find_key = |base: &Fields, name: &str| base.keys().find(|key| canonical(key) == name).cloned();
            let value = self.target_fields.get(field);
            if field == "enabled"
                && let Some(key) = find_key(&base, "disabled")
            {
                base.insert(key, json!(value == Some(&json!(false))));
                continue;
            }
            let key = find_key(&base, field).or_else(|| match &*self.members_that_set(&base, field) {
                [key] => Some(key.clone()),
                _ => None,
            });
            let key = key.unwrap_or_else(|| field.clone());
            match value {
                Some(value) => {
                    let value = merge_value(base.get(&key), self.current_fields.get(field), value);
                    base.insert(key, value);
                }
                None => drop(base.shift_remove(&key)),
            }
        }
        base
    }

    /// Writes every changed field under Toolrack's name, with all other fields that the same members set.
    fn merge_in_own_format(&self, mut base: Fields) -> Fields {
        let mut affected_fields = self.changed_fields.clone();
        for field in self.changed_fields {
            for key in self.members_that_set(&base, field) {
                let fields_without_key = self.fields_without(&base, &key).unwrap_or_default();
                affected_fields.extend(
                    self.current_fields
                        .keys()
                        .filter(|field| fields_without_key.get(*field) != self.current_fields.get(*field))
                        .cloned(),
                );
                base.shift_remove(&key);
            }
        }
        base.extend(
            self.target_fields
                .iter()
                .filter(|(field, _)| affected_fields.contains(*field))
                .map(|(field, value)| (field.clone(), value.clone())),
        );
        base
    }

    /// Returns the members of `base` that set `field`: without one of them, the field would have another value.
    fn members_that_set(&self, base: &Fields, field: &str) -> Vec<String> {
        let fields_with_all = decoded_fields(self.name, &Json::Object(base.clone())).unwrap_or_default();
        let sets_field = |key: &&String| {
            // If the entry is not a server without this member, there is nothing to compare. The member may then set
            // each field that says what kind of server it is, unless the member has the name of another field.
            let may_set = KIND_FIELDS.contains(&field) && !self.current_fields.contains_key(&canonical(key));
            let fields_without_member = self.fields_without(base, key);
            canonical(key) == field
                || fields_without_member.map_or(may_set, |fields_without_member| {
                    fields_without_member.get(field) != fields_with_all.get(field)
                })
        };
        base.keys().filter(sets_field).cloned().collect()
    }

    /// Returns the fields of the entry without the member `key`; `None` if it is then not a server.
    fn fields_without(&self, base: &Fields, key: &str) -> Option<Fields> {
        let other_members = base.iter().filter(|(name, _)| *name != key);
        decoded_fields(
            self.name,
            &Json::Object(other_members.map(|(name, value)| (name.clone(), value.clone())).collect()),
        )
    }
}

/// Returns the new value of a member: `target`, merged into the present value `written_value`, which was parsed as
/// `current`. In an object, only the members that differ change.
fn merge_value(written_value: Option<&Json>, current: Option<&Json>, target: &Json) -> Json {
    let (Some(Json::Object(written)), Some(Json::Object(current)), Json::Object(target)) =
        (written_value, current, target)
    else {
        return target.clone();
    };
    let mut merged = written.clone();
    merged.retain(|name, _| !current.contains_key(name) || target.contains_key(name));
    for (name, value) in target.iter().filter(|(name, value)| current.get(*name) != Some(*value)) {
        merged.insert(name.clone(), merge_value(written.get(name), current.get(name), value));
    }
    Json::Object(merged)
}

/// The path of a member and its new value; without a value, the member is removed.
pub(super) type Difference = (Vec<String>, Option<Json>);

/// Returns the differences of two entries, recursing into objects.
pub(super) fn differences(old: &Fields, new: &Fields) -> Vec<Difference> {
    let mut differences = Vec::new();
    collect_differences(old, new, &[], &mut differences);
    differences
}

fn collect_differences(old: &Fields, new: &Fields, parent: &[String], differences: &mut Vec<Difference>) {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let path = [parent, std::slice::from_ref(name)].concat();
        match (old.get(name), new.get(name)) {
            (old, new) if old == new => {}
            (Some(Json::Object(old)), Some(Json::Object(new))) if !old.is_empty() && !new.is_empty() => {
                collect_differences(old, new, &path, differences);
            }
            (_, new) => differences.push((path, new.cloned())),
        }
    }
}
