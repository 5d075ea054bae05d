//! Maps (server, tool) to the name that a model sees.
//!
//! Model providers accept `[A-Za-z0-9_-]` and 64 or 128 characters (the *cap*); servers choose any name. The mapping is
//! never reversed: to get the pair, look the name up in the map of [`assign`].
//!
//! # The rule
//!
//! A pair gets its *plain* name, such as `mcp__github__create_issue`, only when that name could belong to no other
//! pair. In every other case the name ends in `_` and 10 hex digits of SHA-256 over the pair. A name is plain when
//!
//! 1. no character was replaced: both parts consist of `[A-Za-z0-9_-]` and are not empty;
//! 2. it splits in only one way: the first part neither contains the separator nor overlaps with it (in the style
//!    `mcp__server__tool`, the servers `a__b` and `a_` break this rule, and in `server_tool` every server with `_`);
//! 3. it fits the cap, and begins with a letter or `_` (Gemini requires that);
//! 4. it does not end in the form of a suffix.
//!
//! All four rules look only at the pair, so a name never depends on other servers or tools. A new server, or a tool
//! that comes or goes, renames nothing, and the order does not matter. That holds for every style that shows the
//! server; see [`NameStyle::is_stable`]. A style that hides the server (`tool`) cannot guarantee this. If two servers
//! have a tool of the same name, both tools get the suffix. They lose it when one of the tools is removed.
//!
//! Two different pairs never share a name, even if a hostile server chooses the names of its tools: rule 4 keeps plain
//! names and suffixed names apart. An attacker needs about 2^20 attempts to find two tools whose suffixed names are
//! equal; both then get more digits, 20 and then 40. The name of a pair depends on another pair only in this case.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The lengths of a suffix, in hex digits: 10, and a longer one only where two names with shorter suffixes are equal.
const SUFFIX_DIGITS: [usize; 3] = [10, 20, 40];

/// The maximum number of literal characters in a template, so that every cap leaves room for the names.
const MAX_LITERAL_CHARS: usize = 16;

/// The way in which a name is built from a pair (server, tool).
///
/// Written in a configuration as `mcp__server__tool`, `server_tool`, `mcp_server__tool`, `tool`, or as a template
/// with `{server}` and `{tool}`, such as `x-{tool}--{server}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum NameStyle {
    /// `mcp__{server}__{tool}`. Stable.
    #[default]
    McpServerTool,
    /// `{server}_{tool}`. Stable, but if the name of a server contains `_`, all of its tools have the suffix.
    ServerTool,
    /// `mcp_{server}__{tool}`. Stable.
    McpUnderscore,
    /// `{tool}`. Not stable: a second server with a tool of that name renames the first one's.
    Tool,
    /// A user's template. Stable if it shows the server.
    Template(Template),
}

impl NameStyle {
    /// The styles with a name in the configuration, for programs that accept a tool by any of its usual names.
    pub const PRESETS: [Self; 4] = [Self::McpServerTool, Self::ServerTool, Self::McpUnderscore, Self::Tool];

    /// Returns whether adding a server never renames another server's tools under this style.
    pub fn is_stable(&self) -> bool {
        matches!(self.form(), Form::Both { .. })
    }

    fn form(&self) -> Form<'_> {
        let server_first = |head, separator| Form::Both { head, first: Part::Server, separator, tail: "" };
        match self {
            Self::McpServerTool => server_first("mcp__", "__"),
            Self::ServerTool => server_first("", "_"),
            Self::McpUnderscore => server_first("mcp_", "__"),
            Self::Tool => Form::ToolOnly { head: "", tail: "" },
            Self::Template(template) => template.form(),
        }
    }
}

impl fmt::Display for NameStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::McpServerTool => "mcp__server__tool",
            Self::ServerTool => "server_tool",
            Self::McpUnderscore => "mcp_server__tool",
            Self::Tool => "tool",
            Self::Template(template) => &template.text,
        })
    }
}

impl FromStr for NameStyle {
    type Err = BadNameStyle;

    fn from_str(text: &str) -> Result<Self, BadNameStyle> {
        match Self::PRESETS.into_iter().find(|preset| preset.to_string() == text) {
            Some(preset) => Ok(preset),
            None => Template::parse(text).map(Self::Template),
        }
    }
}

/// A checked naming template; made by parsing a [`NameStyle`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Template {
    /// The template as the user wrote it.
    text: String,
    /// The bytes of literal text before the first placeholder.
    head_length: usize,
    /// The first of the two parts, and the bytes of literal text between both placeholders; `None` without `{server}`.
    middle: Option<(Part, usize)>,
}

