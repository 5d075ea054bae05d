//! Describes each field of an entry (the configuration of one server) and each setting of `toolrack.toml` in one row.
//!
//! A row has the static facts of a field: its names, its kind, its default, the hidden parts and one line of
//! documentation. The reader of entries finds a field by the key of its row. The host's crate defines some rows itself,
//! with the code that reads and shows their fields. The schemas and the reference page in `docs/` are made from
//! the rows ([`schema`](crate::schema)). A test compares each row with the reader.

mod entry;
mod fields;
#[cfg(test)]
pub(crate) mod samples;
mod settings;

use serde_json::Value as Json;
use toolrack_host::{
    ServerSpec,
    spec::{Field, FieldScope, Http, Sandbox, Transport},
};

pub(crate) use entry::{
    ATTEMPTS, CONTAINER, CONTAINER_LIMITS, ENTRY, IDP, NOTES, OAUTH, SANDBOX, SANDBOX_LIMITS, TOOL_LISTS,
};
pub(crate) use settings::{
    AGENT, AUDIT, DEFAULTS, EGRESS, MODEL, POLICY, PRICE, PROFILE, PROFILE_LIMITS, RULE, SECONDS_RANGE, SERVE,
    SESSIONS, SHOW, TOOLRACK, TOOLS,
};

/// The suffixes of the name of a time, which give its unit. A time without a suffix is in seconds.
const UNITS: &[&str] = &["", "_s", "_sec", "_secs", "_seconds", "_ms"];

/// The static facts of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// The name of the field in Toolrack's own files.
    pub(crate) key: &'static str,
    /// The other names of the field, each with the program whose files have that name.
    pub(crate) aliases: &'static [(&'static str, &'static str)],
    pub(crate) kind: Kind,
    /// The transports whose servers have the field.
    pub(crate) servers: FieldScope,
    pub(crate) is_required: bool,
    /// Whether any object with this field is an entry. Toolrack recognizes files without `mcpServers` by such fields.
    pub(crate) is_characteristic: bool,
    /// Whether placeholders such as `${TOKEN}` are filled in when the server connects.
    pub(crate) is_filled: bool,
    /// Whether the field is a part of the server's identity, because it decides which program answers.
    pub(crate) is_identity: bool,
    pub(crate) hidden: Hidden,
    /// The field under which the value of this field is shown, if this field is an [alias](Self::is_alias).
    pub(crate) shown_as: Option<&'static str>,
    /// The setting of the spec that the field sets. `None` if no common code reads and shows the field.
    pub(crate) sets: Option<SpecSetting>,
    /// The default of the field, if it is a value.
    default_value: Option<fn() -> Json>,
    /// The default in words, for the documentation, if it is not a value.
    pub(crate) otherwise: &'static str,
    /// One line of documentation.
    pub(crate) about: &'static str,
}

