//! Describes fields of a spec by rows. One row in [`spec.rs`](super) or [`bounds.rs`](super::bounds) makes
//!
//! - the field of the struct, with its documentation and its default;
//! - a [`Field`], with which other code reads entries (configurations of servers), shows what a user agrees to, and
//!   writes the JSON Schema and the reference page.
//!
//! A field with a row is a flag, a text, a list of texts, a time, a number or one of some words (`words!`). It holds no
//! placeholder and no secret, and it never decides which program answers.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{Http, Limits, ServerSpec, Stdio, Timeouts, Transport};

/// A row: a field of a spec, as an entry of a configuration sets it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Field {
    /// The key in an entry.
    pub key: &'static str,
    /// The documentation of the field, without the default.
    pub about: &'static str,
    /// The value that applies if neither the entry nor `default` has one.
    pub otherwise: &'static str,
    /// The servers that have the field.
    pub servers: FieldScope,
    /// The values that the field takes.
    pub kind: FieldKind,
    /// Returns the default value, in the form of [`Self::shown`].
    pub default: fn() -> Json,
    /// Sets the field. Returns `false` if the value has another kind, or if the server does not have the field.
    pub set: fn(&mut ServerSpec, FieldValue<'_>) -> bool,
    /// Returns the field's value as JSON: a time in seconds, and `null` if the field is not set. Returns `None` for a
    /// server that does not have the field.
    pub shown: fn(&ServerSpec) -> Option<Json>,
}

/// The servers that have a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldScope {
    /// All servers.
    Any,
    /// Child processes.
    Stdio,
    /// Endpoints.
    Http,
}

/// The values that a field takes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FieldKind {
    /// Yes or no.
    Flag,
    /// Any text.
    Text,
    /// A list of texts.
    Texts,
    /// A time.
    Time,
    /// A whole number.
    Number {
        /// The smallest value of an entry.
        min: u64,
        /// The largest value of an entry.
        max: u64,
    },
    /// One of these words.
    Words(&'static [&'static str]),
}

