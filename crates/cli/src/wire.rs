//! The composition root: puts configuration, store, built-in server, asker and host together.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use toolrack_config::{
    Entry, Environment, Interpolate, Loaded, Places, Problem, Request, Scope, Unset, trust::Candidate,
};
use toolrack_host::{
    Desired, Host, Native, ServerName, ServerSpec, State, ask::Root, spec::Source, supervisor::Supervisor,
};
use toolrack_store::{Approval, ArtifactBounds, ArtifactFolder, Store};
use url::Url;

use crate::{
    args::Global,
    asker::Terminal,
    builtin::{self, Builtin},
    completion::notebook::{Configured, Notebook, Tool},
    error::{Exit, Failure, in_words, with_causes},
    screen::Screen,
};

/// How long a person waits before it is worth saying what for, and how often it is said anew.
const PATIENCE: Duration = Duration::from_millis(500);

/// Everything a verb works with.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) screen: Arc<Screen>,
    pub(crate) places: Places,
    /// The working folder.
    pub(crate) folder: PathBuf,
    global: Global,
    environment: Environment,
    roots: Vec<Root>,
    /// `None` when it cannot be opened: everything works without it, only slower and with less remembered.
    store: Option<Store>,
    /// The servers as they were configured when they were connected.
    configured: Mutex<Vec<Configured>>,
    /// Set when a verb connects; closed at the end, whatever happened in between.
    host: OnceLock<Host>,
}

impl World {
    /// # Errors
    /// When there is no working folder, nothing says where the configuration is, or a `--root` is no folder.
    pub(crate) async fn open(global: Global, environment: Environment, screen: Arc<Screen>) -> Result<Self, Failure> {
        let folder = std::env::current_dir().map_err(|error| {
            let message = format!("the working folder cannot be used: {}", in_words(&error));
            Failure::new(Exit::Other, "NO_WORKING_FOLDER", message)
        })?;
        let places = Places::from_env(&environment).map_err(|error| Failure::config(error.to_string()))?;
        let roots = global.root.iter().map(|folder| root(folder)).collect::<Result<_, _>>()?;
        let store = match Store::open(database(&places)).await {
            Ok(store) => Some(store),
            Err(error) => {
                screen.warning(&with_causes(&error));
                None
            }
        };
        Ok(Self {
            screen,
            places,
            folder,
            global,
            environment,
            roots,
            store,
            configured: Mutex::default(),
            host: OnceLock::new(),
        })
    }

    /// Reads the configuration and shows what is wrong with it.
    ///
    /// # Errors
    /// When a file that was named with `--mcp-config` cannot be used. Other files lose what is broken and no more.
    pub(crate) async fn load(&self) -> Result<Loaded, Failure> {
        let loaded = self.read().await;
        let is_named = |path: &PathBuf| self.global.mcp_config.iter().any(|named| self.folder.join(named) == *path);
        let lost =
            loaded.errors().find(|problem| problem.entry.is_none() && problem.path.as_ref().is_some_and(is_named));
        if let Some(problem) = lost {
            return Err(unusable_file(problem));
        }
        for problem in &loaded.problems {
            self.screen.problem(problem);
        }
        Ok(loaded)
    }