/// The reason why a text is no [`NameStyle`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "naming {given:?} cannot be used: {problem}; write mcp__server__tool, server_tool, mcp_server__tool, tool, \
     or a template such as {{server}}--{{tool}}"
)]
pub struct BadNameStyle {
    /// The text.
    pub given: String,
    /// The problem, as a clause in lower case.
    pub problem: &'static str,
}

const SERVER: &str = "{server}";
const TOOL: &str = "{tool}";

impl Template {
    fn parse(text: &str) -> Result<Self, BadNameStyle> {
        let bad_style = |problem| BadNameStyle { given: text.to_owned(), problem };
        if text.matches(TOOL).count() != 1 {
            return Err(bad_style("it must hold {tool} exactly once"));
        }
        if text.matches(SERVER).count() > 1 {
            return Err(bad_style("it may hold {server} only once"));
        }
        let template = Self::find_placeholders(text);
        let literals = match template.form() {
            Form::Both { separator: "", .. } => {
                return Err(bad_style("something must separate {server} from {tool}"));
            }
            Form::Both { head, separator, tail, .. } => [head, separator, tail].concat(),
            Form::ToolOnly { head, tail } => [head, tail].concat(),
        };
        if literals.chars().any(|c| !is_name_char(c)) {
            return Err(bad_style("apart from {server} and {tool} it may contain only A-Z a-z 0-9 _ -"));
        }
        if literals.len() > MAX_LITERAL_CHARS {
            return Err(bad_style("its fixed text is longer than 16 characters"));
        }
        Ok(template)
    }

    /// Finds the placeholders. The caller has checked that the text holds `{tool}` once and `{server}` at most once.
    fn find_placeholders(text: &str) -> Self {
        let tool = text.find(TOOL).unwrap_or_default();
        let (head_length, middle) = match text.find(SERVER) {
            None => (tool, None),
            Some(server) if server < tool => (server, Some((Part::Server, tool - server - SERVER.len()))),
            Some(server) => (tool, Some((Part::Tool, server - tool - TOOL.len()))),
        };
        Self { text: text.to_owned(), head_length, middle }
    }

    fn form(&self) -> Form<'_> {
        let (head, rest) = self.text.split_at(self.head_length);
        match self.middle {
            None => Form::ToolOnly { head, tail: &rest[TOOL.len()..] },
            Some((first, separator_length)) => {
                let (first_length, second_length) = match first {
                    Part::Server => (SERVER.len(), TOOL.len()),
                    Part::Tool => (TOOL.len(), SERVER.len()),
                };
                let (separator, rest) = rest[first_length..].split_at(separator_length);
                Form::Both { head, first, separator, tail: &rest[second_length..] }
            }
        }
    }
}

/// The longest model-visible name, in characters. All characters are ASCII, so this is the number of bytes as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameCap {
    /// 64: OpenAI, compatible APIs, and Gemini.
    #[default]
    Chars64,
    /// 128: the maximum that MCP recommends, and that Anthropic accepts.
    Chars128,
}

impl NameCap {
    /// Returns the cap as a number of characters.
    pub const fn chars(self) -> usize {
        match self {
            Self::Chars64 => 64,
            Self::Chars128 => 128,
        }
    }
}

/// The treatment of `-` in the names of servers and tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dashes {
    /// `-` stays.
    #[default]
    Keep,
    /// `-` becomes `_`, as in Qbit. Two pairs that then have the same name both get a suffix, so names are not stable.
    Underscore,
}

/// The rules by which model-visible names are made: style, length, and dashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Naming {
    /// The style.
    pub style: NameStyle,
    /// The longest name.
    pub cap: NameCap,
    /// The treatment of `-` in both parts. The fixed text of a template stays unchanged.
    pub dashes: Dashes,
}

impl From<(NameStyle, NameCap)> for Naming {
    fn from((style, cap): (NameStyle, NameCap)) -> Self {
        Self { style, cap, dashes: Dashes::Keep }
    }
}

impl Naming {
    /// Returns whether adding a server never renames another server's tools.
    pub fn is_stable(&self) -> bool {
        self.dashes == Dashes::Keep && self.style.is_stable()
    }

