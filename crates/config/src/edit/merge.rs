//! What a changed entry says: what was not changed stays as it is written, in its own words, and so does all that
//! Toolrack does not understand.
//!
//! No second table says which written fields speak of which of ours. Instead, the merge leaves a field out and reads
//! the entry again; and it reads what it is about to write before it writes it.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value as Json, json};
use toolrack_host::ServerSpec;

use super::{EditError, File};
use crate::{
    entry::{Decoded, Report, canonical, decode},
    node::{Member, Node},
    redact,
};

/// The members of an entry.
type Fields = Map<String, Json>;

/// Fields that belong together: another program reads one of them in the light of all.
const TOGETHER: &[&[&str]] = &[&["type", "command", "args", "url"], &["env", "inherit_env"]];

/// Reads `entry`, when it is a server, and the names of the members that no field of ours takes.
pub(super) fn read(name: &str, node: Node) -> Option<(ServerSpec, Vec<String>)> {
    let raw = Member { name: name.to_owned(), name_at: 0..0, node };
    let mut report = Report::new(None, name);
    match decode(&raw, &mut report) {
        Decoded::Server(spec) => Some((*spec, report.into_untaken())),
        Decoded::Switch(_) | Decoded::Broken => None,
    }
}

/// All that `entry` says, in our words.
fn fields_in(name: &str, entry: &Json) -> Option<Fields> {
    let (spec, _) = read(name, Node::from_json(entry))?;
    fields_of(redact::proposal(&spec))
}

fn fields_of(entry: Json) -> Option<Fields> {
    match tidy(entry) {
        Json::Object(fields) => Some(fields),
        _ => None,
    }
}

/// With whole numbers written as such: `60.0` and `60` are the same time.
fn tidy(value: Json) -> Json {
    match value {
        Json::Number(number) if number.is_f64() => Json::Number(whole_number(&number).unwrap_or(number)),
        Json::Array(items) => items.into_iter().map(tidy).collect(),
        Json::Object(members) => members.into_iter().map(|(name, member)| (name, tidy(member))).collect(),
        other => other,
    }
}

fn whole_number(number: &Number) -> Option<Number> {
    let text = number.as_f64().filter(|value| value.fract() == 0.0)?.to_string();
    text.parse::<i64>().ok().map(Number::from)
}

/// An entry that comes back.
pub(super) struct Returned<'a> {
    pub(super) name: &'a str,
    /// What the file has.
    pub(super) written: &'a Fields,
    /// As it was shown.
    pub(super) shown: &'a Json,
    /// As the editor sent it back.
    pub(super) sent: &'a Json,
    /// The same with the values of its hidden texts.
    pub(super) revealed: &'a Json,
}

impl Returned<'_> {
    /// What `file` is to say, in its words.
    pub(super) fn merged(&self, file: &dyn File) -> Result<Json, EditError> {
        let had = fields_in(self.name, &Json::Object(self.written.clone())).unwrap_or_default();
        let (wanted, changed) = self.wanted(&had);
        let mut base = self.written.clone();
        self.take_unknown(&mut base);
        if changed.is_empty() {
            return Ok(Json::Object(base));
        }
        if !file.is_ours_in(self.name) {
            return self.translated(file, base, (&had, &wanted), &changed);
        }
        let merge = Merge { name: self.name, had: &had, wanted: &wanted, changed: &changed };
        let attempts = [merge.in_place(base.clone()), merge.in_our_words(base.clone())];
        let fits = |merged: &Fields| fields_in(self.name, &Json::Object(merged.clone())).as_ref() == Some(&wanted);
        Ok(Json::Object(attempts.into_iter().find(fits).unwrap_or_else(|| self.anew(base, &wanted))))
    }

    /// The fields of the new entry, and which of them change. A field that came back as it was shown stays as the file
    /// has it, even where the view had it from elsewhere: the folder of a project, or what another file switched.
    fn wanted(&self, had: &Fields) -> (Fields, BTreeSet<String>) {
        let of = |entry: &Json| fields_in(self.name, entry).or_else(|| fields_of(entry.clone())).unwrap_or_default();
        let (shown, sent, revealed) = (of(self.shown), of(self.sent), of(self.revealed));
        let mut wanted = had.clone();
        let mut changed = BTreeSet::new();
        for field in shown.keys().chain(sent.keys()) {
            let is_as_shown = shown.get(field) == sent.get(field);
            if is_as_shown || had.get(field) == revealed.get(field) {
                continue;
            }
            changed.insert(field.clone());
            match revealed.get(field) {
                Some(value) => drop(wanted.insert(field.clone(), value.clone())),
                None => drop(wanted.shift_remove(field)),
            }
        }
        (wanted, changed)
    }

    /// Takes over the members that came back and are no fields of ours.
    fn take_unknown(&self, base: &mut Fields) {
        let unknown = read(self.name, Node::from_json(self.revealed)).map(|(_, unknown)| unknown).unwrap_or_default();
        for name in unknown {
            base.extend(self.revealed.get(&name).map(|value| (name, value.clone())));
        }
    }

    /// For the file of another program: the members in which its words for the old and the new entry differ.
    fn translated(
        &self,
        file: &dyn File,
        mut base: Fields,
        (had, wanted): (&Fields, &Fields),
        changed: &BTreeSet<String>,
    ) -> Result<Json, EditError> {
        let is_concerned = |field: &str| {
            let kin = TOGETHER.iter().enumerate().filter(|(_, kin)| kin.contains(&field));
            let mut kin = kin.map(|(at, kin)| at == 0 || kin.iter().any(|field| changed.contains(*field)));
            changed.contains(field) || kin.any(|is_concerned| is_concerned)
        };
        let speak = |fields: &Fields| {
            let part = fields.iter().filter(|(field, _)| is_concerned(field));
            let part: Fields = part.map(|(field, value)| (field.clone(), value.clone())).collect();
            file.translated(self.name, &Json::Object(part))
        };
        let Json::Object(new) = speak(wanted)? else {
            return Err(file.refused());
        };
        let old = speak(had).ok().and_then(|old| old.as_object().cloned()).unwrap_or_default();
        base.retain(|name, _| !old.contains_key(name) || new.contains_key(name));
        base.extend(new.into_iter().filter(|(name, value)| old.get(name) != Some(value)));
        let merged = Json::Object(base);
        // It may have been written in other words than those of this program.
        if fields_in(self.name, &merged).is_none() {
            file.translated(self.name, &Json::Object(wanted.clone()))
        } else {
            Ok(merged)
        }
    }

    /// All fields in our words, beside the members that are none of them.
    fn anew(&self, mut base: Fields, wanted: &Fields) -> Fields {
        let unknown = read(self.name, Node::from_json(&Json::Object(base.clone()))).map(|(_, unknown)| unknown);
        let unknown = unknown.unwrap_or_default();
        base.retain(|name, _| unknown.contains(name));
        base.extend(wanted.clone());
        base
    }
}

