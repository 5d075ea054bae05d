//! Reads the settings of `toolrack.toml`: everything except its servers.

mod audit;
mod egress;
mod policy;
mod profiles;
mod serve;
mod tools;

use toolrack_host::{PinMode, Policy, egress::EgressRules, text};

use crate::{
    dialect,
    document::Document,
    interpolate::UnsetPolicy,
    model::{CheckName, ModelChoice},
    node::{Member, Node, Value},
    problem::Problem,
    rows::{AGENT, AUDIT, DEFAULTS, EGRESS, SERVE, SESSIONS, TOOLRACK, TOOLS, Table},
    suggest::intended_name,
};

pub use audit::Audit;
pub(crate) use policy::{FileOwner, PolicySection};
pub use profiles::ToolProfiles;
pub use serve::ServeSettings;
pub use tools::{Refresh, ToolSettings};

/// Settings of the program.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// The treatment of a variable without a value (`unset`).
    pub unset: UnsetPolicy,
    /// The limits after which conversations are deleted (`[sessions]`).
    pub sessions: SessionRetention,
    /// The rules for the destinations of requests (`egress`).
    pub egress: EgressRules,
    /// The data of calls that the audit log stores (`[audit]`).
    pub audit: Audit,
    /// The bounds of a daemon's connections (`[serve]`).
    pub serve: ServeSettings,
    /// The treatment of tools that differ from their pins, the trusted definitions (`pins`). It applies to servers
    /// whose entry does not set it.
    pub pins: PinMode,
    /// The model that answers (`[model]`), overlaid with the settings of the chosen agent (`[agents.model]`).
    pub model: ModelChoice,
    /// The rules about calls: which run, which need approval, and which never run (`[policy]` of all layers).
    pub policy: Policy,
    /// The selections of tools with an endpoint of their own (`[[profiles]]`).
    pub profiles: ToolProfiles,
    /// The settings of tools for models (`[tools]`), overlaid with the settings of the chosen agent (`[agents.tools]`).
    pub tools: ToolSettings,
    /// The role of the chosen agent (`role` in `[[agents]]`).
    pub role: Role,
}

/// The role of an agent, which decides whether it gets tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// The agent carries out tasks, with tools (`worker`).
    #[default]
    Worker,
    /// The agent talks and gives tasks to others (`channel`). It gets no tools, and none of its servers is started.
    Channel,
}

/// The agent whose settings are read, and the check for names of models.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadContext<'a> {
    /// The agent whose own settings override the shared ones.
    pub(crate) agent: Option<&'a str>,
    /// Checks the names of models.
    pub(crate) check_name: Option<CheckName>,
}

/// The limits after which conversations are deleted. By default, they are kept forever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionRetention {
    /// A conversation is kept for this many days after its last message (`keep_days`), 1 or more.
    pub days: Option<u32>,
    /// The number of the newest conversations that are kept (`keep`), 1 or more.
    pub number: Option<u32>,
}

impl Settings {
    /// Reads the settings of `document`, and returns them with their problems. No such problem affects a server.
    pub(crate) fn read(document: &Document, context: ReadContext<'_>) -> (Self, Vec<Problem>) {
        let root = match dialect::parse(document) {
            Ok(Some(root)) => root,
            Ok(None) => return (Self::default(), Vec::new()),
            // The reader of the servers reports the error.
            Err(_) => return (Self::unreadable(shown_path(document)), Vec::new()),
        };
        let mut reader = SettingsReader { document, root: &root, problems: Vec::new() };
        let settings = Self {
            unset: reader.word("unset", UnsetPolicy::parse, "until then, a variable without a value is an error"),
            pins: reader.word("pins", PinMode::parse, "until then, a tool that changes is in quarantine"),
            sessions: reader.table("sessions", SessionRetention::read),
            egress: reader.table("egress", egress::read),
            audit: reader.table("audit", Audit::read),
            serve: reader.table("serve", ServeSettings::read),
            profiles: reader.table("profiles", profiles::read),
            policy: reader.table("policy", |document, node| {
                let (section, problems) = PolicySection::read(document, node, FileOwner::User);
                (section.added_to(Policy::default(), FileOwner::User), problems)
            }),
            model: reader.collect_problems(model(document, &root, context)),
            tools: reader.collect_problems(tools(document, &root, context)),
            role: reader.collect_problems(role(document, &root, context)),
        };
        reader.warn_of_unknown_keys();
        (settings, reader.problems)
    }

