//! The clients that are measured: Toolrack, the limit, and the installed clients of others (peers). The *limit* is a
//! program that moves the same bytes without an MCP library: it shows what the machine can do.

use std::{
    env,
    path::{Path, PathBuf},
};

use toolrack_bench::{
    AnyError, Row,
    programs::{Server, sibling_program},
};

use crate::{
    gateways::Gateway,
    rows::{Plan, Work},
    timed::Invocation,
};

/// The client that does not speak 2026-07-28.
const LEGACY_ONLY: &str = "typescript-1";

/// The clients that are programs of this crate.
const IN_RUST: [&str; 3] = ["limit", "toolrack", "rmcp"];

/// A placeholder in a command line for the command of the server, as one word.
const SERVER_AS_ONE_WORD: &str = "SERVER";

/// A placeholder in a command line for the command of the server, as several words.
const SERVER_AS_WORDS: &str = "SERVER…";

/// The fast server over HTTP, in both eras.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) legacy: Server,
    pub(crate) modern: Server,
}

/// A column of the table.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    launch: Launch,
    /// The client does the work of a row divided by this, so that a slow client does not take an hour.
    divisor: usize,
}

/// How a client is started.
#[derive(Clone, Debug)]
enum Launch {
    /// A program that prints figures. Its last arguments are a row and a count; these are the words before them.
    Program(Vec<String>),
    /// As [`Program`](Self::Program), for a program that takes part only in the rows of agents.
    Agent(Vec<String>),
    /// The command line of Toolrack, with a separate home.
    Toolrack { program: PathBuf, home: PathBuf },
    /// Another command line: the words for listing and for calling. They contain [`SERVER_AS_ONE_WORD`] or
    /// [`SERVER_AS_WORDS`].
    CommandLine { tools: Vec<String>, call: Vec<String>, home: PathBuf },
}

/// Finds the installed clients, and names the missing ones on stderr.
#[expect(clippy::disallowed_methods, reason = "`cargo xtask bench` says in variables where the peers are")]
pub(crate) fn installed() -> Result<Vec<Client>, AnyError> {
    let program = |name: &'static str, path: PathBuf| Client {
        name,
        launch: Launch::Program(vec![path.display().to_string()]),
        divisor: 1,
    };
    let home = env::temp_dir().join(format!("toolrack-bench-{}", std::process::id()));
    std::fs::create_dir_all(&home)?;
    let mut clients = vec![
        program("limit", sibling_program("bench-limit")?),
        program("toolrack", sibling_program("bench-toolrack")?),
        program("rmcp", sibling_program("bench-rmcp")?),
        Client {
            name: "toolrack-cli",
            launch: Launch::Toolrack { program: sibling_program("toolrack")?, home: home.clone() },
            divisor: 1,
        },
    ];
    clients.extend(rig_client());
    let path = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.exists());
    match (path("TOOLRACK_BENCH_NODE"), path("TOOLRACK_BENCH_PEERS")) {
        (Some(node), Some(peers)) => clients.extend(node_clients(&node, &peers, &home)),
        _ => eprintln!("the clients in TypeScript are not installed (`cargo xtask bench` installs them)"),
    }
    match (path("TOOLRACK_BENCH_PYTHON"), path("TOOLRACK_BENCH_PEERS")) {
        (Some(python), Some(peers)) => clients.extend(python_clients(&python, &peers, &home)),
        _ => eprintln!("the clients in Python are not installed (`cargo xtask bench` installs them)"),
    }
    Ok(clients)
}

fn words(first: &Path, rest: &[&str]) -> Vec<String> {
    std::iter::once(first.display().to_string()).chain(rest.iter().map(|word| (*word).to_owned())).collect()
}

fn script(interpreter: &Path, folder: &Path, name: &str) -> Option<Launch> {
    let script = folder.join(name);
    script.exists().then(|| Launch::Program(words(interpreter, &[&script.display().to_string()])))
}

/// Returns Rig's own agent, an example of `toolrack-rig` that `cargo xtask bench` builds.
fn rig_client() -> Option<Client> {
    match sibling_program("examples/rounds") {
        Ok(path) => Some(Client { name: "rig", launch: Launch::Agent(vec![path.display().to_string()]), divisor: 1 }),
        Err(_) => {
            eprintln!("the agent of Rig is not built (`cargo xtask bench` builds it)");
            None
        }
    }
}