    /// Returns whether a tool of `server` can have the model-visible name `name`, judging by the two names only. For a
    /// name with a suffix, this can be true for several servers. For a name without one, it is true for at most one
    /// server if the style shows the server and dashes are kept.
    pub fn may_produce(&self, server: &str, name: &str) -> bool {
        match self.dashes {
            Dashes::Keep => self.style.form().may_produce(server, name),
            Dashes::Underscore => self.style.form().may_produce(&server.replace('-', "_"), name),
        }
    }

    /// Gives each pair (server, name) its model-visible name, as a catalog does for tools. Use this for other items
    /// that servers name, such as prompts. A pair that occurs twice counts once.
    pub fn assign<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<(&'a str, &'a str), String> {
        assign(self, pairs)
    }
}

/// Gives each pair (server, tool) its model-visible name; a pair that occurs twice counts once.
///
/// Every name consists of `[A-Za-z0-9_-]`, begins with a letter or `_`, is not longer than the cap of `naming`, and
/// belongs to one pair only. The order of `pairs` does not matter. The module's documentation says which names have a
/// suffix.
pub(crate) fn assign<'a>(
    naming: &Naming,
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<(&'a str, &'a str), String> {
    let pairs: BTreeSet<_> = pairs.into_iter().collect();
    let (form, cap) = (naming.style.form(), naming.cap);
    let mut pairs_by_name: BTreeMap<String, Vec<_>> = BTreeMap::new();
    let mut unnamed_pairs = Vec::new();
    for pair in pairs {
        let proposal = match naming.dashes {
            Dashes::Keep => form.propose(cap, pair),
            Dashes::Underscore => form.propose(cap, (&pair.0.replace('-', "_"), &pair.1.replace('-', "_"))),
        };
        match proposal {
            Proposal::Plain(name) => pairs_by_name.entry(name).or_default().push(pair),
            Proposal::Stem(stem) => unnamed_pairs.push((pair, stem)),
        }
    }
    let mut names = BTreeMap::new();
    for (name, pairs_of_name) in pairs_by_name {
        match pairs_of_name[..] {
            [pair] => {
                names.insert(pair, name);
            }
            // Two pairs share a plain name only if the style hides the server or dashes are replaced.
            _ => unnamed_pairs.extend(pairs_of_name.into_iter().map(|pair| (pair, name.clone()))),
        }
    }
    add_suffixes(cap, unnamed_pairs, &mut names);
    names
}

/// Names the pairs that need a suffix, with as many digits as are needed to distinguish them.
fn add_suffixes<'a>(
    cap: NameCap,
    mut unnamed_pairs: Vec<((&'a str, &'a str), String)>,
    names: &mut BTreeMap<(&'a str, &'a str), String>,
) {
    let [.., max_digits] = SUFFIX_DIGITS;
    for digits in SUFFIX_DIGITS {
        let mut pairs_by_name: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (pair, stem) in unnamed_pairs.drain(..) {
            pairs_by_name.entry(with_suffix(&stem, pair, digits, cap)).or_default().push((pair, stem));
        }
        for (name, pairs_of_name) in pairs_by_name {
            if pairs_of_name.len() == 1 || digits == max_digits {
                names.extend(pairs_of_name.into_iter().map(|(pair, _)| (pair, name.clone())));
            } else {
                unnamed_pairs.extend(pairs_of_name);
            }
        }
    }
}

/// A placeholder of a style.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Server,
    Tool,
}

/// The pieces of a style: literal text (`head`, `separator`, `tail`) around one or two parts.
#[derive(Clone, Copy)]
enum Form<'s> {
    Both { head: &'s str, first: Part, separator: &'s str, tail: &'s str },
    ToolOnly { head: &'s str, tail: &'s str },
}

/// The name that a pair gets by itself, before other pairs are considered.
enum Proposal {
    /// A name that no other pair can have, if the style shows the server and dashes are kept.
    Plain(String),
    /// A name that another pair may get as well; it needs a suffix.
    Stem(String),
}

impl Form<'_> {
    /// Returns the name of a pair by rules 1 to 4 in the module's documentation, and whether it needs a suffix.
    fn propose(self, cap: NameCap, (server, tool): (&str, &str)) -> Proposal {
        let (mut name, has_one_owner) = match self {
            Self::ToolOnly { head, tail } => ([head, &sanitise(tool), tail].concat(), is_name(tool)),
            Self::Both { head, first, separator, tail } => {
                let (first, second) = match first {
                    Part::Server => (server, tool),
                    Part::Tool => (tool, server),
                };
                // Splitting at the first separator must return `first`, for any second part.
                let first_and_separator = [first, separator].concat();
                let splits_in_one_way = first_and_separator.find(separator) == Some(first.len());
                let name = [head, &sanitise(first), separator, &sanitise(second), tail].concat();
                (name, splits_in_one_way && is_name(first) && is_name(second))
            }
        };
        let has_valid_start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !has_valid_start {
            name.insert(0, '_');
        }
        if has_one_owner && has_valid_start && name.len() <= cap.chars() && !ends_like_suffix(&name) {
            Proposal::Plain(name)
        } else {
            Proposal::Stem(name)
        }
    }
}