    /// Returns the strictest settings, for the unreadable file `shown_path`: it may forbid anything.
    pub(crate) fn unreadable(shown_path: String) -> Self {
        let policy = PolicySection::unreadable().added_to(Policy::default(), FileOwner::User);
        let egress = EgressRules::strictest(shown_path);
        Self { model: ModelChoice::unreadable(), audit: Audit::CAREFUL, policy, egress, ..Self::default() }
    }
}

/// The settings of one file while they are read, and their problems so far.
struct SettingsReader<'a> {
    document: &'a Document,
    root: &'a Node,
    problems: Vec<Problem>,
}

impl SettingsReader<'_> {
    /// Reads the setting `key`, which must be one of the words that `parse` knows. For any other value, reports an
    /// error with the hint `until_then`, which names the value that applies until the user corrects the file.
    fn word<T: Default>(&mut self, key: &str, parse: impl Fn(&str) -> Option<T>, until_then: &str) -> T {
        let Some(member) = self.root.get(key) else { return T::default() };
        member.node.as_text().and_then(parse).unwrap_or_else(|| {
            let problem = Problem::error(format!("`{key}` must be {}", TOOLRACK.words(key))).field(key);
            self.problems.push(self.document.locate(problem.hint(until_then), member.node.span.clone()));
            T::default()
        })
    }

    /// Reads the setting `key` with `read`, if the file has it.
    fn table<T: Default>(&mut self, key: &str, read: impl Fn(&Document, &Node) -> (T, Vec<Problem>)) -> T {
        match self.root.get(key) {
            Some(member) => self.collect_problems(read(self.document, &member.node)),
            None => T::default(),
        }
    }

    /// Adds `problems` to the problems of the file, and returns `value`.
    fn collect_problems<T>(&mut self, (value, problems): (T, Vec<Problem>)) -> T {
        self.problems.extend(problems);
        value
    }

    /// Adds a warning for each unknown key of a table.
    fn warn_of_unknown_keys(&mut self) {
        let mut warn_in_table = |node: Option<&Node>, table: &Table, table_path: &str| {
            for member in node.and_then(Node::members).unwrap_or_default() {
                self.problems.extend(unknown_setting(self.document, member, table, table_path));
            }
        };
        warn_in_table(Some(self.root), TOOLRACK, "");
        for table in [DEFAULTS, AUDIT, EGRESS, SERVE, SESSIONS, TOOLS] {
            warn_in_table(self.root.get(table.title).map(|member| &member.node), table, &format!("{}.", table.title));
        }
        for agent in agents(self.root) {
            warn_in_table(Some(agent), AGENT, "agents.");
            warn_in_table(agent.get("tools").map(|member| &member.node), TOOLS, "agents.tools.");
        }
    }
}

/// Returns the path of `document`, for messages.
fn shown_path(document: &Document) -> String {
    document.path.as_deref().map(|path| text::for_line(&path.display().to_string()).into_owned()).unwrap_or_default()
}

/// Returns the shared `[model]`, overridden by the `[agents.model]` of the chosen agent. Also reads the
/// `[agents.model]` of every other agent, to report errors in it early.
fn model(document: &Document, root: &Node, context: ReadContext<'_>) -> (ModelChoice, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut read = |table_path: &str, node: &Node| {
        let (choice, choice_problems) = ModelChoice::read(document, table_path, node, context.check_name);
        problems.extend(choice_problems);
        choice
    };
    let mut model = root.get("model").map_or_else(ModelChoice::default, |member| read("model", &member.node));
    for agent in agents(root) {
        let Some(member) = agent.get("model") else { continue };
        let choice = read("agents.model", &member.node);
        if context.is_chosen(agent) {
            model = model.overlaid(choice);
        }
    }
    (model, problems)
}

