//! A model answers a question with the tools of the servers in a `.mcp.json`.
//!
//! `cargo run --manifest-path embedder/agent/Cargo.toml -- .mcp.json "Which file here is the largest?"`
//!
//! The key comes from the environment, from the variable of its provider (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, …).
//! `TOOLRACK_MODEL` names another model than the default, such as `openrouter/qwen/qwen3-coder` or `ollama/qwen3`.

use std::{
    error::Error,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use tokio::task::spawn_blocking;
use toolrack_agent::{
    Agent, Delta, Front, Limits, Message, Model, Role, Turn, TurnEvent,
    model::{
        Key,
        provider::{PROVIDERS, Provider, Selector},
    },
};
use toolrack_config::{
    Environment, Interpolate, Loaded, Places, Request, SecretGate, UnsetPolicy, load, trust::NoLedger,
};
use toolrack_host::{Host, ask::Confirm, supervisor, text};

fn main() -> ExitCode {
    // Before any thread starts: a host may have started this process to supervise a server.
    if let Some(code) = supervisor::run_if_asked() {
        return code;
    }
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(file), Some(question)) = (words.next(), words.next()) else {
        return Err("name a file of servers and a question: .mcp.json \"Which file here is the largest?\"".into());
    };
    let environment = Environment::of_process();
    let model = model(&environment)?;
    let places = Places::from_env(&environment)?;
    let loaded = servers(Path::new(&file), &places, std::env::current_dir()?);
    for problem in &loaded.problems {
        eprintln!("{problem}");
    }
    if loaded.desired.is_empty() {
        return Err(format!("{file} has no server that can run").into());
    }
    let host = host(&loaded, &places, environment);
    host.apply(loaded.desired).await;
    host.settled().await;
    for server in host.status() {
        eprintln!("{}: {}", server.name, server.state.word());
    }
    let result = answer(model, host.clone(), &question).await;
    host.shutdown().await;
    result
}

/// Returns the named model, or the default of the first provider whose key is set.
fn model(environment: &Environment) -> Result<Arc<dyn Model>, Box<dyn Error>> {
    let variable = |name: &str| environment.get(name)?.to_str().filter(|value| !value.trim().is_empty());
    let key_of = |provider: &Provider| provider.key_variable.and_then(variable);
    let selector: Selector = match variable("TOOLRACK_MODEL") {
        Some(name) => name.parse()?,
        None => {
            let Some(provider) = Provider::first_with_key(|name| variable(name).is_some()) else {
                let names: Vec<_> = PROVIDERS.iter().filter_map(|provider| provider.key_variable).collect();
                return Err(format!(
                    "no key of a model provider is set: set one of {}, or TOOLRACK_MODEL to a model on this machine",
                    names.join(", ")
                )
                .into());
            };
            provider.name.parse()?
        }
    };
    let key = Provider::find(&selector.provider).and_then(key_of).map(Key::new);
    // The provider's own address.
    let base_url = None;
    // Names the variable when this provider needs a key and has none.
    Ok(selector.settings(base_url, key).connect()?)
}

/// Loads the servers of this file alone, which may run because the user named the file, and the rules of the user's
/// `toolrack.toml`.
fn servers(file: &Path, places: &Places, cwd: PathBuf) -> Loaded {
    let mut request = Request::new(places.clone(), cwd);
    request.mcp_config = vec![file.to_path_buf()];
    request.strict = true;
    load(&request, &NoLedger)
}

/// Builds a host that fills in `${VARIABLES}`, follows the user's rules, and asks about every call that no rule decides.
fn host(loaded: &Loaded, places: &Places, environment: Environment) -> Host {
    let values = Arc::new(Interpolate::new(environment, UnsetPolicy::Error).with_own_folders(places.own_folders()));
    let rules = Arc::new(loaded.settings.policy.clone());
    Host::builder()
        .gate(Arc::new(SecretGate::new(rules, Arc::clone(&values))))
        .resolver(values)
        .asker(Arc::new(|call: Confirm| async move { spawn_blocking(move || allows(&call)).await.unwrap_or(false) }))
        .supervisor(supervisor::Supervisor::this_program())
        .build()
}

/// Asks the user at the terminal. Text of servers and models is untrusted, so it is printed without control characters.
fn allows(call: &Confirm) -> bool {
    let arguments: Vec<_> = call.arguments.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let arguments = arguments.join(" ");
    eprint!("\nrun {}/{} {}? [y/N] ", call.server, text::for_line(&call.tool), text::for_line(&arguments));
    let mut line = String::new();
    io::stdin().read_line(&mut line).is_ok() && line.trim().eq_ignore_ascii_case("y")
}

/// Prints the answer while it arrives. A front that stores conversations also implements `store`.
struct Printer;

impl Front for Printer {
    fn on_event(&mut self, event: TurnEvent<'_>) {
        if let TurnEvent::Delta(Delta::Text(piece)) = event {
            print!("{}", text::for_terminal(piece));
            // A closed stdout does not end the turn.
            let _ = io::stdout().flush();
        }
    }
}

async fn answer(model: Arc<dyn Model>, host: Host, question: &str) -> Result<(), Box<dyn Error>> {
    let mut turn = Turn::new(vec![Message::new(Role::User, question)], Limits::default());
    Agent::new(model, host).run(&mut turn, &mut Printer).await?;
    println!();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Environment, Places, model, servers};

    fn with(variables: &[(&str, &str)]) -> Environment {
        Environment::new(variables.iter().copied())
    }

    #[test]
    fn without_a_key_the_error_names_the_variables_of_the_providers() {
        for environment in [with(&[]), with(&[("OPENAI_API_KEY", " ")])] {
            let error = model(&environment).unwrap_err().to_string();
            assert!(error.contains("set one of ANTHROPIC_API_KEY, OPENAI_API_KEY, DEEPSEEK_API_KEY"), "{error}");
        }
        let named = model(&with(&[("TOOLRACK_MODEL", "mistral"), ("OPENAI_API_KEY", "k")])).unwrap_err().to_string();
        assert!(named.contains("MISTRAL_API_KEY"), "{named}");
    }

    #[test]
    fn the_provider_whose_key_is_set_answers_unless_a_model_is_named() {
        let model_name = |variables: &[(&str, &str)]| model(&with(variables)).unwrap().name().to_owned();
        assert!(model_name(&[("GROQ_API_KEY", "k")]).starts_with("groq/"));
        assert_eq!(model_name(&[("GROQ_API_KEY", "k"), ("TOOLRACK_MODEL", "ollama/qwen3")]), "ollama/qwen3");
    }

    #[test]
    fn only_the_servers_of_the_named_file_run_and_its_bad_entry_is_a_problem() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".mcp.json");
        std::fs::write(&file, r#"{ "mcpServers": { "fs": { "command": "mcp-fs" }, "bad": {} } }"#).unwrap();
        std::fs::write(folder.path().join("mcp.json"), r#"{ "mcpServers": { "own": { "command": "own" } } }"#).unwrap();
        let loaded = servers(&file, &Places::under(folder.path()), folder.path().to_path_buf());
        assert_eq!(loaded.desired.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["fs"]);
        assert!(loaded.problems.iter().any(|problem| problem.to_string().contains(".mcp.json:1:")));
    }
}
