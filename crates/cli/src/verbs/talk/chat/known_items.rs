//! Collects the prompts and resources that connected servers have listed so far. Completion offers only these, because
//! it cannot wait for servers.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::{
    sync::broadcast::{self, error::RecvError},
    task::JoinSet,
};
use toolrack_host::{
    Event, Host, ServerName, State,
    mcp::{Prompt, Resource, ResourceTemplate},
    text,
};

/// The most prompts, and the most resources, that are stored for one server.
const MAX_ITEMS: usize = 1_000;

/// The most bytes of a name or a URI.
const MAX_WORD_BYTES: usize = 300;
/// The most bytes of a description.
const MAX_DESCRIPTION_BYTES: usize = 80;

/// The prompts and resources of all servers. The task that lists them and the code that offers them share this.
#[derive(Debug, Default)]
pub(super) struct KnownItems(ArcSwap<Vec<Arc<ServerItems>>>);

/// The prompts and resources of one server.
#[derive(Debug)]
struct ServerItems {
    server: String,
    prompts: Vec<KnownPrompt>,
    resources: Vec<KnownResource>,
}

/// A prompt that can be typed.
#[derive(Clone, Debug)]
pub(super) struct KnownPrompt {
    /// `server:prompt`.
    pub(super) word: String,
    /// What the prompt is for; safe to print.
    pub(super) about: String,
    /// The names of the prompt's arguments.
    pub(super) arguments: Vec<String>,
}

/// A resource that the user can type, or the beginning that all resources of a template share.
#[derive(Clone, Debug)]
pub(super) struct KnownResource {
    pub(super) server: String,
    /// `server:uri`.
    pub(super) word: String,
    /// What the resource is; safe to print.
    pub(super) about: String,
    /// Whether `word` has a complete URI, and not the beginning of a template's URIs.
    pub(super) is_complete: bool,
}

impl KnownItems {
    /// Returns the servers that have listed their items.
    pub(super) fn servers(&self) -> Vec<String> {
        self.0.load().iter().map(|items| items.server.clone()).collect()
    }

    pub(super) fn prompts(&self) -> Vec<KnownPrompt> {
        self.0.load().iter().flat_map(|items| items.prompts.iter().cloned()).collect()
    }

    pub(super) fn resources(&self) -> Vec<KnownResource> {
        self.0.load().iter().flat_map(|items| items.resources.iter().cloned()).collect()
    }

    /// Stores the items of `server`, except those that cannot be typed or would affect a terminal.
    pub(super) fn learn(
        &self,
        server: &ServerName,
        prompts: Vec<Prompt>,
        resources: Vec<Resource>,
        templates: Vec<ResourceTemplate>,
    ) {
        let server = server.as_str().to_owned();
        let prompts = prompts.iter().filter_map(|prompt| KnownPrompt::new(&server, prompt)).take(MAX_ITEMS).collect();
        let complete_resources = resources.iter().filter_map(|resource| {
            let about = resource.title.as_deref().or(resource.description.as_deref()).unwrap_or(&resource.name);
            let is_complete = true;
            KnownResource::new(&server, &resource.uri, about, is_complete)
        });
        let template_starts = templates.iter().filter_map(|template| {
            let start = template.uri_template.split('{').next().filter(|start| !start.is_empty())?;
            let about = template.title.as_deref().or(template.description.as_deref()).unwrap_or(&template.name);
            let is_complete = false;
            KnownResource::new(&server, start, about, is_complete)
        });
        let resources = complete_resources.chain(template_starts).take(MAX_ITEMS).collect();
        let items = Arc::new(ServerItems { server, prompts, resources });
        self.0.rcu(|known_items| {
            let rest = known_items.iter().filter(|other_items| other_items.server != items.server);
            let mut all_items: Vec<_> = rest.chain([&items]).cloned().collect();
            all_items.sort_by(|a, b| a.server.cmp(&b.server));
            all_items
        });
    }
}