/// Returns the shared `[tools]`, overridden by the `[agents.tools]` of the chosen agent. Also reads the settings of
/// every other agent, to report errors in them.
fn tools(document: &Document, root: &Node, context: ReadContext<'_>) -> (ToolSettings, Vec<Problem>) {
    let (mut tools, mut problems) = match root.get("tools") {
        Some(member) => ToolSettings::default().overlaid(document, "tools", &member.node),
        None => (ToolSettings::default(), Vec::new()),
    };
    for agent in agents(root) {
        let Some(member) = agent.get("tools") else { continue };
        let (agent_tools, agent_problems) = tools.clone().overlaid(document, "agents.tools", &member.node);
        problems.extend(agent_problems);
        if context.is_chosen(agent) {
            tools = agent_tools;
        }
    }
    (tools, problems)
}

/// Returns the role of the chosen agent. If the role is invalid, returns [`Role::Channel`], because an agent without
/// tools does no harm.
fn role(document: &Document, root: &Node, context: ReadContext<'_>) -> (Role, Vec<Problem>) {
    let (mut role, mut problems) = (Role::default(), Vec::new());
    for agent in agents(root) {
        let Some(member) = agent.get("role") else { continue };
        let agent_role = match member.node.as_text() {
            Some("worker") => Role::Worker,
            Some("channel") => Role::Channel,
            _ => {
                let problem = Problem::error(format!("`role` must be {}", AGENT.words("role"))).field("agents.role");
                problems.push(
                    document.locate(problem.hint("until then, the agent gets no tools"), member.node.span.clone()),
                );
                Role::Channel
            }
        };
        if context.is_chosen(agent) {
            role = agent_role;
        }
    }
    (role, problems)
}

/// Returns the tables of `[[agents]]`.
fn agents(root: &Node) -> &[Node] {
    match root.get("agents").map(|member| &member.node.value) {
        Some(Value::List(agents)) => agents,
        _ => &[],
    }
}

impl ReadContext<'_> {
    /// Returns whether `agent`, one of `[[agents]]`, is the agent whose settings are read.
    fn is_chosen(&self, agent: &Node) -> bool {
        self.agent.is_some() && agent.text("id") == self.agent
    }
}

impl SessionRetention {
    /// Reads `[sessions]`. If any value is invalid, every conversation is kept: a mistake deletes nothing.
    fn read(document: &Document, node: &Node) -> (Self, Vec<Problem>) {
        let mut problems = Vec::new();
        let mut report_invalid = |field: &str, expected: &str, node: &Node| {
            let problem = Problem::error(format!("`{field}` must be {expected}")).field(field);
            problems.push(document.locate(problem.hint("until then, every conversation is kept"), node.span.clone()));
        };
        if node.members().is_none() {
            report_invalid("sessions", "a table", node);
        }
        let mut read_number = |name: &str| {
            let member = node.get(name)?;
            let number = match &member.node.value {
                Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
                _ => None,
            };
            let number = number.filter(|number| *number > 0);
            if number.is_none() {
                report_invalid(&format!("sessions.{name}"), "a whole number of 1 or more", &member.node);
            }
            number
        };
        let retention = Self { days: read_number("keep_days"), number: read_number("keep") };
        (if problems.is_empty() { retention } else { Self::default() }, problems)
    }
}

/// Returns the error message for a key that `table` does not have. `field` is the path of the key.
fn unknown_key(field: &str, member: &Member, table: &Table) -> String {
    match intended_name(&member.name, table.keys()) {
        Some(similar) => format!("`{field}` is not a known key: did you mean `{similar}`?"),
        None => format!("`{field}` is not a known key"),
    }
}

/// Returns a warning if `table` does not have `member`. `table_path` is the path of the table, such as `tools.`, or
/// empty.
fn unknown_setting(document: &Document, member: &Member, table: &Table, table_path: &str) -> Option<Problem> {
    if table.row(&member.name).is_some() {
        return None;
    }
    let hint = match intended_name(&member.name, table.keys()) {
        Some(similar) => format!("did you mean `{table_path}{similar}`?"),
        None => "it is ignored, and kept when the file is edited".to_owned(),
    };
    let name = format!("{table_path}{}", member.name);
    let problem = Problem::warning(format!("`{name}` is not a known setting")).field(name).hint(hint);
    Some(document.locate(problem, member.name_span.clone()))
}

