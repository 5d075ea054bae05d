//! Matches tool names with globs, which choose the shown tools of a server and the calls that a policy rule covers.
//!
//! In every glob `*` matches any text, `?` one byte, `[a-z]` one of a set, `{a,b}` one of several, and `\` escapes the
//! next character. All other characters, including `-`, `.` and `/`, match themselves; matching is case-sensitive; the
//! whole name must match.

use std::fmt;
use std::str::FromStr;

use globset::{GlobBuilder, GlobMatcher, GlobSet, GlobSetBuilder};

mod spelling;

/// The longest glob in bytes.
const MAX_GLOB_BYTES: usize = 512;

/// The most globs in one list.
const MAX_LIST_LENGTH: usize = 1_000;

/// The reason why a glob or a list of globs was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadGlob {
    /// A glob that cannot be read.
    #[error("pattern {glob:?} cannot be used: {problem}")]
    Glob {
        /// The glob as the user wrote it, or its beginning.
        glob: String,
        /// The problem.
        problem: String,
    },
    /// A list that is too long.
    #[error(
        "a list of {length} patterns is too long: at most {MAX_LIST_LENGTH} are taken; join some with {{a,b}} or *"
    )]
    TooMany {
        /// The number of globs.
        length: usize,
    },
}

/// The filter for the shown tools of one server: `deny` wins over `allow`, and an empty `allow` allows all.
#[derive(Debug, Clone)]
pub struct ToolFilter {
    allow: Globs,
    deny: Globs,
}

/// A [`ToolFilter`]'s verdict on a tool, with the glob that decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterVerdict<'f> {
    /// The tool is shown.
    Yes,
    /// A glob of the deny list matches; this is the first one.
    Denied(&'f str),
    /// There is an allow list, and no glob of it matches.
    NotAllowed,
}

impl ToolFilter {
    /// Reads both lists.
    ///
    /// # Errors
    /// [`BadGlob`], which names the first invalid glob.
    pub fn new(allow: &[String], deny: &[String]) -> Result<Self, BadGlob> {
        Ok(Self { allow: Globs::new(allow)?, deny: Globs::new(deny)? })
    }

    /// Creates a filter that shows every tool.
    pub fn all() -> Self {
        Self { allow: Globs::default(), deny: Globs::default() }
    }

    /// Returns the allow list, as the user wrote it.
    #[must_use]
    pub fn allow(&self) -> &[String] {
        &self.allow.written
    }

    /// Returns the deny list, as the user wrote it.
    #[must_use]
    pub fn deny(&self) -> &[String] {
        &self.deny.written
    }

    /// Returns whether the tool with this name (the server's own) is shown.
    pub fn shows(&self, tool: &str) -> bool {
        self.verdict(tool) == FilterVerdict::Yes
    }

    /// Returns whether a tool is shown, as [`Self::shows`] does, and why not.
    pub fn verdict(&self, tool: &str) -> FilterVerdict<'_> {
        match self.deny.first_match(tool) {
            Some(glob) => FilterVerdict::Denied(glob),
            None if self.allow.is_empty() || self.allow.first_match(tool).is_some() => FilterVerdict::Yes,
            None => FilterVerdict::NotAllowed,
        }
    }
}

/// Compares the globs as written.
impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        self.allow.written == other.allow.written && self.deny.written == other.deny.written
    }
}

impl Default for ToolFilter {
    fn default() -> Self {
        Self::all()
    }
}

/// A list of globs, all matched in one pass.
#[derive(Debug, Clone, Default)]
struct Globs {
    /// The globs as the user wrote them.
    written: Vec<String>,
    set: GlobSet,
}

impl Globs {
    fn new(written: &[String]) -> Result<Self, BadGlob> {
        if written.len() > MAX_LIST_LENGTH {
            return Err(BadGlob::TooMany { length: written.len() });
        }
        let mut set = GlobSetBuilder::new();
        for glob in written {
            set.add(parse_glob(glob, glob)?);
        }
        let set = set.build().map_err(|error| bad_glob(&written.join(" "), &error))?;
        Ok(Self { written: written.to_vec(), set })
    }

    fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    fn first_match(&self, name: &str) -> Option<&str> {
        self.set.matches(name).into_iter().min().map(|index| self.written[index].as_str())
    }
}