/// The value that an entry gives to a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// Yes or no.
    Flag(bool),
    /// A text, or a word.
    Text(&'a str),
    /// A list of texts.
    Texts(&'a [String]),
    /// A time.
    Time(Duration),
    /// A number.
    Number(u64),
}

/// A type that a field with a row can have.
pub(super) trait FieldType: Sized {
    const KIND: FieldKind;

    /// Returns the value; `None` if it is not of this type.
    fn read(field_value: FieldValue<'_>) -> Option<Self>;

    /// Returns the value as JSON, for [`Field::shown`].
    fn shown(&self) -> Json;
}

impl FieldType for bool {
    const KIND: FieldKind = FieldKind::Flag;

    fn read(field_value: FieldValue<'_>) -> Option<Self> {
        match field_value {
            FieldValue::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    fn shown(&self) -> Json {
        json!(self)
    }
}

impl FieldType for String {
    const KIND: FieldKind = FieldKind::Text;

    fn read(field_value: FieldValue<'_>) -> Option<Self> {
        match field_value {
            FieldValue::Text(text) => Some(text.to_owned()),
            _ => None,
        }
    }

    fn shown(&self) -> Json {
        json!(self)
    }
}

impl FieldType for Vec<String> {
    const KIND: FieldKind = FieldKind::Texts;

    fn read(field_value: FieldValue<'_>) -> Option<Self> {
        match field_value {
            FieldValue::Texts(texts) => Some(texts.to_vec()),
            _ => None,
        }
    }

    fn shown(&self) -> Json {
        json!(self)
    }
}

impl FieldType for Duration {
    const KIND: FieldKind = FieldKind::Time;

    fn read(field_value: FieldValue<'_>) -> Option<Self> {
        match field_value {
            FieldValue::Time(time) => Some(time),
            _ => None,
        }
    }

    fn shown(&self) -> Json {
        json!(self.as_secs_f64())
    }
}

/// Implements [`FieldType`] for types of numbers. A number that is too large becomes the largest number of the type.
macro_rules! numbers {
    ($($number:ty),+) => {
        $(impl FieldType for $number {
            const KIND: FieldKind = FieldKind::Number { min: 0, max: u32::MAX as u64 };

            fn read(field_value: FieldValue<'_>) -> Option<Self> {
                match field_value {
                    FieldValue::Number(number) => Some(Self::try_from(number).unwrap_or(Self::MAX)),
                    _ => None,
                }
            }

            fn shown(&self) -> Json {
                json!(self)
            }
        })+
    };
}

numbers!(u32, usize);

/// An optional field: without a value, a default from elsewhere applies.
impl<T: FieldType> FieldType for Option<T> {
    const KIND: FieldKind = T::KIND;

    fn read(field_value: FieldValue<'_>) -> Option<Self> {
        T::read(field_value).map(Some)
    }

    fn shown(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::shown)
    }
}

/// Returns the child process of a transport; `None` for another transport.
macro_rules! stdio {
    ($transport:expr) => {
        match $transport {
            Transport::Stdio(stdio) => Some(stdio),
            _ => None,
        }
    };
}

/// Returns the endpoint of a transport; `None` for another transport.
macro_rules! http {
    ($transport:expr) => {
        match $transport {
            Transport::Http(http) | Transport::Sse(http) => Some(http),
            _ => None,
        }
    };
}

/// A part of a spec whose fields have rows.
pub(super) trait SpecPart: Sized {
    /// Returns the part; `None` for a server that does not have it.
    fn of(spec: &ServerSpec) -> Option<&Self>;

    fn of_mut(spec: &mut ServerSpec) -> Option<&mut Self>;
}

/// Implements [`SpecPart`] for each part, by an expression for a shared reference and one for a mutable reference.
macro_rules! parts {
    ($($part:ident: $spec:ident => $shared:expr, $mutable:expr;)+) => {
        $(impl SpecPart for $part {
            fn of($spec: &ServerSpec) -> Option<&Self> {
                $shared
            }

            fn of_mut($spec: &mut ServerSpec) -> Option<&mut Self> {
                $mutable
            }
        })+
    };
}

parts! {
    ServerSpec: spec => Some(spec), Some(spec);
    Timeouts: spec => Some(&spec.timeouts), Some(&mut spec.timeouts);
    Limits: spec => Some(&spec.limits), Some(&mut spec.limits);
    Stdio: spec => stdio!(&spec.transport), stdio!(&mut spec.transport);
    Http: spec => http!(&spec.transport), http!(&mut spec.transport);
}

/// Gives access to the fields of a struct that have no row, in their order. A new field changes the type `Fields`, so
/// that no code can overlook it.
pub(super) trait FieldsWithoutRow {
    type Fields<'a>
    where
        Self: 'a;

    fn fields_without_row(&self) -> Self::Fields<'_>;
}

/// Makes the [`Field`] of a row.
macro_rules! field {
    ($part:ident.$field:ident, $key:expr, $about:expr, $servers:ident, $type:ty, $default:expr, $kind:expr, $otherwise:expr) => {
        $crate::spec::Field {
            key: $key,
            about: $about.trim_ascii_start(),
            otherwise: $otherwise,
            servers: $crate::spec::FieldScope::$servers,
            kind: $kind,
            default: || {
                let default: $type = $default;
                $crate::spec::fields::FieldType::shown(&default)
            },
            set: |spec, field_value| {
                let value = $crate::spec::fields::FieldType::read(field_value);
                let part = <$part as $crate::spec::fields::SpecPart>::of_mut(spec);
                let Some((part, value)) = part.zip(value) else { return false };
                part.$field = value;
                true
            },
            shown: |spec| {
                let part = <$part as $crate::spec::fields::SpecPart>::of(spec)?;
                Some($crate::spec::fields::FieldType::shown(&part.$field))
            },
        }
    };
}

/// Makes a struct of a spec: first the fields without a row, with their defaults, then those with rows. `range` limits
/// a number. `otherwise` is the text of the reference page for the value that applies if the entry sets none. `detail`
/// is documentation that only programs need.
macro_rules! spec {
    (
        $(#[$struct_about:meta])*
        pub struct $name:ident for $servers:ident {
            $($(#[$plain_about:meta])* pub $plain_field:ident: $plain_type:ty = $plain_default:expr,)*
        }
        rows {
            $(
                $(#[doc = $about:literal])+
                $field:ident: $type:ty = $default:expr
                    $(, range = $range:expr)? $(, otherwise = $otherwise:literal)? $(, detail = $detail:literal)?;
            )*
        }
    ) => {
        $(#[$struct_about])*
        pub struct $name {
            $($(#[$plain_about])* pub $plain_field: $plain_type,)*
            $(
                $(#[doc = $about])+
                $(#[doc = ""] #[doc = $detail])?
                #[doc = concat!("\n\nConfigured as `", stringify!($field), "`. Default `", stringify!($default), "`.")]
                pub $field: $type,
            )*
        }

        impl $name {
            /// The rows of its fields, in their order.
            pub const FIELDS: &[Field] = &[
                $(field!(
                    $name.$field, stringify!($field), concat!($($about),+), $servers, $type, $default,
                    kind!($type $(, $range)?), concat!($($otherwise)?)
                ),)*
            ];

            /// Returns the default of every field.
            fn with_defaults() -> Self {
                Self { $($plain_field: $plain_default,)* $($field: $default,)* }
            }
        }

        impl $crate::spec::fields::FieldsWithoutRow for $name {
            type Fields<'a> = ($(&'a $plain_type,)*);

            fn fields_without_row(&self) -> Self::Fields<'_> {
                ($(&self.$plain_field,)*)
            }
        }
    };
}

/// The values that a field of this type takes, within its range.
macro_rules! kind {
    ($type:ty) => {
        <$type as $crate::spec::fields::FieldType>::KIND
    };
    ($type:ty, $range:expr) => {
        $crate::spec::FieldKind::Number { min: $range.0, max: $range.1 }
    };
}

/// Makes an enum whose variants are words of the configuration.
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident {
            $($(#[$variant_about:meta])* $variant:ident $word:literal,)+
        }
    ) => {
        $(#[$about])*
        pub enum $name {
            $($(#[$variant_about])* $variant,)+
        }

        impl $name {
            /// The words of the configuration, in the order of the variants.
            pub const WORDS: &[&str] = &[$($word),+];

            /// Returns the configuration's word for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Parses a word of the configuration.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl $crate::spec::fields::FieldType for $name {
            const KIND: $crate::spec::FieldKind = $crate::spec::FieldKind::Words(Self::WORDS);

            fn read(field_value: $crate::spec::FieldValue<'_>) -> Option<Self> {
                match field_value {
                    $crate::spec::FieldValue::Text(word) => Self::parse(word),
                    _ => None,
                }
            }

            fn shown(&self) -> serde_json::Value {
                serde_json::Value::from(self.word())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::{super::PinMode, *};

    fn read_and_shown<T: FieldType>(field_value: FieldValue<'_>) -> Option<Json> {
        T::read(field_value).map(|value| value.shown())
    }

    #[test]
    fn each_type_of_a_row_takes_the_values_of_its_kind_alone() {
        let texts = ["a".to_owned(), "b".to_owned()];
        let time = Duration::from_millis(1500);
        let field_value = [
            FieldValue::Flag(true),
            FieldValue::Text("warn"),
            FieldValue::Texts(&texts),
            FieldValue::Time(time),
            FieldValue::Number(7),
        ];
        let read = |read: fn(FieldValue<'_>) -> Option<Json>| field_value.map(read);
        let (flag, word) = (Some(json!(true)), Some(json!("warn")));
        assert_eq!(read(read_and_shown::<bool>), [flag, None, None, None, None]);
        assert_eq!(read(read_and_shown::<Option<String>>), [None, word.clone(), None, None, None]);
        assert_eq!(read(read_and_shown::<PinMode>), [None, word, None, None, None]);
        assert_eq!(read(read_and_shown::<Vec<String>>), [None, None, Some(json!(["a", "b"])), None, None]);
        assert_eq!(read(read_and_shown::<Option<Duration>>), [None, None, None, Some(json!(1.5)), None]);
        assert_eq!(read(read_and_shown::<u32>), [None, None, None, None, Some(json!(7))]);
        assert_eq!(read_and_shown::<u32>(FieldValue::Number(u64::MAX)), Some(json!(u32::MAX)));
        assert_eq!(read_and_shown::<PinMode>(FieldValue::Text("no word of it")), None);
        assert_eq!(None::<String>.shown(), Json::Null);
    }

    #[test]
    fn a_row_sets_and_shows_its_field_where_the_server_has_it() {
        let (mut stdio, mut http) = (ServerSpec::stdio("x", [""; 0]), ServerSpec::http("https://x"));
        let field = Http::FIELDS.iter().find(|field| field.key == "open_timeout").unwrap();
        assert_eq!(((field.shown)(&stdio), (field.shown)(&http)), (None, Some((field.default)())));
        let field_value = FieldValue::Time(Duration::from_secs(77));
        assert_eq!(((field.set)(&mut stdio, field_value), (field.set)(&mut http, field_value)), (false, true));
        assert_eq!((field.shown)(&http), Some(json!(77.0)));
        assert!(!(field.set)(&mut http, FieldValue::Flag(true)));
    }
}