    /// Reads the configuration and shows nothing.
    pub(crate) async fn read(&self) -> Loaded {
        let mut request = Request::new(self.places.clone(), &self.folder);
        request.mcp_config.clone_from(&self.global.mcp_config);
        request.strict = self.global.strict_mcp_config;
        request.built_in = built_in(&self.folder);
        let approvals = match &self.store {
            Some(store) => store.approvals().await,
            None => Ok(Vec::new()),
        };
        let approvals = approvals.unwrap_or_else(|error| {
            self.screen.warning(&with_causes(&error));
            Vec::new()
        });
        let loaded = toolrack_config::load(&request, &|candidate: &Candidate<'_>| {
            approvals.iter().any(|approval| approval.covers(candidate.project, candidate.name, candidate.hash))
        });
        if self.host.get().is_none() {
            *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = configured(&loaded);
        }
        loaded
    }

    /// Writes down that the person at the terminal agreed to run `entry`.
    ///
    /// # Errors
    /// When it cannot be written down; the entry then waits for approval.
    pub(crate) async fn approve(&self, entry: &Entry) -> Result<(), Failure> {
        let (Some(store), Some(project)) = (&self.store, &entry.project) else {
            return Ok(());
        };
        let approval = Approval {
            project: project.clone(),
            name: entry.name.clone(),
            hash: entry.hash.clone(),
            shown: entry.view.to_string(),
            approved_at: chrono::Utc::now().timestamp(),
        };
        store
            .approve(&approval)
            .await
            .map_err(|error| Failure::new(Exit::Other, "NOT_WRITTEN", with_causes(&error)).server(&*entry.name))
    }

    /// Connects to the servers of `desired` and waits until each has succeeded or failed once.
    ///
    /// # Errors
    /// When this program cannot find itself.
    pub(crate) async fn connect(&self, mut desired: Desired) -> Result<Host, Failure> {
        for spec in desired.values_mut() {
            // A command is over before a second attempt: the first failure is the answer.
            spec.retry.attempts = 0;
        }
        let host = self.host();
        host.apply(desired).await;
        tokio::select! {
            () = host.settled() => {}
            () = self.show_who_connects(&host) => {}
        }
        Ok(host)
    }

    /// Names the servers that are waited for. Never ends.
    async fn show_who_connects(&self, host: &Host) {
        loop {
            tokio::time::sleep(PATIENCE).await;
            let servers = host.status().into_iter();
            let waiting: Vec<_> = servers.filter(|server| server.state == State::Connecting).collect();
            let names: Vec<_> = waiting.iter().map(|server| server.name.as_str()).collect();
            self.screen.progress(&format!("connecting to {}", names.join(", ")));
        }
    }

    fn host(&self) -> Host {
        let artifacts = ArtifactFolder::new(self.places.data().join("artifacts"), ArtifactBounds::default());
        let mut builder = Host::builder()
            .client("toolrack", env!("CARGO_PKG_VERSION"))
            .supervisor(Supervisor::this_program())
            .resolver(Arc::new(Interpolate::new(self.environment.clone(), Unset::Error)))
            .asker(Arc::new(Terminal::new(Arc::clone(&self.screen), self.roots.clone())))
            .artifacts(Arc::new(artifacts));
        if let Some(store) = &self.store {
            builder = builder.memory(Arc::new(store.clone()));
        }
        self.host.get_or_init(|| builder.build()).clone()
    }

    /// Writes down what the connected servers offer, so that a shell can complete it.
    async fn note_tools(&self, host: &Host) {
        let configured = std::mem::take(&mut *self.configured.lock().unwrap_or_else(PoisonError::into_inner));
        let status = host.status();
        let catalog = host.catalog();
        let is_connected = |name: &str| {
            let status = status.iter().find(|server| server.name.as_str() == name);
            status.is_some_and(|server| matches!(server.state, State::Connected { .. }))
        };
        let notebook = Notebook::below(self.places.data());
        let notes: Vec<(Configured, Vec<Tool>)> = configured
            .into_iter()
            .filter(|server| is_connected(&server.name))
            .map(|server| {
                let tools = catalog.tools().filter(|tool| tool.server.as_str() == server.name);
                let tools = tools.map(|entry| Tool::of_mcp(entry.tool())).collect();
                (server, tools)
            })
            .collect();
        let written = tokio::task::spawn_blocking(move || {
            for (server, tools) in notes {
                notebook.write(&server, tools);
            }
        });
        // Whether it worked makes no difference to the command.
        let _ = written.await;
    }

    /// Stops everything that [`Self::connect`] started, and waits for it.
    pub(crate) async fn close(&self) {
        if let Some(host) = self.host.get() {
            self.note_tools(host).await;
            host.shutdown().await;
        }
        if let Some(store) = &self.store {
            store.close().await;
        }
    }
}

/// The servers that this program carries, for a person in `folder`.
pub(crate) fn built_in(folder: &Path) -> Desired {
    let Ok(name) = ServerName::new(builtin::NAME) else {
        return Desired::new();
    };
    let folder = folder.to_owned();
    let server = Native::rmcp(builtin::NAME, move || Builtin::new(folder.clone()));
    let mut spec = ServerSpec::native(server);
    spec.source = Source { scope: "built in".to_owned(), path: None };
    Desired::from([(name, spec)])
}

/// The database of the person whose places these are.
pub(crate) fn database(places: &Places) -> PathBuf {
    places.data().join("toolrack.db")
}

/// What completion may know later of the servers in `loaded`. What the program carries needs no note.
fn configured(loaded: &Loaded) -> Vec<Configured> {
    loaded.entries.iter().filter(|entry| entry.scope != Scope::BuiltIn).map(Configured::from).collect()
}

/// A file that was asked for by name and cannot be read as a whole.
fn unusable_file(problem: &Problem) -> Failure {
    let mut place = problem.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
    for number in [problem.line, problem.column].into_iter().flatten() {
        place += &format!(":{number}");
    }
    Failure { hint: problem.hint.clone(), ..Failure::config(format!("{place}: {}", problem.message)) }
}

/// A folder that servers may know of.
fn root(folder: &Path) -> Result<Root, Failure> {
    let refused =
        |why: &str| Failure::usage(format!("--root {}: {why}", folder.display())).hint("give a folder that exists");
    let real = folder.canonicalize().map_err(|error| refused(&in_words(&error)))?;
    if !real.is_dir() {
        return Err(refused("it is not a folder"));
    }
    let uri = Url::from_directory_path(&real).map_err(|()| refused("it has no URL"))?;
    Ok(Root { uri: uri.to_string(), name: real.file_name().map(|name| name.to_string_lossy().into_owned()) })
}
