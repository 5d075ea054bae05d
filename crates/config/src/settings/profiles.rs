//! Reads `[[profiles]]`: selections of tools, each with its own MCP endpoint.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use toolrack_host::{Pattern, Quota, QuotaSet, Selection, ServerName, ShownAs, ToolProfile};

use crate::{
    document::Document,
    node::{Node, Value},
    problem::Problem,
    rows::{PROFILE, PROFILE_LIMITS, SHOW, Table},
    settings::unknown_key,
};

/// The maximum number of profiles in one file, and of `[[profiles.show]]` in one profile.
const MAX_TABLES: usize = 256;

/// The maximum number of bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 8 * 1024;

/// Profiles of tools by their names.
pub type ToolProfiles = BTreeMap<Arc<str>, Arc<ToolProfile>>;

/// Reads `profiles`. A profile with an error has no tools, so that no client sees more tools than it should.
pub(super) fn read(document: &Document, node: &Node) -> (ToolProfiles, Vec<Problem>) {
    let mut reader = ProfileReader { document, problems: Vec::new() };
    let mut profiles = ToolProfiles::new();
    for node in reader.tables("profiles", node) {
        let problems_before = reader.problems.len();
        let Some(name) = reader.name(node) else { continue };
        if profiles.contains_key(&*name) {
            reader.error("profiles.name", format!("two profiles have the name `{name}`"), &node.span);
        }
        let mut profile = reader.profile(node);
        if reader.problems.len() > problems_before {
            profile = ToolProfile::new(Selection::none());
        }
        profiles.insert(name, Arc::new(profile));
    }
    (profiles, reader.problems)
}

/// Reads the profiles of one file, and collects their problems.
struct ProfileReader<'a> {
    document: &'a Document,
    problems: Vec<Problem>,
}