fn node_clients(node: &Path, peers: &Path, home: &Path) -> Vec<Client> {
    let library = [("typescript-1", "ts1.mjs"), ("typescript-2", "ts2.mjs")];
    let mut clients: Vec<Client> = library
        .into_iter()
        .filter_map(|(name, file)| Some(Client { name, launch: script(node, peers, file)?, divisor: 4 }))
        .collect();
    let module = |path: &str| Some(peers.join("node_modules").join(path)).filter(|path| path.exists());
    let mut add = |name, script: Option<PathBuf>, tools: &[&str], call: &[&str]| {
        if let Some(script) = script.map(|script| script.display().to_string()) {
            let all = |rest: &[&str]| words(node, &[&[script.as_str()], rest].concat());
            let (tools, call, home) = (all(tools), all(call), home.to_owned());
            clients.push(Client { name, launch: Launch::CommandLine { tools, call, home }, divisor: 1 });
        }
    };
    add(
        "mcporter",
        module("mcporter/dist/cli.js"),
        &["list", "--stdio", SERVER_AS_ONE_WORD, "--name", "fast", "--json", "--no-oauth"],
        &["call", "--stdio", SERVER_AS_ONE_WORD, "--name", "fast", "echo", "text=hello"],
    );
    add(
        "inspector",
        module("@modelcontextprotocol/inspector/clients/launcher/build/index.js"),
        &["--cli", SERVER_AS_WORDS, "--method", "tools/list"],
        &["--cli", SERVER_AS_WORDS, "--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"],
    );
    clients
}

