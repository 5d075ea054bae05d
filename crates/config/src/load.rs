//! Merges the layers of configuration files into one [`Loaded`] configuration. A layer is a group of files, such as the
//! user's or the project's. An entry (the configuration of one server) replaces one of the same name in a weaker layer.

mod agreed_content;
mod check;
mod layers;
mod loaded;
mod problem_collector;
mod reload;
mod request;
mod run_folders;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt,
    path::{Path, PathBuf},
};

use serde::Serialize;
use serde_json::Value as Json;
use toolrack_host::{
    Desired, PinMode, ServerName, ServerSpec,
    spec::{Invisible, Trust, ValidateArgs},
};

use crate::{
    dialect::{self, Agent},
    document::Document,
    entry::{Decoded, Report, decode},
    interpolate::UnsetPolicy,
    node::{Member, Node},
    places::project_root,
    problem::Problem,
    redact::redact,
    settings::{PolicySection, ReadContext, Role, Settings},
    trust::{Candidate, Ledger, agreement_hash, hash},
};
use agreed_content::{hash_unswitched, proposal_with_files, set_shown_enabled};
use layers::{Layer, UsedParts, layers};
use loaded::unknown_agent;
use problem_collector::ProblemCollector;
use run_folders::RunFolders;

pub use check::check;
pub use loaded::{ConfigFile, Entry, Loaded, ShadowedEntry};
pub use reload::{Rejected, reload};
pub use request::{Request, TypedConfig};

/// The maximum number of servers in one file. The limit protects against hostile files.
const MAX_SERVERS: usize = 1_000;

/// A layer of configuration. A later one replaces whole entries of an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Built into the program.
    BuiltIn,
    /// Added by the member of a team for whom the configuration is loaded.
    Member,
    /// The user's own files: `toolrack.toml`, then `mcp.json`.
    User,
    /// Files of the project, from its root down to the working folder. They wait for the user's agreement.
    Project,
    /// The user's private file for this project.
    Local,
    /// Files named on the command line.
    CommandLine,
}

impl Scope {
    /// Returns the word for it, such as `project`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Member => "member",
            Self::User => "user",
            Self::Project => "project",
            Self::Local => "local",
            Self::CommandLine => "command line",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Loads the current configuration. `ledger` knows which entries of projects the user has agreed to run.
///
/// Resolves no placeholder and starts no server. Never fails: it skips unusable parts, and reports them as problems.
#[must_use]
pub fn load(request: &Request, ledger: &dyn Ledger) -> Loaded {
    let project = project_root(&request.cwd);
    load_layers(request, layers(request, &project), project, ledger)
}

/// Loads `layers`, the weakest first.
fn load_layers(request: &Request, layers: Vec<Layer>, project: PathBuf, ledger: &dyn Ledger) -> Loaded {
    let read_context = ReadContext { agent: request.agent.as_deref(), check_name: request.check_model };
    let run_folders = RunFolders::new(&request.cwd, &project, &request.places);
    let mut loader = Loader::new(
        [(Scope::BuiltIn, &request.built_in), (Scope::Member, &request.of_member)],
        ledger,
        read_context,
        run_folders,
    );
    for layer in &layers {
        loader.add_file(layer);
    }
    loader.add_agents(request.agent.as_deref());
    // A typed configuration has no file.
    let files = layers.into_iter().filter(|layer| layer.text.is_none());
    let files = files.map(|layer| ConfigFile { scope: layer.scope, path: layer.path }).collect();
    loader.into_loaded(files, project)
}

/// The configuration while the loader builds it.
struct Loader<'a> {
    /// The entry of each name so far, with its server; a broken entry has no server (`None`).
    entries: BTreeMap<String, (Entry, Option<ServerSpec>)>,
    /// The agents of each file. Their servers are added after all files, because they replace servers of every layer.
    agents_by_file: Vec<(Vec<Agent>, Layer, Document)>,
    settings: Settings,
    /// The ids of all agents that a file defines.
    known_agents: Vec<String>,
    problems: ProblemCollector,
    /// Files without any text.
    blank_files: Vec<PathBuf>,
    /// Whether every file could be read.
    is_complete: bool,
    read_context: ReadContext<'a>,
    run_folders: RunFolders,
    ledger: &'a dyn Ledger,
}

/// The origin of an entry: its layer and its file.
struct EntryOrigin<'a> {
    layer: &'a Layer,
    document: &'a Document,
    /// The agent that the entry is for; `None` if it is for all agents.
    agent: Option<&'a str>,
}