impl ProfileReader<'_> {
    /// Adds an error in `field`, at the bytes `span` of the file.
    fn error(&mut self, field: &str, message: String, span: &Range<usize>) {
        let problem = Problem::error(message).field(field).hint("until then, the profile has no tools");
        self.problems.push(self.document.locate(problem, span.clone()));
    }

    /// Adds the error that the value of `field`, which is `node`, must be `expected`.
    fn report_invalid(&mut self, field: &str, expected: &str, node: &Node) {
        self.error(field, format!("`{field}` must be {expected}"), &node.span);
    }

    /// Returns the items of `node`, a list of at most [`MAX_TABLES`]. For any other value, adds an error and returns no
    /// items.
    fn tables<'n>(&mut self, field: &str, node: &'n Node) -> &'n [Node] {
        match &node.value {
            Value::List(tables) if tables.len() <= MAX_TABLES => tables,
            Value::List(_) => {
                self.report_invalid(field, &format!("a list of at most {MAX_TABLES} tables"), node);
                &[]
            }
            _ => {
                self.report_invalid(field, &format!("a list of tables: write `[[{field}]]` above each"), node);
                &[]
            }
        }
    }

    /// Adds an error if `node` is not a table, and for each member that `table` does not have.
    fn check_keys(&mut self, node: &Node, table: &Table) {
        let Some(members) = node.members() else { return self.report_invalid(table.title, "a table", node) };
        for member in members.iter().filter(|member| table.row(&member.name).is_none()) {
            let field = format!("{}.{}", table.title, member.name);
            self.error(&field, unknown_key(&field, member, table), &member.name_span);
        }
    }

    /// Reads the name of a profile, which is required.
    fn name(&mut self, profile: &Node) -> Option<Arc<str>> {
        let expected = "1 to 64 letters, digits, `-` and `_`";
        match profile.get("name") {
            None => self.error("profiles.name", "a profile must have a `name`".to_owned(), &profile.span),
            Some(member) => match member.node.as_text().filter(|name| ToolProfile::is_name(name)) {
                Some(name) => return Some(Arc::from(name)),
                None => self.report_invalid("profiles.name", expected, &member.node),
            },
        }
        None
    }

    /// Reads a profile without its name.
    fn profile(&mut self, node: &Node) -> ToolProfile {
        self.check_keys(node, PROFILE);
        let mut selection = Selection::all();
        if let Some(tools) = self.patterns(node, "tools") {
            selection = match &*tools {
                [] => Selection::none(),
                _ => selection.only(tools),
            };
        }
        selection = selection.without(self.patterns(node, "without").unwrap_or_default());
        let shown_tools = node.get("show").map(|member| self.tables("profiles.show", &member.node));
        let mut shown_names = BTreeMap::new();
        let mut profile = ToolProfile::new(selection);
        if let Some(limits) = node.get("limits") {
            profile = profile.with_quotas(self.limits(&limits.node));
        }
        for tool in shown_tools.unwrap_or_default() {
            let Some(((server, tool), shown_as)) = self.shown_tool(tool, &mut shown_names) else { continue };
            profile = profile.showing(server, tool, shown_as);
        }
        profile
    }

    /// Reads the quotas of a profile. [`Self::check_keys`] reports unknown names.
    fn limits(&mut self, node: &Node) -> QuotaSet {
        self.check_keys(node, PROFILE_LIMITS);
        let mut quotas = QuotaSet::default();
        let is_known = |name: &str| PROFILE_LIMITS.row(name).is_some();
        for member in node.members().unwrap_or_default().iter().filter(|member| is_known(&member.name)) {
            let number = match &member.node.value {
                Value::Number(number) => number.as_f64(),
                _ => None,
            };
            // A quota cannot be 0, so 0 stands for a value that is not a number: `Quota::read` rejects it.
            match Quota::read(&member.name, number.unwrap_or_default()) {
                Ok(quota) => quotas.add(quota),
                Err(error) => {
                    let field = format!("{}.{}", PROFILE_LIMITS.title, member.name);
                    self.error(&field, error.to_string(), &member.node.span);
                }
            }
        }
        quotas
    }

    /// Reads a tool that the profile shows with another name or description. Adds the name to `shown_names`, because it
    /// must be unique in the profile.
    fn shown_tool(
        &mut self,
        node: &Node,
        shown_names: &mut BTreeMap<String, Range<usize>>,
    ) -> Option<((ServerName, String), ShownAs)> {
        self.check_keys(node, SHOW);
        let server_and_tool = node.text("tool").and_then(|tool| tool.split_once('/'));
        let server_and_tool =
            server_and_tool.and_then(|(server, tool)| Some((ServerName::new(server).ok()?, tool.to_owned())));
        let server_and_tool = server_and_tool.filter(|(_, tool)| !tool.is_empty() && !tool.contains('*'));
        if server_and_tool.is_none() {
            self.report_invalid("profiles.show.tool", "one tool, as `server/tool`", node);
        }
        let mut shown_as = ShownAs::default();
        if let Some(member) = node.get("name") {
            shown_as.name = member.node.as_text().filter(|name| ToolProfile::is_name(name)).map(ToOwned::to_owned);
            match &shown_as.name {
                None => self.report_invalid("profiles.show.name", "1 to 64 letters, digits, `-` and `_`", &member.node),
                Some(name) if shown_names.insert(name.clone(), member.node.span.clone()).is_some() => {
                    let message = format!("two tools of the profile are shown as `{name}`");
                    self.error("profiles.show.name", message, &member.node.span);
                }
                Some(_) => {}
            }
        }
        if let Some(member) = node.get("description") {
            shown_as.description =
                member.node.as_text().filter(|text| text.len() <= MAX_DESCRIPTION_BYTES).map(ToOwned::to_owned);
            if shown_as.description.is_none() {
                let expected = format!("a text of at most {MAX_DESCRIPTION_BYTES} bytes");
                self.report_invalid("profiles.show.description", &expected, &member.node);
            }
        }
        server_and_tool.map(|server_and_tool| (server_and_tool, shown_as))
    }

    /// Reads `key`, a pattern or a list of patterns. Returns `None` if the profile does not have this key.
    fn patterns(&mut self, node: &Node, key: &str) -> Option<Vec<Pattern>> {
        let (member, field) = (node.get(key)?, format!("profiles.{key}"));
        let pattern_nodes = match &member.node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&member.node),
        };
        let mut patterns = Vec::with_capacity(pattern_nodes.len());
        for item in pattern_nodes {
            match item.as_text().map(str::parse::<Pattern>) {
                Some(Ok(pattern)) => patterns.push(pattern),
                Some(Err(error)) => self.error(&field, error.to_string(), &item.span),
                None => self.report_invalid(
                    &field,
                    "a pattern of tools such as `server/read_*`, or a list of patterns",
                    item,
                ),
            }
        }
        Some(patterns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ReadContext, Settings};

    fn read(text: &str) -> (ToolProfiles, Vec<Problem>) {
        let document = Document::new(Some("toolrack.toml".into()), text);
        let (settings, problems) = Settings::read(&document, ReadContext::default());
        (settings.profiles, problems)
    }

    #[test]
    fn a_profile_has_a_selection_and_tools_that_are_shown_in_another_way() {
        let (profiles, problems) = read(
            "[[profiles]]\nname = \"review\"\ntools = [\"github/*\", \"fs/read_*\"]\nwithout = \"github/delete_*\"\n\
             [[profiles.show]]\ntool = \"github/create_issue\"\nname = \"file_bug\"\ndescription = \"Files a bug.\"\n\
             [[profiles]]\nname = \"all\"\n",
        );
        assert_eq!(problems, []);
        let pattern = |text: &str| text.parse::<Pattern>().unwrap();
        let selection = Selection::all().only([pattern("github/*"), pattern("fs/read_*")]);
        let shown = ShownAs { name: Some("file_bug".to_owned()), description: Some("Files a bug.".to_owned()) };
        let review = ToolProfile::new(selection.without([pattern("github/delete_*")])).showing(
            ServerName::new("github").unwrap(),
            "create_issue",
            shown,
        );
        let all = ToolProfile::new(Selection::all());
        assert_eq!(profiles, ToolProfiles::from([("review".into(), review.into()), ("all".into(), all.into())]));
    }

    #[test]
    fn a_profile_with_an_error_has_no_tools() {
        let nothing = ToolProfile::new(Selection::none());
        for (invalid, field, last_line) in [
            ("tool = \"github/*\"", "profiles.tool", 3),
            ("tools = 1", "profiles.tools", 3),
            ("tools = [\"a/b/\\u0000\", 1]", "profiles.tools", 3),
            ("show = 1", "profiles.show", 3),
            ("limits = 1", "profiles.limits", 3),
            ("limits = { tokens_per_day = 1 }", "profiles.limits.tokens_per_day", 3),
            ("limits = { calls_per_minute = 0 }", "profiles.limits.calls_per_minute", 3),
            ("limits = { calls_per_minute = \"1\" }", "profiles.limits.calls_per_minute", 3),
            ("show = [1]", "profiles.show", 3),
            ("[[profiles.show]]\nname = \"a\"", "profiles.show.tool", 4),
            ("[[profiles.show]]\ntool = \"a/*\"", "profiles.show.tool", 4),
            ("[[profiles.show]]\ntool = \"a/b\"\nname = \"a b\"", "profiles.show.name", 5),
            ("[[profiles.show]]\ntool = \"a/b\"\ndescription = 1", "profiles.show.description", 5),
            (
                "[[profiles.show]]\ntool = \"a/b\"\nname = \"x\"\n[[profiles.show]]\ntool = \"a/c\"\nname = \"x\"",
                "profiles.show.name",
                8,
            ),
        ] {
            let (profiles, problems) = read(&format!("[[profiles]]\nname = \"review\"\n{invalid}\n"));
            assert_eq!(*profiles["review"], nothing, "{invalid}");
            let is_expected = |problem: &&Problem| problem.field.as_deref() == Some(field);
            let problem = problems.iter().find(is_expected).unwrap_or_else(|| panic!("{invalid}: {problems:?}"));
            assert!(problem.is_error() && problem.line.is_some_and(|at| at <= last_line), "{invalid}: {problem:?}");
        }
        let (profiles, problems) = read("[[profiles]]\nname = \"a\"\n[[profiles]]\nname = \"a\"\n");
        assert_eq!((&*profiles["a"], problems.len()), (&nothing, 1));
    }

    #[test]
    fn a_profile_has_limits() {
        let (profiles, problems) =
            read("[[profiles]]\nname = \"a\"\nlimits = { calls_per_minute = 60, result_bytes_per_day = 1_000_000 }\n");
        let quota = |name, most| Quota::read(name, most).unwrap();
        let quotas = QuotaSet::default().with(quota("calls_per_minute", 60.0));
        let quotas = quotas.with(quota("result_bytes_per_day", 1_000_000.0));
        assert_eq!((profiles["a"].quotas(), problems), (&quotas, Vec::new()));
    }

    #[test]
    fn a_profile_needs_a_name_that_fits_into_an_address() {
        for text in ["[[profiles]]\ntools = \"a/*\"", "[[profiles]]\nname = \"a/b\"", "profiles = 1"] {
            let (profiles, problems) = read(text);
            assert!(profiles.is_empty() && problems.len() == 1 && problems[0].is_error(), "{text}: {problems:?}");
        }
    }

    #[test]
    fn an_empty_list_of_tools_allows_no_tool() {
        let (profiles, problems) = read("[[profiles]]\nname = \"none\"\ntools = []\n");
        assert_eq!((problems, &*profiles["none"]), (Vec::new(), &ToolProfile::new(Selection::none())));
    }
}