impl KnownPrompt {
    fn new(server: &str, prompt: &Prompt) -> Option<Self> {
        let word = format!("{server}:{}", prompt.name);
        let names = prompt.arguments.iter().map(|argument| argument.name.clone());
        let arguments = names.filter(|name| is_word(name) && !name.contains('=')).collect();
        let about = prompt.description.as_deref().or(prompt.title.as_deref()).unwrap_or_default();
        is_word(&word).then(|| Self { word, about: first_line(about), arguments })
    }
}

impl KnownResource {
    fn new(server: &str, uri: &str, about: &str, is_complete: bool) -> Option<Self> {
        if !is_typable(uri) || uri.contains(['<', '>']) {
            return None;
        }
        let is_word = is_word(uri);
        let word = if is_word { format!("{server}:{uri}") } else { format!("{server}:<{uri}>") };
        // Users type on after the beginning of a template's URIs, so it cannot be in brackets.
        (is_word || is_complete).then(|| Self {
            server: server.to_owned(),
            word,
            about: first_line(about),
            is_complete,
        })
    }
}

/// Returns whether `text` can be shown and typed.
fn is_typable(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_WORD_BYTES && text::for_line(text) == text
}

/// Returns whether `text` can be typed without quotes.
fn is_word(text: &str) -> bool {
    is_typable(text) && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '\'' || c == '\\')
}

fn first_line(about: &str) -> String {
    text::for_line(&text::clip(about.trim().lines().next().unwrap_or_default(), MAX_DESCRIPTION_BYTES)).into_owned()
}

/// The task that collects the items of the servers during a conversation. The task ends when the collector is dropped.
#[derive(Debug)]
pub(super) struct ItemCollector {
    _task: JoinSet<()>,
}

impl ItemCollector {
    /// Asks the connected servers that `is_wanted` selects, and each server again when it connects later.
    pub(super) fn start(
        host: &Host,
        known_items: &Arc<KnownItems>,
        is_wanted: impl Fn(&ServerName) -> bool + Send + 'static,
    ) -> Self {
        // Subscribes first, so that no server is missed.
        let events = host.events();
        let mut task = JoinSet::new();
        task.spawn(collect_items(host.clone(), events, Arc::clone(known_items), is_wanted));
        Self { _task: task }
    }
}

async fn collect_items(
    host: Host,
    mut events: broadcast::Receiver<Event>,
    known_items: Arc<KnownItems>,
    is_wanted: impl Fn(&ServerName) -> bool + Send,
) {
    // Unlike `reach::servers_to_ask`, leaves out idle servers: a request would start them, and completion starts no
    // server.
    let is_connected = |state: &State| matches!(state, State::Connected { .. } | State::ToolsFailed { .. });
    let mut requests = JoinSet::new();
    let connected_servers =
        host.status().into_iter().filter(|server| is_connected(&server.state)).map(|server| server.name);
    let mut servers_to_ask: Vec<ServerName> = connected_servers.collect();
    loop {
        for server in servers_to_ask.drain(..).filter(|server| is_wanted(server)) {
            requests.spawn(ask_for_items(host.clone(), server, Arc::clone(&known_items)));
        }
        tokio::select! {
            event = events.recv() => match event {
                Ok(Event::McpServerState { server, state }) if is_connected(&state) => servers_to_ask.push(server),
                // After missed events, items are offered late or not at all.
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return,
            },
            // A request that has ended has stored its items, or failed: there is nothing to do.
            Some(_) = requests.join_next() => {}
        }
    }
}

/// Asks one server for its items. Completion leaves out what the server cannot list; `/prompts` and `/resources` say
/// why.
async fn ask_for_items(host: Host, server: ServerName, known_items: Arc<KnownItems>) {
    let name = server.as_str();
    let (prompts, resources, templates) =
        futures::join!(host.prompts(name), host.resources(name), host.resource_templates(name));
    known_items.learn(
        &server,
        prompts.unwrap_or_default(),
        resources.unwrap_or_default(),
        templates.unwrap_or_default(),
    );
}