/// A glob over pairs of server and tool, in the form of policies and of the command line.
///
/// `github/*` is every tool of one server, `fs-*/read_*` some tools of some servers. Without a `/`, the glob matches
/// tool names on any server: `create_*`, and `*` for every tool. So `github` is a tool with that name, and not a
/// server. The first `/` separates server and tool; a tool with a `/` in its name needs the server, as in `*/a/b`.
///
/// A pattern without a `/` may also have another spelling that users see: `server.tool`, a model-visible name of one of
/// the [presets](crate::NameStyle::PRESETS), and `mcp__server` for every tool of a server. Such a text can mean several
/// pairs: `a_b_c` is a tool of any server, `b_c` of the server `a`, and `c` of the server `a_b`. A rule that forbids or
/// confirms covers [every reading](Self::every_reading), a rule that allows [only certain
/// ones](Self::certain_readings).
#[derive(Debug, Clone)]
pub struct Pattern {
    /// The pattern as the user wrote it.
    written: String,
    server: Option<Glob>,
    tool: Glob,
    /// Whether both parts come from a model-visible name, in which `_` may stand for another character.
    is_sanitised: bool,
}

impl Pattern {
    /// Returns whether the pattern matches this tool of this server.
    pub fn matches(&self, server: &str, tool: &str) -> bool {
        let fits =
            |glob: &Glob, part: &str| glob.is_match(part) || (self.is_sanitised && glob.is_match_sanitised(part));
        self.server.as_ref().is_none_or(|glob| fits(glob, server)) && fits(&self.tool, tool)
    }

    /// Returns the specificity of the pattern for the tool, and then for the server.
    pub(crate) fn specificity(&self) -> (GlobSpecificity, GlobSpecificity) {
        (self.tool.specificity(), self.server.as_ref().map_or(GlobSpecificity::default(), Glob::specificity))
    }

    /// Returns whether the pattern has no server part and matches this model-visible name. So a rule may use the
    /// spelling that a model sees (`mcp__github__*`).
    pub fn matches_name(&self, name: &str) -> bool {
        self.server.is_none() && self.tool.is_match(name)
    }
}

impl FromStr for Pattern {
    type Err = BadGlob;

