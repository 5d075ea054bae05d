//! Starts gateways, Toolrack's and those of others. A gateway is an MCP server over HTTP in front of a server over
//! stdio.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use toolrack_bench::AnyError;

/// The time limit for the start of a gateway. Those in Python take seconds.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A gateway, which runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Option<Child>,
    /// A command that ends the processes that the gateway leaves behind.
    cleanup: Option<Vec<String>>,
    pub(crate) url: String,
    pub(crate) token: Option<String>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Programs that end with their stdin shut down properly.
            drop(child.stdin.take());
            sleep(Duration::from_millis(200));
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some((program, args)) = self.cleanup.as_deref().and_then(<[String]>::split_first) {
            let _ = Command::new(program).args(args).stdin(Stdio::null()).output();
        }
    }
}

impl Gateway {
    /// Returns a gateway that is already running at `url`.
    pub(crate) fn running(url: String) -> Self {
        Self { child: None, cleanup: None, url, token: None }
    }

    /// Starts `bench-rmcp-proxy`, which gets the command of the server as arguments, and prints its own URL.
    pub(crate) fn rmcp(program: &[String], server: &[String]) -> Result<Self, AnyError> {
        let (child, line) = first_line(&[program, server].concat(), &[])?;
        Ok(Self { child: Some(child), cleanup: None, url: line.trim().to_owned(), token: None })
    }

    /// Starts `toolrack serve`, with a rule that is checked for every call.
    pub(crate) fn toolrack(program: &Path, home: &Path, server: &[String]) -> Result<Self, AnyError> {
        fs::create_dir_all(home)?;
        fs::write(home.join("mcp.json"), configuration(server, &json!({}))?)?;
        let program = program.display().to_string();
        let options = ["serve", "--listen", "127.0.0.1:0", "--no-open", "--with-parent", "--json", "--allow", "fast/*"];
        let words = [&[program.clone()][..], &options.map(str::to_owned)].concat();
        let variables = [("TOOLRACK_HOME", home.display().to_string())];
        let (child, line) = first_line(&words, &variables)?;
        let mut gateway = Self { child: Some(child), cleanup: None, url: String::new(), token: None };
        let started: Value = serde_json::from_str(&line)?;
        let text = |name: &str| started[name].as_str().map(str::to_owned).ok_or("the daemon did not say where it is");
        (gateway.url, gateway.token) = (text("mcp")?, Some(text("token")?));
        // Make a call, so that the server is connected before the measurement.
        let call = Command::new(program).args(["call", "fast/echo", "text=hello"]).envs(variables).output()?;
        if call.status.success() { Ok(gateway) } else { Err("the daemon does not work".into()) }
    }

    /// Starts mcporter's bridge, which starts the daemon that it needs.
    pub(crate) fn mcporter(program: &[String], home: &Path, server: &[String]) -> Result<Self, AnyError> {
        let (config, port) = (home.join("mcporter.json"), free_port()?);
        fs::create_dir_all(home)?;
        fs::write(&config, configuration(server, &json!({ "lifecycle": "keep-alive" }))?)?;
        // `program` has two words: Node and mcporter's script.
        let command = |rest: &[&str]| {
            let config = ["--config".to_owned(), config.display().to_string()];
            let rest = rest.iter().map(|word| (*word).to_owned());
            program.iter().cloned().chain(config).chain(rest).collect::<Vec<_>>()
        };
        let words = command(&["serve", "--http", &port.to_string()]);
        let mut gateway = start_and_wait(&words, home, port)?;
        gateway.cleanup = Some(command(&["daemon", "stop"]));
        Ok(gateway)
    }

    /// Starts fastmcp's proxy of the servers in a configuration file.
    pub(crate) fn fastmcp(program: &[String], home: &Path, server: &[String]) -> Result<Self, AnyError> {
        let (config, port) = (home.join("mcp.json"), free_port()?);
        fs::create_dir_all(home)?;
        fs::write(&config, configuration(server, &json!({}))?)?;
        let rest =
            ["run", &config.display().to_string(), "--transport", "http", "--port", &port.to_string(), "--no-banner"];
        start_and_wait(&[program, &rest.map(str::to_owned)].concat(), home, port)
    }
}

/// A configuration file with the server `fast`.
fn configuration(server: &[String], more: &Value) -> Result<String, AnyError> {
    let (command, args) = server.split_first().ok_or("no server")?;
    let mut entry = json!({ "command": command, "args": args });
    for (name, value) in more.as_object().into_iter().flatten() {
        entry[name] = value.clone();
    }
    Ok(json!({ "mcpServers": { "fast": entry } }).to_string())
}

fn free_port() -> Result<u16, AnyError> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Starts a program, and returns it with the first line that it prints.
fn first_line(words: &[String], variables: &[(&str, String)]) -> Result<(Child, String), AnyError> {
    let (program, args) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(args).envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    Ok((child, line))
}

/// Starts a program, and waits until it listens at `port`, where it must serve `/mcp`.
fn start_and_wait(words: &[String], home: &Path, port: u16) -> Result<Gateway, AnyError> {
    let (program, args) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(args).env("HOME", home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let url = format!("http://127.0.0.1:{port}/mcp");
    let gateway = Gateway { child: Some(command.spawn()?), cleanup: None, url, token: None };
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if began.elapsed() > START_LIMIT {
            return Err(format!("{program} does not listen").into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(gateway)
}