impl<'a> Loader<'a> {
    /// Creates a loader with the servers that come from no file, those of the weakest layer first.
    fn new(
        fileless_servers: [(Scope, &Desired); 2],
        ledger: &'a dyn Ledger,
        read_context: ReadContext<'a>,
        run_folders: RunFolders,
    ) -> Self {
        let servers = fileless_servers
            .into_iter()
            .flat_map(|(scope, desired)| desired.iter().map(move |(name, spec)| (scope, name, spec)));
        let entries = servers.map(|(scope, name, spec)| {
            let entry = Entry {
                name: name.to_string(),
                scope,
                source: spec.source.clone(),
                line: None,
                agent: None,
                is_valid: true,
                enabled: spec.enabled,
                enabled_itself: spec.enabled,
                switched_by: None,
                trust: spec.trust.clone(),
                project: None,
                depends_on: None,
                files: Vec::new(),
                agreement: hash(&Node::from_json(&redact(spec))),
                hash_unswitched: hash_unswitched(Node::from_json(&redact(spec))),
                hash: hash(&Node::from_json(&redact(spec))),
                shadows: Vec::new(),
                view: redact(spec),
                proposal: Json::Null,
            };
            (name.to_string(), (entry, Some(spec.clone())))
        });
        Self {
            entries: entries.collect(),
            agents_by_file: Vec::new(),
            settings: Settings::default(),
            known_agents: Vec::new(),
            problems: ProblemCollector::default(),
            blank_files: Vec::new(),
            is_complete: true,
            read_context,
            run_folders,
            ledger,
        }
    }

    /// Adds `settings` and their problems, without the servers and agents of the file: a command that uses other
    /// servers must still obey settings such as those of the audit log.
    fn add_settings_alone(&mut self, settings: Settings, problems: Vec<Problem>) {
        self.settings = Settings { unset: UnsetPolicy::default(), role: Role::default(), ..settings };
        let is_ignored = |problem: &Problem| {
            let ignored_keys = ["agents", "defaults", "mcp_servers", "unset"];
            problem.field.as_ref().is_some_and(|field| ignored_keys.iter().any(|key| field.starts_with(key)))
        };
        self.problems.extend(problems.into_iter().filter(|problem| !is_ignored(problem)));
    }

    /// Adds the settings, rules and servers of the layer's file. Servers of agents wait for [`Self::add_agents`].
    fn add_file(&mut self, layer: &Layer) {
        let document = match layer.document() {
            Ok(Some(document)) => document,
            Ok(None) => {
                self.is_complete &= layer.missing_problem.as_ref().is_none_or(|problem| !problem.is_error());
                self.problems.extend(layer.missing_problem.clone().map(|problem| problem.in_file(&layer.path)));
                return;
            }
            Err(problem) => {
                match layer.used_parts {
                    UsedParts::All => self.settings = Settings::unreadable(layer.path.display().to_string()),
                    UsedParts::SettingsAlone => {
                        self.add_settings_alone(Settings::unreadable(layer.path.display().to_string()), Vec::new())
                    }
                    UsedParts::Policy => self.add_policy(layer, PolicySection::unreadable()),
                    UsedParts::Servers => {}
                }
                return self.skip_file(*problem);
            }
        };
        if layer.used_parts == UsedParts::Policy {
            let (section, problems) = PolicySection::read_policy_file(&document, layer.owner());
            self.add_policy(layer, section);
            self.problems.extend(problems);
            return;
        }
        if layer.used_parts == UsedParts::SettingsAlone {
            let (settings, problems) = Settings::read(&document, self.read_context);
            return self.add_settings_alone(settings, problems);
        }
        if document.text.is_empty() && layer.text.is_none() {
            self.blank_files.push(layer.path.clone());
        }
        if layer.used_parts == UsedParts::All {
            let (settings, problems) = Settings::read(&document, self.read_context);
            self.settings = settings;
            self.problems.extend(problems);
        }
        match dialect::servers(&document) {
            Ok(servers) if servers.entries.len() > MAX_SERVERS => {
                let problem = Problem::error(format!("it has more than {MAX_SERVERS} servers")).in_file(&layer.path);
                self.skip_file(problem.hint("this file is ignored; split it or leave some out"));
            }
            Ok(servers) => {
                self.problems.extend(servers.problems);
                self.add_entries(layer, &document, &servers.entries, None);
                if !servers.agents.is_empty() {
                    self.agents_by_file.push((servers.agents, layer.clone(), document));
                }
            }
            Err(problem) => self.skip_file(*problem),
        }
    }