fn python_clients(python: &Path, peers: &Path, home: &Path) -> Vec<Client> {
    let library = [("python-mcp", "client.py"), ("fastmcp", "fastmcp_client.py")];
    let mut clients: Vec<Client> = library
        .into_iter()
        .filter_map(|(name, file)| Some(Client { name, launch: script(python, peers, file)?, divisor: 20 }))
        .collect();
    let agent = Some(peers.join("agent.py")).filter(|script| script.exists());
    clients.extend(agent.map(|script| Client {
        name: "pydantic-ai",
        launch: Launch::Agent(words(python, &[&script.display().to_string()])),
        divisor: 10,
    }));
    let program = python.with_file_name("fastmcp");
    if program.exists() {
        let tools = words(&program, &["list", "--command", SERVER_AS_ONE_WORD, "--json"]);
        let call = words(
            &program,
            &["call", "--command", SERVER_AS_ONE_WORD, "--target", "echo", "--input-json", r#"{"text":"hello"}"#],
        );
        let launch = Launch::CommandLine { tools, call, home: home.to_owned() };
        clients.push(Client { name: "fastmcp-cli", launch, divisor: 1 });
    }
    clients
}

impl Client {
    /// Returns the command for a row; `None` if the client takes no part in it.
    pub(crate) fn command(&self, plan: &Plan, servers: &Servers) -> Option<Invocation> {
        if plan.is_modern && self.name == LEGACY_ONLY {
            return None;
        }
        let command = sibling_program("bench-server").ok()?.display().to_string();
        let stdio: Vec<String> =
            [command.as_str(), "stdio"].iter().chain(plan.server).map(|word| (*word).to_owned()).collect();
        match (&self.launch, plan.work) {
            // The other libraries have no function that makes the block of tools for a model.
            (Launch::Program(_), Work::Library(Row::Block)) if !IN_RUST.contains(&self.name) => None,
            (Launch::Program(program), Work::Library(row)) => {
                let mut words = program.clone();
                words.extend([row.word().to_owned(), self.count(row, plan.count).to_string()]);
                if matches!(row, Row::HttpOne | Row::Http64 | Row::Events) {
                    let server = if plan.is_modern { &servers.modern } else { &servers.legacy };
                    words.push(server.url.clone());
                } else {
                    words.push("--".to_owned());
                    words.extend(stdio);
                }
                // Without the variable, some clients begin with the older handshake.
                let era = plan.is_modern.then(|| ("TOOLRACK_BENCH_ERA".to_owned(), "auto".to_owned()));
                Some(Invocation { words, variables: era.into_iter().collect(), is_timed: false, gateway: None })
            }
            (Launch::Program(program), Work::Agent(row)) if self.name == "toolrack" => {
                Some(self.agent(program, row, plan.count))
            }
            (Launch::Agent(program), Work::Agent(row)) => Some(self.agent(program, row, plan.count)),
            // A small program that lists the tools and ends is the limit for command lines.
            (Launch::Program(program), Work::ColdTools) if self.is_small_program() => {
                let mut words = program.clone();
                words.extend([Row::List.word().to_owned(), "20".to_owned(), "--".to_owned()]);
                words.extend(stdio);
                Some(Invocation { words, variables: Vec::new(), is_timed: true, gateway: None })
            }
            (Launch::Program(program), Work::ColdCall | Work::WarmCall) if self.is_small_program() => {
                let mut words = program.clone();
                // A result of five bytes, as long as the `hello` that the command lines get.
                words.extend([Row::Big.word().to_owned(), "5".to_owned(), "--".to_owned()]);
                words.extend(stdio);
                Some(Invocation { words, variables: Vec::new(), is_timed: true, gateway: None })
            }
            (Launch::Toolrack { program, home }, Work::ColdTools | Work::ColdCall) => {
                toolrack(program, home, &stdio, plan.work)
            }
            (Launch::Toolrack { program, home }, Work::WarmCall) => {
                let home = home.join("warm");
                let gateway = reported(Gateway::toolrack(program, &home, &stdio))?;
                let call = toolrack(program, &home, &stdio, Work::ColdCall)?;
                Some(Invocation { gateway: Some(gateway), ..call })
            }
            (_, Work::Gateway(row)) => {
                let gateway = reported(self.gateway(servers, &stdio)?)?;
                let count = (plan.count / self.divisor).to_string();
                let through = sibling_program("bench-through").ok()?;
                let words = words(&through, &[row.word(), &count, &gateway.url]);
                let token = gateway.token.clone().map(|token| ("TOOLRACK_BENCH_TOKEN".to_owned(), token));
                let variables = token.into_iter().collect();
                Some(Invocation { words, variables, is_timed: false, gateway: Some(gateway) })
            }
            (Launch::CommandLine { tools, call, home }, Work::ColdTools | Work::ColdCall) => {
                let words = if plan.work == Work::ColdTools { tools } else { call };
                let words = words.iter().flat_map(|word| match word.as_str() {
                    SERVER_AS_ONE_WORD => vec![stdio.join(" ")],
                    SERVER_AS_WORDS => stdio.clone(),
                    word => vec![word.to_owned()],
                });
                let words = words.collect();
                let variables = vec![("HOME".to_owned(), home.display().to_string())];
                Some(Invocation { words, variables, is_timed: true, gateway: None })
            }
            _ => None,
        }
    }

    /// Starts this client as a gateway in front of a server, which the gateway starts with the command `server`.
    /// Returns `None` if the client has no gateway.
    fn gateway(&self, servers: &Servers, server: &[String]) -> Option<Result<Gateway, AnyError>> {
        match (&self.launch, self.name) {
            // The server itself, without a gateway in between.
            (_, "limit") => Some(Ok(Gateway::running(servers.legacy.url.clone()))),
            (_, "rmcp") => Some(Gateway::rmcp(&words(&sibling_program("bench-rmcp-proxy").ok()?, &[]), server)),
            (Launch::Toolrack { program, home }, _) => Some(Gateway::toolrack(program, &home.join("warm"), server)),
            (Launch::CommandLine { tools, home, .. }, "mcporter") => {
                // Node and the script, without the words for listing.
                Some(Gateway::mcporter(tools.get(..2)?, &home.join("mcporter"), server))
            }
            (Launch::CommandLine { tools, home, .. }, "fastmcp-cli") => {
                // The program, without the words for listing.
                Some(Gateway::fastmcp(tools.get(..1)?, &home.join("fastmcp"), server))
            }
            _ => None,
        }
    }

    fn agent(&self, program: &[String], row: Row, count: usize) -> Invocation {
        let mut words = program.to_vec();
        words.extend([row.word().to_owned(), (count / self.divisor).to_string()]);
        Invocation { words, variables: Vec::new(), is_timed: false, gateway: None }
    }

    /// Returns whether the client is a program of this crate that is compared with command lines.
    fn is_small_program(&self) -> bool {
        ["limit", "rmcp"].contains(&self.name)
    }

    /// Returns the number of calls. In the other rows, `count` is the size of one piece of work, which every client
    /// does as a whole.
    fn count(&self, row: Row, count: usize) -> usize {
        match row {
            Row::StdioOne | Row::Stdio64 | Row::HttpOne | Row::Http64 => count / self.divisor,
            _ => count,
        }
    }
}

/// Returns the gateway; reports on stderr why it could not be started.
fn reported(gateway: Result<Gateway, AnyError>) -> Option<Gateway> {
    gateway.inspect_err(|error| eprintln!("a gateway could not be started: {error}")).ok()
}

/// Returns a command of Toolrack's command line. Below `home` it has a configuration file, a database and everything
/// else that a user has.
fn toolrack(program: &Path, home: &Path, server: &[String], work: Work) -> Option<Invocation> {
    let (command, args) = server.split_first()?;
    let entry = serde_json::json!({ "mcpServers": { "fast": { "command": command, "args": args } } });
    std::fs::write(home.join("mcp.json"), entry.to_string()).ok()?;
    let rest: &[&str] = if work == Work::ColdTools { &["tools", "fast"] } else { &["call", "fast/echo", "text=hello"] };
    let variables = vec![("TOOLRACK_HOME".to_owned(), home.display().to_string())];
    Some(Invocation { words: words(program, rest), variables, is_timed: true, gateway: None })
}