/// A change of what an entry of ours says.
struct Merge<'a> {
    name: &'a str,
    had: &'a Fields,
    wanted: &'a Fields,
    changed: &'a BTreeSet<String>,
}

impl Merge<'_> {
    /// Every changed field under the name that it is written with.
    fn in_place(&self, mut base: Fields) -> Fields {
        for field in self.changed {
            let named = |base: &Fields, name: &str| base.keys().find(|key| canonical(key) == name).cloned();
            let value = self.wanted.get(field);
            if field == "enabled"
                && let Some(key) = named(&base, "disabled")
            {
                base.insert(key, json!(value == Some(&json!(false))));
                continue;
            }
            let key = named(&base, field).or_else(|| match &*self.speakers(&base, field) {
                [key] => Some(key.clone()),
                _ => None,
            });
            let key = key.unwrap_or_else(|| field.clone());
            match value {
                Some(value) => {
                    let value = refined(base.get(&key), self.had.get(field), value);
                    base.insert(key, value);
                }
                None => drop(base.shift_remove(&key)),
            }
        }
        base
    }

    /// Every changed field under our name for it, with all fields that the same words set.
    fn in_our_words(&self, mut base: Fields) -> Fields {
        let mut concerned = self.changed.clone();
        for field in self.changed {
            for key in self.speakers(&base, field) {
                let without = self.without(&base, &key).unwrap_or_default();
                concerned.extend(self.had.keys().filter(|field| without.get(*field) != self.had.get(*field)).cloned());
                base.shift_remove(&key);
            }
        }
        base.extend(
            self.wanted
                .iter()
                .filter(|(field, _)| concerned.contains(*field))
                .map(|(field, value)| (field.clone(), value.clone())),
        );
        base
    }

    /// The written members that set `field`: those without which it would have another value.
    fn speakers(&self, base: &Fields, field: &str) -> Vec<String> {
        let before = fields_in(self.name, &Json::Object(base.clone())).unwrap_or_default();
        let speaks = |key: &&String| {
            // A member without which the entry is no server sets `field` only if it has one of our names.
            let is_base = TOGETHER[0].contains(&field) && !self.had.contains_key(&canonical(key));
            let after = self.without(base, key);
            canonical(key) == field || after.map_or(is_base, |after| after.get(field) != before.get(field))
        };
        base.keys().filter(speaks).cloned().collect()
    }

    /// What the entry says without one of its members; `None` when it is no server without it.
    fn without(&self, base: &Fields, key: &str) -> Option<Fields> {
        let rest = base.iter().filter(|(name, _)| *name != key);
        fields_in(self.name, &Json::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect()))
    }
}

/// `wanted` in the place of `written`, which was read as `had`: of an object, only the members that differ.
fn refined(written: Option<&Json>, had: Option<&Json>, wanted: &Json) -> Json {
    let (Some(Json::Object(written)), Some(Json::Object(had)), Json::Object(wanted)) = (written, had, wanted) else {
        return wanted.clone();
    };
    let mut merged = written.clone();
    merged.retain(|name, _| !had.contains_key(name) || wanted.contains_key(name));
    for (name, value) in wanted.iter().filter(|(name, value)| had.get(*name) != Some(*value)) {
        merged.insert(name.clone(), refined(written.get(name), had.get(name), value));
    }
    Json::Object(merged)
}

/// A value to be written, by the names on the way to its place; without a value, the member is removed.
pub(super) type Difference = (Vec<String>, Option<Json>);

/// Where two entries differ, with objects looked into.
pub(super) fn differences(old: &Fields, new: &Fields) -> Vec<Difference> {
    let mut found = Vec::new();
    collect(old, new, &[], &mut found);
    found
}

fn collect(old: &Fields, new: &Fields, at: &[String], found: &mut Vec<Difference>) {
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let path = [at, std::slice::from_ref(name)].concat();
        match (old.get(name), new.get(name)) {
            (old, new) if old == new => {}
            (Some(Json::Object(old)), Some(Json::Object(new))) if !old.is_empty() && !new.is_empty() => {
                collect(old, new, &path, found);
            }
            (_, new) => found.push((path, new.cloned())),
        }
    }
}