impl Form<'_> {
    /// Does the work of [`Naming::may_produce`], for names whose dashes are kept.
    fn may_produce(self, server: &str, name: &str) -> bool {
        let Self::Both { head, first, separator, tail } = self else {
            return true;
        };
        if !ends_like_suffix(name) {
            let parts = name.strip_prefix(head).and_then(|rest| rest.strip_suffix(tail)?.split_once(separator));
            return parts.is_some_and(|(first_part, second_part)| {
                server == if first == Part::Server { first_part } else { second_part }
            });
        }
        let stem = name.rsplit_once('_').map_or(name, |(stem, _)| stem);
        let beginning = match first {
            Part::Server => [head, &sanitise(server), separator].concat(),
            // The server comes last, where a long name is cut.
            Part::Tool => return true,
        };
        // `propose` puts a `_` before a name with an invalid first character, and `with_suffix` cuts a stem that is too
        // long, perhaps within this beginning.
        [Some(stem), stem.strip_prefix('_')]
            .into_iter()
            .flatten()
            .any(|stem| stem.starts_with(&beginning) || beginning.starts_with(stem))
    }
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Returns whether a part needs no change to be in a name.
fn is_name(part: &str) -> bool {
    !part.is_empty() && part.chars().all(is_name_char)
}

/// Replaces each character that a name cannot have by `_`.
fn sanitise(part: &str) -> String {
    part.chars().map(|c| if is_name_char(c) { c } else { '_' }).collect()
}