#[cfg(test)]
mod held;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Settings, Vec<Problem>) {
        Settings::read(&Document::new(Some("toolrack.toml".into()), text), ReadContext::default())
    }

    #[test]
    fn unset_is_an_error_or_empty() {
        for (text, unset) in [
            ("", UnsetPolicy::Error),
            ("unset = \"error\"", UnsetPolicy::Error),
            ("unset = \"empty\"", UnsetPolicy::Empty),
        ] {
            let (settings, problems) = read(text);
            assert_eq!((settings.unset, problems), (unset, Vec::new()));
        }
        let (settings, problems) = read("unset = \"none\"");
        assert_eq!(settings.unset, UnsetPolicy::Error);
        assert!(problems[0].is_error() && problems[0].line == Some(1), "{problems:?}");
    }

    #[test]
    fn pins_are_enforced_unless_the_file_clearly_says_otherwise() {
        for (text, pins) in [
            ("", PinMode::Enforce),
            ("pins = \"enforce\"", PinMode::Enforce),
            ("pins = \"warn\"", PinMode::Warn),
            ("pins = \"off\"", PinMode::Off),
        ] {
            let (settings, problems) = read(text);
            assert_eq!((settings.pins, problems), (pins, Vec::new()));
        }
        for text in ["pins = \"no\"", "pins = false"] {
            let (settings, problems) = read(text);
            assert_eq!(settings.pins, PinMode::Enforce, "{text}");
            assert!(problems[0].is_error() && problems[0].line == Some(1), "{problems:?}");
        }
    }

    #[test]
    fn conversations_are_kept_forever_unless_the_file_limits_them() {
        let (settings, problems) = read("[sessions]\nkeep_days = 90\nkeep = 500\n");
        assert_eq!(settings.sessions, SessionRetention { days: Some(90), number: Some(500) });
        assert_eq!(problems, []);
        assert_eq!(read("sessions.keep = 4294967295").0.sessions.number, Some(u32::MAX));
        for (text, field, line) in [
            ("[sessions]\nkeep = 5\nkeep_days = 0", "sessions.keep_days", 3),
            ("[sessions]\nkeep_days = 5\nkeep = -1", "sessions.keep", 3),
            ("[sessions]\nkeep = 4294967296", "sessions.keep", 2),
            ("[sessions]\nkeep = 1.5", "sessions.keep", 2),
            ("[sessions]\nkeep_days = \"90\"", "sessions.keep_days", 2),
            ("sessions = 90", "sessions", 1),
        ] {
            let (settings, problems) = read(text);
            assert_eq!(settings.sessions, SessionRetention::default(), "{text}");
            assert!(problems[0].is_error(), "{problems:?}");
            assert_eq!((problems[0].field.as_deref(), problems[0].line), (Some(field), Some(line)), "{text}");
        }
        let (_, problems) = read("[sessions]\nkeep_day = 90");
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `sessions.keep_days`?"));
    }

    #[test]
    fn unknown_keys_are_warnings_with_a_suggestion() {
        let (_, problems) =
            read("unsett = 1\nother = 2\n[defaults]\nmcps = 1\n[[agents]]\nid = \"a\"\nmodels = \"x\"\n");
        let shown: Vec<_> = problems.iter().map(|problem| (problem.field.as_deref().unwrap(), problem.line)).collect();
        assert_eq!(
            shown,
            [("unsett", Some(1)), ("other", Some(2)), ("defaults.mcps", Some(4)), ("agents.models", Some(7))]
        );
        assert!(problems.iter().all(|problem| !problem.is_error()));
        assert_eq!(problems[0].hint.as_deref(), Some("did you mean `unset`?"));
        assert_eq!(problems[2].hint.as_deref(), Some("did you mean `defaults.mcp`?"));
    }
}