    /// Adds the rules of one file, which take precedence over those of weaker layers.
    fn add_policy(&mut self, layer: &Layer, section: PolicySection) {
        let policy = std::mem::take(&mut self.settings.policy);
        self.settings.policy = section.added_to(policy, layer.owner());
    }

    /// Adds the servers of the agent `chosen_agent`, which replace servers of every layer. Also reads the servers of
    /// all other agents, so that the user hears of errors in them before an agent needs them.
    fn add_agents(&mut self, chosen_agent: Option<&str>) {
        let files = std::mem::take(&mut self.agents_by_file);
        let agents =
            files.iter().flat_map(|(agents, layer, document)| agents.iter().map(move |agent| (agent, layer, document)));
        let mut ids = BTreeSet::new();
        for (agent, layer, document) in agents {
            ids.insert(&*agent.id);
            if chosen_agent == Some(&*agent.id) {
                self.add_entries(layer, document, &agent.entries, Some(&agent.id));
                continue;
            }
            for raw_entry in &agent.entries {
                let mut report = Report::new(Some(document), &raw_entry.name);
                decode(raw_entry, &mut report);
                self.problems.extend(report.into_problems());
            }
        }
        self.known_agents = ids.into_iter().map(str::to_owned).collect();
        if let Some(problem) = chosen_agent.and_then(|chosen_agent| unknown_agent(chosen_agent, &self.known_agents)) {
            self.problems.add(problem);
        }
    }

    /// Adds the entries of one file, for one agent or for all.
    fn add_entries(&mut self, layer: &Layer, document: &Document, raw_entries: &[Member], agent: Option<&str>) {
        let mut names = HashSet::new();
        for raw_entry in raw_entries {
            let is_repeated = !names.insert(&*raw_entry.name);
            self.add_entry(&EntryOrigin { layer, document, agent }, raw_entry, is_repeated);
        }
    }

    /// Skips a whole file, and reports the reason.
    fn skip_file(&mut self, problem: Problem) {
        self.is_complete = false;
        self.problems.add(problem);
    }

    /// Decodes an entry, and replaces any weaker entry of the same name by it. If the file has another entry of this
    /// name (`is_repeated`), neither of the two is used.
    fn add_entry(&mut self, origin: &EntryOrigin<'_>, raw_entry: &Member, is_repeated: bool) {
        let mut report = Report::new(Some(origin.document), &raw_entry.name);
        let mut decoded = decode(raw_entry, &mut report);
        if is_repeated {
            let problem = Problem::error("the file has two entries of this name");
            report.add(problem.hint("keep one; until then neither is used"), &raw_entry.name_span);
            decoded = Decoded::Broken;
        }
        // `pins` sets what happens to a tool that has changed since it was first seen. `Enforce` is the strictest mode.
        if let Decoded::Server(spec) = &mut decoded
            && origin.layer.scope == Scope::Project
            && spec.pins.take_if(|mode| *mode < PinMode::Enforce).is_some()
        {
            let problem = Problem::warning("a project cannot switch off the check for changed tools");
            report.add(problem.field("pins").hint("set it in your own configuration"), &raw_entry.name_span);
        }
        match decoded {
            Decoded::Server(spec) => self.insert_entry(origin, raw_entry, Some(*spec)),
            Decoded::Broken => self.insert_entry(origin, raw_entry, None),
            Decoded::Switch(enabled) => self.switch(origin.layer, raw_entry, enabled, &mut report),
        }
        self.problems.extend(report.into_problems());
    }