/// Returns whether a name ends as names with a suffix do: in `_` and as many hex digits as a suffix can have.
fn ends_like_suffix(name: &str) -> bool {
    name.rsplit_once('_').is_some_and(|(_, end)| {
        SUFFIX_DIGITS.contains(&end.len()) && end.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Returns the stem, cut if it is too long, and a suffix of `digits` hex digits of the pair's hash.
fn with_suffix(stem: &str, (server, tool): (&str, &str), digits: usize, cap: NameCap) -> String {
    let mut hash = Sha256::new();
    // The length prefix makes the encoding of the pair unambiguous.
    hash.update((server.len() as u64).to_be_bytes());
    hash.update(server);
    hash.update(tool);
    // Each byte has two digits.
    let hex = HEXLOWER.encode(&hash.finalize()[..digits / 2]);
    // A stem is ASCII, so any offset is a boundary.
    let stem_length = stem.len().min(cap.chars() - digits - 1);
    format!("{}_{hex}", &stem[..stem_length])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named<'a>(
        style: &NameStyle,
        cap: NameCap,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> BTreeMap<(&'a str, &'a str), String> {
        assign(&Naming::from((style.clone(), cap)), pairs)
    }

    fn name(style: &NameStyle, server: &str, tool: &str) -> String {
        let naming = Naming::from((style.clone(), NameCap::Chars64));
        assign(&naming, [(server, tool)]).remove(&(server, tool)).unwrap()
    }

    #[test]
    fn dashes_become_underscores_and_colliding_names_stay_distinct() {
        let naming = Naming { dashes: Dashes::Underscore, ..Naming::default() };
        let pair = ("my-server", "list-files");
        assert_eq!(naming.assign([pair])[&pair], "mcp__my_server__list_files");
        let both = naming.assign([pair, ("my_server", "list-files"), ("other", "a-b")]);
        assert!(is_suffixed(&both[&pair]) && is_suffixed(&both[&("my_server", "list-files")]), "{both:?}");
        assert_ne!(both[&pair], both[&("my_server", "list-files")]);
        assert_eq!(both[&("other", "a-b")], "mcp__other__a_b");
        assert!(!naming.is_stable() && Naming::default().is_stable());
    }

    fn is_suffixed(name: &str) -> bool {
        ends_like_suffix(name)
    }

    /// Words that often lead to equal names: short ones, made of the few characters that the rules treat specially.
    fn word() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => "[ab_.é-]{0,4}",
            2 => "[a-c]{1,3}",
            1 => "[a_]{1,2}_[0-9a]{10}",
            1 => "[ab._]{50,140}",
            1 => any::<String>(),
        ]
    }

    fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
        prop::collection::vec((word(), word()), 0..24)
    }

    fn style() -> impl Strategy<Value = NameStyle> {
        prop_oneof![
            Just(NameStyle::McpServerTool),
            Just(NameStyle::ServerTool),
            Just(NameStyle::McpUnderscore),
            Just(NameStyle::Tool),
            prop::sample::select(vec![
                "{tool}__{server}",
                "{server}-{tool}",
                "_{tool}_a_{server}_",
                "9{server}aa{tool}",
                "t-{tool}"
            ])
            .prop_map(|text| text.parse().unwrap()),
        ]
    }

    fn stable_style() -> impl Strategy<Value = NameStyle> {
        style().prop_map(|style| if style.is_stable() { style } else { NameStyle::ServerTool })
    }

    fn cap() -> impl Strategy<Value = NameCap> {
        prop::sample::select(vec![NameCap::Chars64, NameCap::Chars128])
    }

    fn borrowed(pairs: &[(String, String)]) -> impl DoubleEndedIterator<Item = (&str, &str)> + Clone {
        pairs.iter().map(|(server, tool)| (server.as_str(), tool.as_str()))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn two_pairs_never_share_a_name(style in style(), cap in cap(), pairs in pairs()) {
            let names = named(&style, cap, borrowed(&pairs));
            let distinct: BTreeSet<_> = names.values().collect();
            prop_assert_eq!(distinct.len(), names.len());
            prop_assert_eq!(names.len(), borrowed(&pairs).collect::<BTreeSet<_>>().len());
        }

        #[test]
        fn every_provider_accepts_every_name(style in style(), cap in cap(), pairs in pairs()) {
            for name in named(&style, cap, borrowed(&pairs)).values() {
                prop_assert!(name.len() <= cap.chars(), "{name}");
                prop_assert!(name.chars().all(is_name_char), "{name}");
                prop_assert!(name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'), "{name}");
            }
        }

        #[test]
        fn the_order_of_servers_and_tools_does_not_matter(style in style(), cap in cap(), pairs in pairs()) {
            prop_assert_eq!(named(&style, cap, borrowed(&pairs)), named(&style, cap, borrowed(&pairs).rev()));
        }

        #[test]
        fn an_added_tool_renames_no_other_tool(style in stable_style(), cap in cap(), old in pairs(), new in pairs()) {
            let before = named(&style, cap, borrowed(&old));
            let after = named(&style, cap, borrowed(&old).chain(borrowed(&new)));
            for (pair, name) in &before {
                prop_assert_eq!(after.get(pair), Some(name));
            }
        }

        #[test]
        fn a_name_may_be_of_its_own_server(style in style(), cap in cap(), pairs in pairs(), keeps in any::<bool>()) {
            let naming = Naming { style, cap, dashes: if keeps { Dashes::Keep } else { Dashes::Underscore } };
            for ((server, _), name) in assign(&naming, borrowed(&pairs)) {
                prop_assert!(naming.may_produce(server, &name), "{server} {name}");
            }
        }

        #[test]
        fn a_style_survives_being_written_and_read(style in style()) {
            prop_assert_eq!(style.to_string().parse::<NameStyle>().unwrap(), style);
        }

        #[test]
        fn reading_a_style_never_panics(text in "[a{}_é]{0,6}([{]server[}])?[a-]{0,3}([{]tool[}])?.{0,3}") {
            let _ = text.parse::<NameStyle>();
        }
    }

    #[test]
    fn ordinary_names_are_plain() {
        assert_eq!(name(&NameStyle::McpServerTool, "github", "create_issue"), "mcp__github__create_issue");
        assert_eq!(name(&NameStyle::McpServerTool, "my-server_2", "__x"), "mcp__my-server_2____x");
        assert_eq!(name(&NameStyle::ServerTool, "git-hub", "create_issue"), "git-hub_create_issue");
        assert_eq!(name(&NameStyle::McpUnderscore, "github", "a__b"), "mcp_github__a__b");
        assert_eq!(name(&NameStyle::Tool, "github", "constructor"), "constructor");
        assert_eq!(name(&"{tool}-at-{server}".parse().unwrap(), "fs", "read"), "read-at-fs");
    }

    #[test]
    fn a_plain_name_is_of_one_server_only() {
        let style = NameStyle::McpServerTool;
        let naming = Naming { style: style.clone(), ..Naming::default() };
        let owners = |name: &str| {
            let servers = ["git", "git-hub", "github", "hub", "git.hub", "git_hub", "mcp", "echo"];
            servers.into_iter().filter(|server| naming.may_produce(server, name)).collect::<Vec<_>>()
        };
        assert_eq!(owners("mcp__github__echo"), ["github"]);
        assert_eq!(owners("mcp__git__hub__echo"), ["git"]);
        assert_eq!(owners("mcp__git-hub__echo"), ["git-hub"]);
        assert_eq!(owners(&name(&style, "git.hub", "echo")), ["git.hub", "git_hub"]);
        assert_eq!(owners("echo"), [""; 0]);
        assert!(Naming { style: NameStyle::Tool, ..Naming::default() }.may_produce("git", "echo"));
    }

    #[test]
    fn a_name_that_another_pair_could_have_carries_the_suffix() {
        for (server, tool) in [("a__b", "c"), ("a_", "c"), ("a.b", "c"), ("a", "c d"), ("", "c"), ("a", ""), ("é", "c")]
        {
            let name = name(&NameStyle::McpServerTool, server, tool);
            assert!(is_suffixed(&name), "{server}/{tool} is {name}");
        }
        assert!(is_suffixed(&name(&NameStyle::ServerTool, "my_server", "x")));
        assert!(is_suffixed(&name(&NameStyle::Tool, "s", "3d")));
        assert!(is_suffixed(&name(&NameStyle::McpServerTool, "a", &"x".repeat(58))));
        assert!(!is_suffixed(&name(&NameStyle::McpServerTool, "a", &"x".repeat(56))));
    }

    #[test]
    fn a_tool_cannot_take_the_suffixed_name_of_another() {
        let victim = name(&NameStyle::McpServerTool, "a", "x.y");
        let forged = victim.strip_prefix("mcp__a__").unwrap().to_owned();
        let names = named(&NameStyle::McpServerTool, NameCap::Chars64, [("a", "x.y"), ("a", forged.as_str())]);
        assert_eq!(names[&("a", "x.y")], victim);
        assert_ne!(names[&("a", forged.as_str())], victim);
    }

    #[test]
    fn tools_of_one_name_both_get_a_suffix_where_the_server_is_hidden() {
        let names = named(&NameStyle::Tool, NameCap::Chars64, [("a", "read"), ("b", "read"), ("b", "write")]);
        assert!(is_suffixed(&names[&("a", "read")]) && is_suffixed(&names[&("b", "read")]));
        assert_eq!(names[&("b", "write")], "write");
        assert!(!NameStyle::Tool.is_stable() && NameStyle::ServerTool.is_stable());
    }

    #[test]
    fn the_suffix_is_the_hash_of_the_pair_with_the_server_length_in_front() {
        // printf '\0\0\0\0\0\0\0\1ab.c' | sha256sum
        assert_eq!(name(&NameStyle::McpServerTool, "a", "b.c"), "mcp__a__b_c_13c39538b3");
    }

    #[test]
    fn tools_with_the_same_ten_digits_get_longer_suffixes() {
        // A search through 1.3 million names found these two: they have the same stem, and their hashes begin with the
        // same ten digits.
        let (one, other) = ("\u{106}\u{106}\u{110}", "\u{112}\u{133}\u{115}");
        assert_eq!(name(&NameStyle::McpServerTool, "a", one), name(&NameStyle::McpServerTool, "a", other));
        let names = named(&NameStyle::McpServerTool, NameCap::Chars64, [("a", one), ("a", other)]);
        assert_ne!(names[&("a", one)], names[&("a", other)]);
        assert!(names[&("a", one)].starts_with("mcp__a______c8227c75c2") && is_suffixed(&names[&("a", one)]));
    }

    #[test]
    fn a_template_that_cannot_work_is_refused_with_the_reason() {
        for (text, problem) in [
            ("", "{tool} exactly once"),
            ("mcp_server_tool", "{tool} exactly once"),
            ("{tool}{tool}", "{tool} exactly once"),
            ("{server}{tool}", "must separate"),
            ("{server}.{tool}", "only A-Z"),
            ("{server}_{tool}_{server}", "only once"),
            ("{server}_____________________{tool}", "longer than 16"),
        ] {
            let error = text.parse::<NameStyle>().unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