    fn from_str(written: &str) -> Result<Self, BadGlob> {
        let (server, tool) = match written.split_once('/') {
            Some((server, tool)) => (Some(server), tool),
            None => (None, written),
        };
        let glob = |part: &str| Glob::read(part, written);
        let server = server.map(glob).transpose()?;
        Ok(Self { written: written.to_owned(), server, tool: glob(tool)?, is_sanitised: false })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl PartialEq for Pattern {
    // The text determines the globs.
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Pattern {}

/// A glob over one text. The common ones (a name, a prefix, a suffix, any text) match without an automaton.
#[derive(Debug, Clone)]
pub(crate) struct Glob {
    kind: GlobKind,
    specificity: GlobSpecificity,
}

#[derive(Debug, Clone)]
enum GlobKind {
    Any,
    Exactly(Box<str>),
    BeginsWith(Box<str>),
    EndsWith(Box<str>),
    Automaton(Box<GlobMatcher>),
}

/// The specificity of a glob. A whole name is more specific than any other glob. Among other globs, one with more
/// literal characters outside of `[…]` and `{…}` is more specific.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GlobSpecificity {
    /// Whether the glob is a whole name, without wildcards.
    is_whole: bool,
    /// The literal characters outside of `[…]` and `{…}`.
    letters: usize,
}

impl Glob {
    /// Reads one glob; `written` is what the user wrote, for the error.
    pub(crate) fn read(glob: &str, written: &str) -> Result<Self, BadGlob> {
        let parsed = parse_glob(glob, written)?;
        let is_plain = |text: &str| !text.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let kind = match (glob, glob.strip_suffix('*'), glob.strip_prefix('*')) {
            ("*", ..) => GlobKind::Any,
            (name, ..) if is_plain(name) => GlobKind::Exactly(name.into()),
            (_, Some(prefix), _) if is_plain(prefix) => GlobKind::BeginsWith(prefix.into()),
            (_, _, Some(suffix)) if is_plain(suffix) => GlobKind::EndsWith(suffix.into()),
            _ => GlobKind::Automaton(Box::new(parsed.compile_matcher())),
        };
        Ok(Self { kind, specificity: GlobSpecificity::of(glob) })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        match &self.kind {
            GlobKind::Any => true,
            GlobKind::Exactly(name) => **name == *text,
            GlobKind::BeginsWith(prefix) => text.starts_with(&**prefix),
            GlobKind::EndsWith(suffix) => text.ends_with(&**suffix),
            GlobKind::Automaton(matcher) => matcher.is_match(text),
        }
    }

    /// Returns whether the glob matches a spelling that the text may have in a model-visible name. In such a name, `_`
    /// replaces every character that the name cannot have, and in some configurations also `-`. If nothing is replaced
    /// in the text, returns `false`, because [`Self::is_match`] is for such a text.
    fn is_match_sanitised(&self, text: &str) -> bool {
        let is_kept = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if text.chars().all(is_kept) {
            return false;
        }
        let keep_only =
            |is_kept: &dyn Fn(char) -> bool| text.chars().map(|c| if is_kept(c) { c } else { '_' }).collect::<String>();
        self.is_match(&keep_only(&|c| is_kept(c) || c == '-')) || self.is_match(&keep_only(&is_kept))
    }

    fn specificity(&self) -> GlobSpecificity {
        self.specificity
    }
}

impl GlobSpecificity {
    fn of(glob: &str) -> Self {
        let (mut letters, mut is_whole, mut is_escaped, mut depth) = (0, true, false, 0_usize);
        for c in glob.chars() {
            match c {
                _ if is_escaped => (is_escaped, letters) = (false, letters + usize::from(depth == 0)),
                '\\' => is_escaped = true,
                '*' | '?' => is_whole = false,
                '[' | '{' => (is_whole, depth) = (false, depth + 1),
                ']' | '}' if depth > 0 => depth -= 1,
                _ => letters += usize::from(depth == 0),
            }
        }
        Self { is_whole, letters }
    }
}

/// Reads one glob; `written` is what the user wrote, for the error.
fn parse_glob(glob: &str, written: &str) -> Result<globset::Glob, BadGlob> {
    if glob.is_empty() {
        return Err(bad_glob(written, &"it is empty, or one side of its / is empty; write * for any name"));
    }
    if written.len() > MAX_GLOB_BYTES {
        return Err(bad_glob(written, &format_args!("it is longer than {MAX_GLOB_BYTES} bytes")));
    }
    // A `*` matches any text, even with a `/` in it.
    GlobBuilder::new(&without_double_stars(glob))
        .literal_separator(false)
        .case_insensitive(false)
        .backslash_escape(true)
        .build()
        .map_err(|error| bad_glob(written, error.kind()))
}

/// Replaces `**` by `*`, which has the same meaning here; globset would treat it as path components.
fn without_double_stars(glob: &str) -> String {
    let mut result = String::with_capacity(glob.len());
    let (mut is_after_star, mut is_escaped) = (false, false);
    for c in glob.chars() {
        let is_star = c == '*' && !is_escaped;
        if !(is_star && is_after_star) {
            result.push(c);
        }
        is_after_star = is_star;
        is_escaped = c == '\\' && !is_escaped;
    }
    result
}

fn bad_glob(written: &str, problem: &dyn fmt::Display) -> BadGlob {
    let end = written.floor_char_boundary(MAX_GLOB_BYTES);
    BadGlob::Glob { glob: written[..end].to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filter(allow: &[&str], deny: &[&str]) -> ToolFilter {
        let owned = |list: &[&str]| list.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
        ToolFilter::new(&owned(allow), &owned(deny)).unwrap()
    }

    fn pattern(written: &str) -> Pattern {
        written.parse().unwrap()
    }

    /// Matches `*` and `?` in the simplest way, to compare the results with.
    fn reference(glob: &[u8], name: &[u8]) -> bool {
        match (glob.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), None) => reference(rest, name),
            (Some((b'*', rest)), Some((_, tail))) => reference(rest, name) || reference(glob, tail),
            (Some((b'?', rest)), Some((_, tail))) => reference(rest, tail),
            (Some((g, rest)), Some((n, tail))) => g == n && reference(rest, tail),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_matches_as_its_naive_implementation_does(glob in "[ab*?/._-]{1,6}", name in "[ab/._\n-]{0,6}") {
            let expected = reference(glob.as_bytes(), name.as_bytes());
            prop_assert_eq!(filter(&[&glob], &[]).shows(&name), expected);
            prop_assert_eq!(!filter(&[], &[&glob]).shows(&name), expected);
        }

        #[test]
        fn a_pattern_matches_as_its_naive_implementation_does(glob in "[ab*?._-]{1,6}", name in "[ab/._\n-]{0,6}") {
            prop_assert_eq!(pattern(&glob).matches("s", &name), reference(glob.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn deny_wins_over_every_allow(allow in prop::collection::vec("[ab*]{1,3}", 0..3), tool in "[ab]{1,3}") {
            let filter = ToolFilter::new(&allow, std::slice::from_ref(&tool)).unwrap();
            prop_assert_eq!(filter.verdict(&tool), FilterVerdict::Denied(&tool));
        }

        #[test]
        fn no_text_makes_reading_or_matching_panic(glob in any::<String>(), server in any::<String>(), tool in any::<String>()) {
            if let Ok(pattern) = glob.parse::<Pattern>() {
                pattern.matches(&server, &tool);
                prop_assert_eq!(pattern.to_string(), glob);
            }
        }
    }

    #[test]
    fn an_empty_filter_shows_everything() {
        assert!(ToolFilter::all().shows("anything at all"));
        assert_eq!(filter(&["read_*"], &[]).verdict("write_file"), FilterVerdict::NotAllowed);
        assert_eq!(filter(&[], &["x", "write_*", "*_file"]).verdict("write_file"), FilterVerdict::Denied("write_*"));
    }

    #[test]
    fn a_name_without_wildcards_matches_itself_only() {
        let filter = filter(&["get-sum"], &[]);
        assert!(filter.shows("get-sum"));
        for other in ["get_sum", "Get-Sum", "get-sum2", "my-get-sum", "get-su", ""] {
            assert!(!filter.shows(other), "{other}");
        }
    }

    #[test]
    fn a_star_crosses_slashes_dots_and_lines() {
        for name in ["a/b/c", ".hidden", "a\nb", "", "é漢"] {
            assert!(filter(&["*"], &[]).shows(name), "{name:?}");
        }
        assert!(filter(&["{read,write}_[a-f]?*"], &[]).shows("write_file"));
        assert!(filter(&[r"a\*b"], &[]).shows("a*b") && !filter(&[r"a\*b"], &[]).shows("axb"));
        assert!(filter(&[r"\**"], &[]).shows("*b") && !filter(&[r"\**"], &[]).shows("xb"));
    }

    #[test]
    fn a_pattern_is_for_one_server_or_for_any() {
        assert!(pattern("github/*").matches("github", "create_issue"));
        assert!(!pattern("github/*").matches("github-2", "create_issue"));
        assert!(pattern("create_*").matches("github", "create_issue"));
        assert!(pattern("*").matches("any", "thing"));
        assert!(!pattern("github").matches("github", "create_issue"));
        assert!(pattern("*/a/b").matches("s", "a/b") && !pattern("a/b").matches("s", "a/b"));
    }

    #[test]
    fn a_name_without_wildcards_is_more_specific_than_a_glob_and_longer_ones_more_than_shorter() {
        let rising = ["*", "{abc,def}*", "a*", "ab[cd]?", "a?bc*", "a", r"\*\*"].map(GlobSpecificity::of);
        assert!(rising.is_sorted(), "{rising:?}");
        assert!(rising[4] < rising[5] && rising[5].is_whole && !rising[4].is_whole);
        assert_eq!(GlobSpecificity::of("?"), GlobSpecificity::of("*"));
    }

    #[test]
    fn a_pattern_without_a_server_matches_model_visible_names_too() {
        assert!(pattern("mcp__github__*").matches_name("mcp__github__create_issue"));
        assert!(!pattern("github/*").matches_name("github/x"));
    }

    #[test]
    fn a_bad_pattern_is_named_in_the_error() {
        for (written, problem) in
            [("fs/[a", "unclosed"), ("a{b", "unclosed"), ("", "empty"), ("fs/", "empty"), ("/x", "empty")]
        {
            let error = written.parse::<Pattern>().unwrap_err().to_string();
            assert!(error.contains(&format!("{written:?}")) && error.contains(problem), "{error}");
        }
        let long = "é".repeat(MAX_GLOB_BYTES);
        assert!(ToolFilter::new(&[], &[long]).unwrap_err().to_string().contains("longer than 512 bytes"));
        let many = vec!["*".to_owned(); MAX_LIST_LENGTH + 1];
        assert_eq!(ToolFilter::new(&many, &[]).unwrap_err(), BadGlob::TooMany { length: MAX_LIST_LENGTH + 1 });
    }
}
