//! A home with the binary in it.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::{Map, Value, json};
use toolrack_host::supervisor::Layer;
use toolrack_testkit::{Home, fake_server_path};

/// A fresh home in which the binary runs.
pub(crate) struct Rack {
    pub(crate) home: Home,
    environment: Vec<(&'static str, String)>,
}

impl Rack {
    pub(crate) fn new() -> Self {
        Self { home: Home::new(), environment: Vec::new() }
    }

    /// A home whose user has configured these servers.
    pub(crate) fn with(servers: &[(&str, Value)]) -> Self {
        let rack = Self::new();
        rack.configure(servers);
        rack
    }

    /// The user configures these servers, and no others.
    pub(crate) fn configure(&self, servers: &[(&str, Value)]) {
        self.home.write("toolrack/mcp.json", mcp_json(servers));
    }

    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Other programs find the binary by its name.
    pub(crate) fn with_binary_on_path(self) -> Self {
        let folder = Path::new(env!("CARGO_BIN_EXE_toolrack")).parent().unwrap();
        self.with_folder_on_path(folder)
    }

    /// Puts this folder in front of the path.
    pub(crate) fn with_folder_on_path(self, folder: &Path) -> Self {
        let mut model = self.home.command("model");
        let path =
            model.envs(self.variables()).get_envs().filter(|(name, _)| *name == "PATH").find_map(|(_, path)| path);
        let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(path.unwrap()));
        let path = std::env::join_paths(folders).unwrap().into_string().unwrap();
        self.env("PATH", path)
    }

    /// `npx` starts the pinned packages, by the names under which it would fetch them.
    pub(crate) fn with_npx(self, node: &Path, modules: &Path) -> Self {
        let script = format!(
            "#!/bin/sh\n[ \"$1\" = -y ] && shift\nname=${{1##*/}}\nshift\nexec '{}' '{}'/mcp-\"$name\" \"$@\"\n",
            node.display(),
            modules.join(".bin").display(),
        );
        let npx = self.home.write("bin/npx", script);
        std::fs::set_permissions(npx, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let bin = self.home.root().join("bin");
        self.with_folder_on_path(&bin)
    }

    /// The command, not yet started.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(env!("CARGO_BIN_EXE_toolrack"));
        command.args(args).envs(self.variables()).stdin(Stdio::null());
        command
    }

    fn variables(&self) -> impl Iterator<Item = (&'static str, &String)> {
        self.environment.iter().map(|(name, value)| (*name, value))
    }

    /// Gives another program the environment and the working folder of the binary.
    pub(crate) fn set_environment(&self, command: &mut Command) {
        let model = self.home.command("model");
        let variables = model.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(variables).envs(self.variables()).current_dir(self.home.work());
    }

    /// Runs the binary to its end.
    #[must_use]
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        Ran::new(args, &output, self)
    }

    /// Runs the binary with this on stdin.
    #[must_use]
    pub(crate) fn run_with_stdin(&self, args: &[&str], stdin: &str) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
        Ran::new(args, &child.wait_with_output().unwrap(), self)
    }

    fn scrub(&self, text: &str) -> String {
        let real = self.home.root().canonicalize().unwrap();
        let mut scrubbed = text.to_owned();
        for (path, name) in
            [(fake_server_path().to_owned(), "[FAKE]"), (real, "[HOME]"), (self.home.root().to_owned(), "[HOME]")]
        {
            scrubbed = scrubbed.replace(path.to_str().unwrap(), name);
        }
        without_estimates(&without_layers(&scrubbed))
    }
}

/// Removes the doctor's lines about sandboxes and container engines, which differ between systems.
fn without_layers(text: &str) -> String {
    let mut lines: Vec<_> = text.split('\n').map(str::to_owned).collect();
    let names_layer =
        |line: &str| Layer::ALL.iter().any(|layer| line.contains(&format!(" sandbox    {} ", layer.word())));
    for line in lines.iter_mut().filter(|line| names_layer(line)) {
        line.truncate(line.rfind("  ").unwrap_or_default() + 2);
        line.push_str("[LAYER]");
    }
    for line in lines.iter_mut().filter(|line| line.contains(" container  engine ")) {
        line.truncate(line.rfind("  ").unwrap_or_default() + 2);
        line.push_str("[ENGINES]");
    }
    lines.join("\n")
}

/// A configuration file with these servers.
pub(crate) fn mcp_json(servers: &[(&str, Value)]) -> String {
    let servers: Map<_, _> = servers.iter().map(|(name, entry)| ((*name).to_owned(), entry.clone())).collect();
    json!({ "mcpServers": servers }).to_string()
}

/// The entry of a fake server with these options.
pub(crate) fn fake(options: &[&str]) -> Value {
    let args = [&["stdio"], options].concat();
    json!({ "command": fake_server_path(), "args": args })
}

