//! Gateways: one MCP server over HTTP in front of a server over stdio, as Toolrack and its peers are.

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
use toolrack_bench::Trouble;

/// How long a gateway may take to listen. Those in Python take seconds.
const START: Duration = Duration::from_secs(30);

/// A gateway, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Option<Child>,
    /// A command that ends the processes that it leaves behind.
    after: Option<Vec<String>>,
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
        if let Some((program, args)) = self.after.as_deref().and_then(<[String]>::split_first) {
            let _ = Command::new(program).args(args).stdin(Stdio::null()).output();
        }
    }
}

impl Gateway {
    /// A gateway that is already running.
    pub(crate) fn there(url: String) -> Self {
        Self { child: None, after: None, url, token: None }
    }

    /// A program that gets the words of the server, and prints its URL.
    pub(crate) fn printing(program: &[String], server: &[String]) -> Result<Self, Trouble> {
        let (child, line) = first_line(&[program, server].concat(), &[])?;
        Ok(Self { child: Some(child), after: None, url: line.trim().to_owned(), token: None })
    }

    /// `toolrack serve` with a rule that is checked for every call.
    pub(crate) fn toolrack(program: &Path, home: &Path, server: &[String]) -> Result<Self, Trouble> {
        fs::create_dir_all(home)?;
        fs::write(home.join("mcp.json"), configuration(server, &json!({}))?)?;
        let own = program.display().to_string();
        let options = ["serve", "--listen", "127.0.0.1:0", "--no-open", "--with-parent", "--json", "--allow", "fast/*"];
        let words = [&[own.clone()][..], &options.map(str::to_owned)].concat();
        let variables = [("TOOLRACK_HOME", home.display().to_string())];
        let (child, line) = first_line(&words, &variables)?;
        let mut gateway = Self { child: Some(child), after: None, url: String::new(), token: None };
        let up: Value = serde_json::from_str(&line)?;
        let text = |name: &str| up[name].as_str().map(str::to_owned).ok_or("the daemon did not say where it is");
        (gateway.url, gateway.token) = (text("mcp")?, Some(text("token")?));
        // Its server is connected once a call has succeeded.
        let call = Command::new(own).args(["call", "fast/echo", "text=hello"]).envs(variables).output()?;
        if call.status.success() { Ok(gateway) } else { Err("the daemon does not work".into()) }
    }

    /// mcporter's bridge, and the daemon that it needs.
    pub(crate) fn mcporter(program: &[String], home: &Path, server: &[String]) -> Result<Self, Trouble> {
        let (config, port) = (home.join("mcporter.json"), free_port()?);
        fs::create_dir_all(home)?;
        fs::write(&config, configuration(server, &json!({ "lifecycle": "keep-alive" }))?)?;
        // The first two words are those that start it.
        let report = |rest: &[&str]| {
            let config = ["--config".to_owned(), config.display().to_string()];
            let rest = rest.iter().map(|word| (*word).to_owned());
            program.iter().cloned().chain(config).chain(rest).collect::<Vec<_>>()
        };
        let words = report(&["serve", "--http", &port.to_string()]);
        let mut gateway = listening(&words, home, port)?;
        gateway.after = Some(report(&["daemon", "stop"]));
        Ok(gateway)
    }

    /// fastmcp's proxy of a configuration file.
    pub(crate) fn fastmcp(program: &[String], home: &Path, server: &[String]) -> Result<Self, Trouble> {
        let (config, port) = (home.join("mcp.json"), free_port()?);
        fs::create_dir_all(home)?;
        fs::write(&config, configuration(server, &json!({}))?)?;
        let rest =
            ["run", &config.display().to_string(), "--transport", "http", "--port", &port.to_string(), "--no-banner"];
        listening(&[program, &rest.map(str::to_owned)].concat(), home, port)
    }
}

/// A configuration file with the server `fast`.
fn configuration(server: &[String], more: &Value) -> Result<String, Trouble> {
    let (command, args) = server.split_first().ok_or("no server")?;
    let mut entry = json!({ "command": command, "args": args });
    for (name, value) in more.as_object().into_iter().flatten() {
        entry[name] = value.clone();
    }
    Ok(json!({ "mcpServers": { "fast": entry } }).to_string())
}

fn free_port() -> Result<u16, Trouble> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn first_line(words: &[String], variables: &[(&str, String)]) -> Result<(Child, String), Trouble> {
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

/// A program that listens at `port` sooner or later, and has `/mcp` there.
fn listening(words: &[String], home: &Path, port: u16) -> Result<Gateway, Trouble> {
    let (program, args) = words.split_first().ok_or("no command")?;
    let mut command = Command::new(program);
    command.args(args).env("HOME", home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let url = format!("http://127.0.0.1:{port}/mcp");
    let gateway = Gateway { child: Some(command.spawn()?), after: None, url, token: None };
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if began.elapsed() > START {
            return Err(format!("{program} does not listen").into());
        }
        sleep(Duration::from_millis(50));
    }
    Ok(gateway)
}