/// The kind of value of a field.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Text,
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A whole number.
    Whole {
        min: u64,
        max: u64,
    },
    /// Any number from `min` to `max`.
    Number {
        min: f64,
        max: f64,
    },
    /// One of these numbers.
    Numbers(&'static [u64]),
    /// Seconds, or text with a unit.
    Time,
    /// Milliseconds, as other programs write a time.
    Milliseconds,
    /// Bytes, or text with a unit.
    Size {
        min: u64,
    },
    /// A list of texts.
    Texts,
    /// A list of TCP ports, each `min` or more.
    Ports {
        min: u16,
    },
    /// An object of texts.
    Map,
    /// An object of anything.
    Object,
    /// An object with these fields.
    Table(&'static Table),
    /// A list of objects with these fields.
    Tables(&'static Table),
    /// An object of entries by their names.
    Entries,
    /// A list of entries, each with its `name`.
    NamedEntries,
    /// One of several forms.
    Either(&'static [Kind]),
}

/// The fields of an object.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name of the table in the schemas and on the reference page.
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
    /// Whether an unknown field is an error. Otherwise, it is only a warning.
    pub(crate) is_closed: bool,
}

/// The hidden parts of a field in a shown entry. When Toolrack asks a user to agree to an entry, the user sees all of
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Nothing,
    /// Possible secrets: passwords in URLs, values of options such as `--api-key`, known tokens.
    Parts,
    /// Everything except placeholders.
    Everything,
}

/// The setting of a [`ServerSpec`] that a field sets. Common code reads and shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SpecSetting {
    /// A setting that the host's crate defines.
    Field(Field),
    /// The setting of the row with this key: the field is another name for it.
    SameAs(&'static str),
    /// A flag of the server's sandbox, to which the function returns a reference.
    SandboxFlag(fn(&mut Sandbox) -> &mut bool),
    /// A setting with its own code in the reader of entries.
    Other(fn(&ServerSpec) -> Json),
}

impl SpecSetting {
    /// Returns the value of the field in `spec`, in the form in which entries are shown. `None` if the field is not
    /// shown, or other code shows it.
    pub(crate) fn shown(&self, spec: &ServerSpec) -> Option<Json> {
        match self {
            Self::Field(field) => (field.shown)(spec),
            Self::Other(show) => Some(show(spec)),
            Self::SameAs(_) | Self::SandboxFlag(_) => None,
        }
    }

    /// Returns the default of the field, in the same form.
    pub(crate) fn default_value(&self) -> Option<Json> {
        match self {
            Self::Field(field) => Some((field.default)()),
            Self::SameAs(key) => ENTRY.row(key)?.default_value(),
            Self::SandboxFlag(flag_in) => Some(Json::Bool(*flag_in(&mut Sandbox::default()))),
            Self::Other(show) => Some(show(&ServerSpec::new(Transport::Http(Http::default())))),
        }
    }
}

impl Row {
    const fn new(key: &'static str, kind: Kind, about: &'static str) -> Self {
        Self {
            key,
            aliases: &[],
            kind,
            servers: FieldScope::Any,
            is_required: false,
            is_characteristic: false,
            is_filled: false,
            is_identity: false,
            hidden: Hidden::Nothing,
            shown_as: None,
            sets: None,
            default_value: None,
            otherwise: "",
            about,
        }
    }

    const fn aliases(self, aliases: &'static [(&'static str, &'static str)]) -> Self {
        Self { aliases, ..self }
    }

    const fn servers(self, servers: FieldScope) -> Self {
        Self { servers, ..self }
    }

    const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }

    const fn characteristic(self) -> Self {
        Self { is_characteristic: true, ..self }
    }

    const fn filled(self) -> Self {
        Self { is_filled: true, ..self }
    }

    const fn identity(self) -> Self {
        Self { is_identity: true, ..self }
    }

    const fn hidden(self, hidden: Hidden) -> Self {
        Self { hidden, ..self }
    }

    const fn shown_as(self, key: &'static str) -> Self {
        Self { shown_as: Some(key), ..self }
    }

    const fn sets(self, sets: SpecSetting) -> Self {
        Self { sets: Some(sets), ..self }
    }

    const fn by_default(self, value: fn() -> Json) -> Self {
        Self { default_value: Some(value), ..self }
    }

    const fn otherwise(self, otherwise: &'static str) -> Self {
        Self { otherwise, ..self }
    }

    /// Returns the names of the field: its key, and those of other programs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.key).chain(self.aliases.iter().map(|(name, _)| *name))
    }

    /// Returns whether the field sets the same as the field `shown_as`. For example, `disabled` is an alias of
    /// `enabled`.
    pub(crate) fn is_alias(&self) -> bool {
        self.shown_as.is_some()
    }

    /// Returns whether `name`, in the form of [`canonical`](crate::entry::canonical), is a name of this field. The name
    /// of a time may end in a unit, as in `call_timeout_ms`.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        // The first suffix of `UNITS` is empty.
        let suffixes = if self.kind.is_time() { UNITS } else { &UNITS[..1] };
        self.names().any(|field_name| name.strip_prefix(field_name).is_some_and(|suffix| suffixes.contains(&suffix)))
    }

    /// Returns the default of the field, if it is a value.
    pub(crate) fn default_value(&self) -> Option<Json> {
        match self.sets {
            Some(setting) => setting.default_value().filter(|value| !value.is_null()),
            None => self.default_value.map(|make_default| make_default()),
        }
    }
}

impl Kind {
    pub(crate) fn is_time(&self) -> bool {
        match self {
            Self::Time => true,
            Self::Either(kinds) => kinds.iter().any(Self::is_time),
            _ => false,
        }
    }

    /// Returns the bounds of a whole number.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Self::Whole { min, max } => Some((*min, *max)),
            _ => None,
        }
    }

    /// Returns the allowed words of a field, for a message.
    pub(crate) fn words(&self) -> String {
        let Self::Words(words) = self else { return String::new() };
        let quoted_words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
        match quoted_words.split_last() {
            Some((last_word, [])) => last_word.clone(),
            Some((last_word, other_words)) => format!("{} or {last_word}", other_words.join(", ")),
            None => String::new(),
        }
    }
}

impl Table {
    /// Returns the row of `key`.
    pub(crate) fn row(&self, key: &str) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// Returns the allowed words of the field `key`, for a message.
    pub(crate) fn words(&self, key: &str) -> String {
        self.row(key).map(|row| row.kind.words()).unwrap_or_default()
    }

    /// Returns the keys, in alphabetical order.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        let mut keys: Vec<_> = self.rows.iter().map(|row| row.key).collect();
        keys.sort_unstable();
        keys
    }
}
