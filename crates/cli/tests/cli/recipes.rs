//! The programs of `docs/guide/recipes.md`: agent frameworks in front of Toolrack, exactly as the page has them, over
//! stdio and over the URL of a daemon. The server behind Toolrack is a real one, and it is killed between two calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use toolrack_testkit::processes;

use crate::{
    rack::{Rack, installed, repository, work_file},
    warm::Daemon,
};

/// Enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

fn page() -> String {
    std::fs::read_to_string(repository().join("docs/guide/recipes.md")).unwrap()
}

/// The blocks of the page, with the info string of each.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_open = false;
    for line in page.lines() {
        match (line.strip_prefix("```"), found.last_mut()) {
            (Some(_), _) if is_open => is_open = false,
            (Some(about), _) => {
                is_open = true;
                found.push((about.to_owned(), String::new()));
            }
            (None, Some((_, code))) if is_open => *code += &format!("{line}\n"),
            (None, _) => {}
        }
    }
    found
}

/// The programs of the page by their names.
fn programs(page: &str) -> BTreeMap<String, String> {
    let named = |(about, code): (String, String)| {
        let name = about.strip_prefix("python ").or_else(|| about.strip_prefix("js "))?;
        Some((name.to_owned(), code))
    };
    blocks(page).into_iter().filter_map(named).collect()
}

/// The program `name`, with the statement of its block for HTTP, as the page tells its readers.
fn over_http(programs: &BTreeMap<String, String>, name: &str) -> String {
    let (whole, instead) = (&programs[name], &programs[&format!("{name}-http")]);
    let is_replaced = |line: &&str| line.starts_with("toolrack = ") || line.starts_with("const toolrack = ");
    let replaced: Vec<_> = whole.lines().filter(is_replaced).collect();
    let [replaced] = replaced[..] else { panic!("{name} has {} statements `toolrack = …`", replaced.len()) };
    whole.replacen(&format!("{replaced}\n"), instead, 1)
}

/// A home after the steps of the page before the first program.
///
/// The frameworks pass little of their own environment to a server, so Toolrack must find its files in the default
/// places.
fn rack() -> Rack {
    let node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node");
    let modules = installed("TOOLRACK_TEST_NODE_MODULES", ".cache/npm/node_modules");
    let rack = Rack::new().with_binary_on_path().with_npx(&node, &modules).env("TOOLRACK_HOME", "");
    work_file(&rack, "one/first.txt", "");
    work_file(&rack, "two/second.txt", "");
    for (about, code) in blocks(&page()) {
        if about == "console" {
            let typed: String = code.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
            let mut shell = Command::new("sh");
            rack.set_environment(&mut shell);
            let output = shell.args(["-c", &typed]).stdin(Stdio::null()).output().unwrap();
            assert!(output.status.success(), "{typed}: {output:?}");
        }
    }
    rack
}

/// A program of the page while it runs.
struct Recipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// What it has printed.
    printed: String,
}

impl Recipe {
    fn start(rack: &Rack, mut command: Command) -> Self {
        rack.set_environment(&mut command);
        // Into a pipe, Python would keep its answers until it ends. Mastra would report to its makers what is used.
        command.env("PYTHONUNBUFFERED", "1").env("MASTRA_TELEMETRY_DISABLED", "1");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, printed: String::new() }
    }

    /// Types a line, and waits until the program has printed `word`.
    fn answers(&mut self, typed: &str, word: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{typed}").unwrap();
        let already = self.printed.len();
        while !self.printed[already..].contains(word) {
            let read = self.stdout.read_line(&mut self.printed).unwrap();
            assert!(read > 0, "it ended before it printed {word}; before that:\n{}", self.printed);
        }
    }

    /// Its user types nothing more.
    fn ends_well(mut self) {
        drop(self.stdin.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}; it printed:\n{}", self.printed);
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes of the server behind Toolrack: `above` itself, or its descendants.
fn servers(above: u32) -> BTreeSet<u32> {
    let is_server = |pid: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let (program, rest) = line.split_once('\0').unwrap_or_default();
        program.ends_with("/node") && rest.contains("mcp-server-filesystem")
    };
    processes::descendants(above).into_iter().filter(is_server).collect()
}