    /// Adds an entry, which replaces any weaker entry of the same name. Without `spec`, the entry is broken.
    fn insert_entry(&mut self, origin: &EntryOrigin<'_>, raw_entry: &Member, mut spec: Option<ServerSpec>) {
        let layer = origin.layer;
        let source = layer.source();
        let hash = hash(&raw_entry.node);
        // A user's own entry is shown as it is written, without the working folder that `set_folder` sets below.
        let view_as_written = spec.as_ref().filter(|_| layer.folder.is_none()).map(redact);
        let depends_on = spec.as_mut().and_then(|spec| self.run_folders.set_folder(spec, layer));
        let project = match layer.scope {
            Scope::Project => layer.folder.clone(),
            _ => depends_on.is_some().then(|| self.run_folders.working_folder.clone()),
        };
        let files = match (&mut spec, &project) {
            (Some(spec), Some(_)) => self.run_folders.files(spec),
            _ => BTreeMap::new(),
        };
        let agreement = agreement_hash(&hash, &files);
        let trust = match &project {
            Some(project) => self.trust_of(project, &raw_entry.name, &agreement),
            None => Trust::Trusted,
        };
        let spec = spec.map(|spec| ServerSpec { source: source.clone(), trust: trust.clone(), ..spec });
        let shadows = match self.entries.remove(&raw_entry.name) {
            Some((replaced_entry, _)) => {
                let shadow = ShadowedEntry { scope: replaced_entry.scope, source: replaced_entry.source };
                std::iter::once(shadow).chain(replaced_entry.shadows).collect()
            }
            None => Vec::new(),
        };
        let entry = Entry {
            name: raw_entry.name.clone(),
            scope: layer.scope,
            source,
            line: origin.document.line_of(raw_entry.name_span.start),
            agent: origin.agent.map(str::to_owned),
            is_valid: spec.is_some(),
            enabled: spec.as_ref().is_some_and(|spec| spec.enabled),
            enabled_itself: spec.as_ref().is_some_and(|spec| spec.enabled),
            switched_by: None,
            trust,
            depends_on,
            files: files.keys().map(|file| self.run_folders.project.join(file)).collect(),
            agreement,
            hash_unswitched: hash_unswitched(raw_entry.node.clone()),
            hash,
            shadows,
            view: view_as_written.or_else(|| spec.as_ref().map(redact)).unwrap_or_default(),
            proposal: spec
                .as_ref()
                .filter(|_| project.is_some())
                .map_or(Json::Null, |spec| proposal_with_files(spec, &files)),
            project,
        };
        self.entries.insert(raw_entry.name.clone(), (entry, spec));
    }

    /// Returns whether the user has agreed to run the entry `name` of `project` with the content `agreement`.
    fn trust_of(&self, project: &Path, name: &str, agreement: &str) -> Trust {
        if self.ledger.approves(&Candidate { project, name, hash: agreement }) {
            Trust::Trusted
        } else {
            Trust::Pending
        }
    }

    /// Enables or disables the entry `raw_entry.name` of a weaker layer. A project may only disable an entry: if it
    /// could enable one, it could start a server that the user does not want.
    fn switch(&mut self, layer: &Layer, raw_entry: &Member, enabled: bool, report: &mut Report<'_>) {
        let Some((entry, spec)) = self.entries.get_mut(&raw_entry.name) else {
            let problem = Problem::warning("no server has this name: there is nothing to switch on or off");
            report.add(problem.hint("a server needs `command` or `url`"), &raw_entry.name_span);
            return;
        };
        if layer.scope == Scope::Project && enabled && !entry.enabled {
            let problem = Problem::warning("a project cannot switch on a server that is switched off elsewhere");
            report.add(problem.hint("switch it on in your own configuration"), &raw_entry.name_span);
            return;
        }
        if let Some(spec) = spec {
            entry.enabled = enabled;
            spec.enabled = enabled;
            set_shown_enabled(&mut entry.view, enabled);
            set_shown_enabled(&mut entry.proposal, enabled);
            entry.switched_by = Some(layer.source());
        }
    }

    /// Applies the settings that servers inherit, and returns the result.
    fn into_loaded(mut self, files: Vec<ConfigFile>, project: PathBuf) -> Loaded {
        if !self.settings.policy.is_empty() {
            self.settings.policy = self.settings.policy.for_agent(self.read_context.agent);
        }
        if self.settings.role == Role::Channel {
            // The servers are removed, and not only their tools hidden, so that none starts and none can be called.
            self.entries.clear();
        }
        let validate_args = Some(self.settings.tools.validate_args).filter(|mode| *mode != ValidateArgs::default());
        let invisible = Some(self.settings.tools.invisible).filter(|mode| *mode != Invisible::default());
        let mut desired = Desired::new();
        let mut entries = Vec::with_capacity(self.entries.len());
        for (name, (entry, spec)) in self.entries {
            if let (Some(mut spec), Ok(name)) = (spec, ServerName::new(name)) {
                if matches!(entry.scope, Scope::User | Scope::CommandLine) {
                    self.run_folders.set_own_folder(name.as_str(), &mut spec);
                }
                spec.pins = spec.pins.or((self.settings.pins != PinMode::default()).then_some(self.settings.pins));
                spec.validate_args = spec.validate_args.or(validate_args);
                spec.invisible = spec.invisible.or(invisible);
                desired.insert(name, spec);
            }
            entries.push(entry);
        }
        Loaded {
            desired,
            entries,
            problems: self.problems.into_problems(),
            files,
            settings: self.settings,
            agents: self.known_agents,
            project,
            blank_files: self.blank_files,
            is_complete: self.is_complete,
        }
    }
}

#[cfg(test)]
mod tests;