/// What a command wrote, without the warning about processes that a killed host left behind. Other tests kill hosts on
/// purpose, and the next start of a server ends what it finds of them, in whichever test that is.
fn without_left_behind(stderr: &str) -> String {
    let is_own = |line: &&str| !line.starts_with(" WARN ended processes of servers that were left behind");
    stderr.split_inclusive('\n').filter(is_own).collect()
}

/// The outcome of a run.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: Option<i32>,
    shown: String,
}

impl Ran {
    pub(crate) fn new(args: &[&str], output: &Output, rack: &Rack) -> Self {
        let text = |bytes: &[u8]| rack.scrub(std::str::from_utf8(bytes).unwrap());
        let mut ran = Self {
            stdout: text(&output.stdout),
            stderr: without_left_behind(&text(&output.stderr)),
            code: output.status.code(),
            shown: String::new(),
        };
        let words: Vec<_> = args.iter().map(|word| rack.scrub(word)).collect();
        let _ = writeln!(ran.shown, "$ toolrack {}", words.join(" "));
        ran.shown += &ran.stdout;
        // Output that is passed on unchanged has no added line end.
        if !ran.stdout.is_empty() && !ran.stdout.ends_with('\n') {
            ran.shown.push('\n');
        }
        if !ran.stderr.is_empty() {
            let _ = writeln!(ran.shown, "--- stderr ---\n{}", ran.stderr.trim_end());
        }
        let _ = write!(ran.shown, "[{}]", ran.code.map_or_else(|| "signal".to_owned(), |code| code.to_string()));
        ran
    }

    /// Stdout as the one JSON document that it is.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The last line of stderr as the error that it is.
    pub(crate) fn error(&self) -> Value {
        let line = self.stderr.lines().last().unwrap_or_default();
        let mut line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {self}"));
        line["error"].take()
    }

    /// Fails the test unless the run ended with this code.
    pub(crate) fn ends_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }
}

/// A transcript: the command, its output, and the exit code.
impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Replaces numbers after these words by 0, because they vary: times, and estimated tokens of tools.
fn without_estimates(text: &str) -> String {
    ["\"duration_ms\":", "\"tokens\":", ", about ", " tokens, ", "does not work, "].iter().fold(
        text.to_owned(),
        |text, words| {
            let mut parts = text.split(words);
            let mut scrubbed = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
                scrubbed += words;
                scrubbed += if rest.len() < part.len() { "0" } else { "" };
                scrubbed += rest;
            }
            scrubbed
        },
    )
}

/// Every command that the help names, and the commands below those, as they are typed; first the program alone.
pub(crate) fn commands_of_help(rack: &Rack) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut at = 0;
    while let Some(command) = found.get(at).cloned() {
        let args: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = rack.run(&args).ends_with(0).stdout;
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // Lines that go on from the one before are indented further.
        let names = listed
            .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
        found.extend(names.map(|name| [command.clone(), vec![name.to_owned()]].concat()));
        at += 1;
    }
    found
}

/// The usage of a command, from the transcript of its help. Another test compares the transcripts with the program.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    /// The command: `config show`.
    pub(crate) command: String,
    /// The value names of the arguments that it requires: `TOOL`.
    pub(crate) required: Vec<String>,
}

/// The usage of every command that does something, in alphabetical order.
pub(crate) fn usages() -> Vec<Usage> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let transcripts =
        std::fs::read_dir(folder).unwrap().map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let usages = transcripts.filter_map(|transcript| {
        let usage = transcript.split_once("\nUsage: toolrack ")?.1.split("\n\n").next()?;
        let (command, arguments) = usage.split_once("[OPTIONS]").or_else(|| usage.split_once('['))?;
        // What is in brackets may be left out.
        let required = arguments.split('[').next()?.split('<').skip(1).filter_map(|rest| rest.split('>').next());
        let required: Vec<_> = required.map(str::to_owned).collect();
        (required != ["COMMAND"]).then(|| Usage { command: command.trim().to_owned(), required })
    });
    let mut usages: Vec<_> = usages.collect();
    usages.sort_by(|one, other| one.command.cmp(&other.command));
    assert!(usages.len() > 50, "{usages:?}");
    usages
}

/// A file in the working folder of `rack`.
pub(crate) fn work_file(rack: &Rack, name: &str, content: &str) -> PathBuf {
    rack.home.write(PathBuf::from("work").join(name), content)
}

/// The folder of the workspace.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The path in the variable, or the one to which `cargo xtask install` installs it.
#[expect(clippy::disallowed_methods, reason = "variables tell tests where programs are")]
pub(crate) fn installed(variable: &str, default: &str) -> PathBuf {
    let place = std::env::var_os(variable).map_or_else(|| repository().join(default), PathBuf::from);
    assert!(place.exists(), "{} is not there: run `cargo xtask install`", place.display());
    place
}