/// Kills the server, and waits until Toolrack has started another one.
///
/// A call that is already on its way to a dying server fails, and Toolrack does not repeat it: it could do its work
/// twice.
fn kill_the_server(above: u32) {
    let killed = servers(above);
    assert_eq!(killed.len(), 1, "there is one server: {killed:?}");
    for pid in &killed {
        assert!(Command::new("kill").args(["-s", "KILL", &pid.to_string()]).status().unwrap().success());
    }
    let end = Instant::now() + LIMIT;
    while servers(above).is_subset(&killed) {
        assert!(Instant::now() < end, "no server was started in the place of the killed one");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs this code of the page, with the server killed between its two calls.
///
/// `run` makes the command of a file; the server is below the daemon, or else below the program.
fn survives(rack: &Rack, code: &str, file: &str, run: &dyn Fn(&Path) -> Command, daemon: Option<&Daemon>) {
    let file = work_file(rack, file, code);
    let mut recipe = Recipe::start(rack, run(&file));
    recipe.answers("one", "first.txt");
    assert!(recipe.printed.lines().next().unwrap().contains("mcp__fs__read_text_file"), "{}", recipe.printed);
    kill_the_server(daemon.map_or(recipe.child.id(), Daemon::pid));
    recipe.answers("two", "second.txt");
    recipe.ends_well();
}

/// Runs the program `name` of the page over stdio, and over the URL of a daemon, of which only the port is another.
fn survives_both_ways(name: &str, file: &str, run: impl Fn(&Rack, &Path) -> Command) {
    let programs = programs(&page());
    let own = rack();
    survives(&own, &programs[name], file, &|file| run(&own, file), None);

    let shared = rack();
    let daemon = Daemon::start(&shared, &["--yes-read-only", "--token-file", "token"]);
    let code = over_http(&programs, name).replace("127.0.0.1:7717", &daemon.address);
    let token = shared.home.read("work/token");
    let shared = shared.env("TOOLRACK_TOKEN", token.trim_end());
    survives(&shared, &code, file, &|file| run(&shared, file), Some(&daemon));
}

mod needs_python_frameworks {
    use super::*;

    fn survives_in_python(name: &str) {
        let venv = installed("TOOLRACK_TEST_PYTHON_FRAMEWORKS", ".cache/frameworks/venv");
        survives_both_ways(name, "recipe.py", |_, file| {
            let mut python = Command::new(venv.join("bin/python"));
            python.arg(file);
            python
        });
    }

    #[test]
    fn langchain_calls_a_server_that_is_killed_between_two_calls() {
        survives_in_python("langchain");
    }

    #[test]
    fn the_openai_agents_sdk_calls_a_server_that_is_killed_between_two_calls() {
        survives_in_python("openai-agents");
    }

    #[test]
    fn pydantic_ai_calls_a_server_that_is_killed_between_two_calls() {
        survives_in_python("pydantic-ai");
    }
}

mod needs_node_frameworks {
    use super::*;

    fn survives_in_node(name: &str) {
        let node = installed("TOOLRACK_TEST_NODE22", ".cache/npm/node_modules/.bin/node");
        let packages = installed("TOOLRACK_TEST_NODE_FRAMEWORKS", ".cache/frameworks/npm/node_modules");
        survives_both_ways(name, "recipe.mjs", |rack, file| {
            // Where Node looks for the packages of a program.
            std::os::unix::fs::symlink(&packages, rack.home.work().join("node_modules")).unwrap();
            let mut node = Command::new(&node);
            node.arg(file);
            node
        });
    }

    #[test]
    fn mastra_calls_a_server_that_is_killed_between_two_calls() {
        survives_in_node("mastra");
    }

    #[test]
    fn the_ai_sdk_calls_a_server_that_is_killed_between_two_calls() {
        survives_in_node("ai-sdk");
    }
}

#[test]
fn every_program_of_the_page_has_a_test() {
    let this = include_str!("recipes.rs");
    let programs = programs(&page());
    let (over_http, whole): (Vec<_>, Vec<_>) = programs.keys().partition(|name| name.ends_with("-http"));
    assert_eq!(whole.len(), 5);
    assert_eq!(over_http.len(), whole.len(), "{over_http:?}");
    for name in whole {
        assert!(this.contains(&format!("(\"{name}\");")), "no test runs {name}");
    }
}

#[test]
fn the_page_installs_the_versions_that_the_tests_run() {
    let list = |name: &str| std::fs::read_to_string(repository().join("xtask/peers/frameworks").join(name)).unwrap();
    let (python, npm) = (list("requirements.txt"), list("package.json"));
    let page = page();
    let mut named = 0;
    for line in page.lines() {
        for one in line.strip_prefix("pip install ").into_iter().flat_map(str::split_whitespace) {
            let one = one.trim_matches('"').replace("[mcp]", "");
            assert!(python.lines().any(|line| line == format!("{one} \\")), "{one} is not what is tested");
            named += 1;
        }
        for one in line.strip_prefix("npm install ").into_iter().flat_map(str::split_whitespace) {
            let (package, version) = one.rsplit_once('@').unwrap();
            assert!(npm.contains(&format!("\"{package}\": \"{version}\"")), "{one} is not what is tested");
            named += 1;
        }
    }
    assert_eq!(named, 6);
}
