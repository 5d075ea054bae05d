//! Runs `toolrack doctor`, which checks the configuration, this machine and the servers. An entry is the configuration
//! of one server in a file. `Context` is what a command works with: its configuration, database, screen and servers.

mod contact;
mod container;
mod render;
mod tools;

use std::path::Path;

use clap::Args;
use toolrack_config::{Entry, Loaded, Scope as ConfigScope, ShadowedEntry};
use toolrack_host::{
    ServerName, ServerSpec, ServerStatus,
    egress::{Profile, Proxy},
    spec::{Source, Transport, Trust, absolute_path},
    supervisor,
};

use crate::{
    args::ServersArgs,
    context::Context,
    database,
    error::{Exit, Failure},
    lending,
    render::count,
    verbs::{configure::edits, reach},
};
use render::{Check, Document, Health};

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack doctor
  toolrack doctor github
  toolrack doctor --offline --json")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) filter: ServersArgs,

    /// Start and contact no server
    #[arg(long)]
    pub(crate) offline: bool,
}

pub(crate) async fn run(args: DoctorArgs, context: &Context) -> Result<Exit, Failure> {
    let server_names = &args.filter.servers;
    let loaded = context.read().await;
    for name in server_names {
        edits::find_entry(&loaded, name)?;
    }
    let mut checks = Vec::new();
    if server_names.is_empty() {
        checks.extend(file_checks(&loaded));
        checks.extend(data_check(context).await);
        checks.extend(secrets_check(context).await);
        checks.extend(egress_check(context));
        checks.extend(sandbox_checks());
        checks.extend(path_check(context));
        checks.extend(daemon_checks(context).await);
        checks.extend(container::engines(&loaded, context));
    }
    let is_selected = |entry: &&Entry| server_names.is_empty() || server_names.contains(&entry.name);
    for entry in loaded.entries.iter().filter(is_selected) {
        checks.extend(entry_checks(entry, &loaded, server_names, context).await);
    }
    if !args.offline {
        let unusable_servers: Vec<_> =
            checks.iter().filter_map(|check| check.unusable_server().map(str::to_owned)).collect();
        checks.extend(connection_checks(&loaded, server_names, &unusable_servers, context).await?);
    }
    let exit = checks.iter().find_map(|check| (check.health == Health::Bad).then_some(check.exit)).unwrap_or(Exit::Ok);
    if context.screen.prints_json() {
        context.screen.document(&Document { ok: exit == Exit::Ok, checks: &checks }).await?;
    } else {
        context.screen.page(render::page(&checks, context.screen.layout())).await?;
    }
    Ok(exit)
}

/// Returns a check for each configuration file that exists, and one for each problem of a file.
fn file_checks(loaded: &Loaded) -> Vec<Check> {
    let mut checks = Vec::new();
    // Warnings about rules of `[policy]` that name no configured server.
    let idle_rule_problems = loaded.idle_rules();
    for file in &loaded.files {
        let path = file.path.display().to_string();
        let mut problem_checks = loaded
            .problems
            .iter()
            .chain(&idle_rule_problems)
            .filter(|problem| problem.path.as_ref() == Some(&file.path) && problem.entry.is_none())
            .map(Check::from_problem)
            .peekable();
        if problem_checks.peek().is_none() && file.path.exists() {
            let servers = loaded.entries.iter().filter(|entry| entry.source.path.as_ref() == Some(&file.path)).count();
            let message = format!("read ({}), {}", file.scope, count(servers, "server"));
            checks.push(Check::good("file", &path, message));
        }
        checks.extend(problem_checks);
        checks.extend(exposed_secrets_check(&file.path, file.scope, loaded));
    }
    checks
}

/// Returns a warning if the user's own file at `path` may hold secrets and other users of this machine can read it.
fn exposed_secrets_check(path: &Path, scope: ConfigScope, loaded: &Loaded) -> Option<Check> {
    let is_own_file = matches!(scope, ConfigScope::User | ConfigScope::Local);
    // In the view of an entry, `***` stands for a value that may be a secret.
    let holds_secrets = loaded
        .entries
        .iter()
        .any(|entry| entry.source.path.as_deref() == Some(path) && entry.view.to_string().contains("***"));
    if !is_own_file || !holds_secrets || !others_can_read(path) {
        return None;
    }
    let path = path.display().to_string();
    let hint = format!("chmod 600 {}, or write ${{NAME}} instead of the value", shell_words::quote(&path));
    let message = "the file holds values that may be secrets, and other users of this machine can read it";
    Some(Check::doubtful("file", &path, message).hint(hint))
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

/// Checks that the database can be used.
async fn data_check(context: &Context) -> Vec<Check> {
    let path = context.store().map_or_else(|_| database::file(&context.places), |store| store.path().to_owned());
    let path = path.display().to_string();
    // Reading the approvals shows whether the database works.
    vec![match context.approvals().await {
        Ok(_) if context.has_store() => Check::good("data", &path, "can be read and written"),
        Ok(_) => Check::bad("data", &path, "cannot be used; agreements, logs and eras are not remembered", Exit::Other),
        Err(failure) => Check::bad("data", &path, failure.message, failure.exit),
    }]
}

/// Checks where the key to the stored secrets is, and whether it can open them.
async fn secrets_check(context: &Context) -> Option<Check> {
    let secret_store = context.secret_store();
    let key_place = secret_store.key_place();
    // Without a database, no secret can be checked. The check `data` reports the missing database.
    let names = secret_store.names().await.ok()?;
    let mut unreadable = Vec::new();
    for name in &names {
        if let Err(error) = secret_store.get(name).await {
            unreadable.push((name, error));
        }
    }
    let secret_count = count(names.len(), "secret");
    Some(match unreadable.first() {
        Some((name, error)) => Check::bad("secrets", &key_place, crate::error::with_causes(error), Exit::Other)
            .hint(format!("toolrack secret set {name}")),
        None if names.is_empty() => Check::good("secrets", &key_place, "none is stored"),
        None => Check::good("secrets", &key_place, format!("{secret_count}, sealed with the key that is here")),
    })
}

/// Reports which layers of a sandbox this system can enforce.
fn sandbox_checks() -> impl Iterator<Item = Check> {
    supervisor::Layer::ALL.iter().map(|layer| Check::good("sandbox", layer.word(), layer.coverage()))
}

/// Returns a warning if the `PATH` has relative or empty folders, which are not searched for programs of servers.
fn path_check(context: &Context) -> Option<Check> {
    let path = context.environment.get("PATH")?;
    absolute_path(path)?;
    let message =
        "it has a relative or empty folder, which means the working folder; servers get only the other folders";
    Some(Check::doubtful("path", "PATH", message).hint("remove `.` and empty folders from PATH"))
}

/// If a daemon runs, checks whether commands in this folder use it, and if not, why.
async fn daemon_checks(context: &Context) -> Vec<Check> {
    let Some(differences) = lending::differences(context.places.data(), context.screen.terminal_properties()).await
    else {
        return Vec::new();
    };
    if differences.is_empty() {
        return vec![Check::good("daemon", "commands", "commands here use its servers")];
    }
    let unused_check = |why| Check::good("daemon", "commands", format!("commands here do not use it: {why}"));
    differences.into_iter().map(unused_check).collect()
}

/// Returns a description of the egress rules (which addresses this program may contact), if a setting changes them.
fn egress_check(context: &Context) -> Option<Check> {
    let rules = context.egress().rules();
    if rules.source.is_empty() {
        return None;
    }
    let mut message = match rules.profile {
        Profile::Local => "configured addresses may be anywhere; addresses that servers name must be public".to_owned(),
        Profile::Hosted => "https to public addresses only".to_owned(),
    };
    if !rules.ports.is_empty() && rules.profile == Profile::Hosted {
        let ports: Vec<_> = rules.ports.iter().map(u16::to_string).collect();
        message += &format!(", port 443 and {}", ports.join(", "));
    }
    if !rules.allow.is_empty() {
        message += &format!(", and {} that `egress.allow` trusts", count(rules.allow.len(), "place"));
    }
    message += match (&rules.proxy, rules.profile) {
        (Proxy::At(_), _) => "; through `egress.proxy`, which must itself refuse what no program may reach",
        (Proxy::Environment, Profile::Local) => "",
        (Proxy::Environment, Profile::Hosted) if context.has_proxy() => {
            "; the proxy that the environment names is not used"
        }
        _ => "; without a proxy",
    };
    Some(Check::good("egress", &rules.profile.to_string(), message))
}

/// Makes the checks of an entry that do not start its server. `server_names` are the servers that the user named, if
/// any.
async fn entry_checks(entry: &Entry, loaded: &Loaded, server_names: &[String], context: &Context) -> Vec<Check> {
    let mut checks: Vec<_> = loaded
        .problems
        .iter()
        .filter(|problem| problem.entry.as_ref() == Some(&entry.name))
        .map(Check::from_problem)
        .collect();
    // The same file under two names is not a second entry.
    let canonical_path = |source: &Source| source.path.as_ref().and_then(|path| path.canonicalize().ok());
    let is_other = |shadow: &&ShadowedEntry| {
        canonical_path(&shadow.source).is_none_or(|path| canonical_path(&entry.source) != Some(path))
    };
    for shadow in entry.shadows.iter().filter(|shadow| shadow.scope != ConfigScope::BuiltIn).filter(is_other) {
        let message =
            format!("configured twice: the entry in {} is used, the one in {} is not", entry.source, shadow.source);
        let hint = format!("toolrack remove {} --scope {}", entry.name, shadow.scope);
        checks.push(Check::doubtful("config", &entry.name, message).hint(hint));
    }
    if entry.trust == Trust::Pending {
        let message = match &entry.depends_on {
            Some(word) => format!(
                "`{word}` means something else in each folder, so the entry waits for your agreement in this one"
            ),
            None => format!("the entry comes from {}, and waits for your agreement", entry.source),
        };
        let hint = format!("toolrack pending {0}, then toolrack trust {0}", entry.name);
        let pending_check = Check::doubtful("trust", &entry.name, message).hint(hint);
        // A waiting entry fails the command only if the user has named it.
        checks.push(if server_names.is_empty() { pending_check } else { pending_check.failing_with(Exit::NotTrusted) });
        return checks;
    }
    let spec = loaded.desired.get(entry.name.as_str()).filter(|spec| spec.enabled);
    if let Some(spec) = spec {
        checks.extend(placeholder_and_program_check(&entry.name, spec, context).await);
        checks.extend(container::checks(&entry.name, spec, context).await);
    }
    checks
}

/// Checks that every placeholder of a server has a value. If the server runs outside a container, also checks that its
/// folder and its program exist.
async fn placeholder_and_program_check(name: &str, spec: &ServerSpec, context: &Context) -> Option<Check> {
    let server = ServerName::new(name).ok()?;
    let hint = format!("correct the entry in {}", spec.source);
    let unresolved_check = |error: toolrack_host::ResolveError| {
        Check::bad("variables", name, error.to_string(), Exit::Usage).hint(hint.clone())
    };
    let plan = match &spec.transport {
        Transport::Stdio(stdio) => match context.resolver().stdio(&server, stdio).await {
            Ok(plan) => plan,
            Err(error) => return Some(unresolved_check(error)),
        },
        Transport::Http(http) | Transport::Sse(http) => {
            let url = context.resolver().url(&server, http).await.map(drop);
            let headers = context.resolver().headers(&server, http).await.map(drop);
            return url.and(headers).err().map(unresolved_check);
        }
        Transport::Native(_) => return None,
    };
    if plan.container.is_some() {
        // The folder and the program are in the image of the container.
        return None;
    }
    let path = plan.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
    let folder = plan.cwd.unwrap_or_else(|| context.folder.clone());
    if !folder.is_dir() {
        let message = format!("the working folder {} of the server does not exist", folder.display());
        return Some(Check::bad("program", name, message, Exit::Unreachable).hint(hint));
    }
    match which::which_in(&plan.command, path, &folder) {
        Ok(program) => Some(Check::good("program", name, program.display().to_string())),
        Err(_) => {
            let message = format!("there is no program `{}` on the PATH that the server gets", plan.command);
            let hint = format!("install it, or give its full path in {}", spec.source);
            Some(Check::bad("program", name, message, Exit::Unreachable).hint(hint))
        }
    }
}

/// Connects each server, and reports at which step a connection failed. Skips the servers in `unusable_servers`, whose
/// other checks show that they cannot start.
async fn connection_checks(
    loaded: &Loaded,
    server_names: &[String],
    unusable_servers: &[String],
    context: &Context,
) -> Result<Vec<Check>, Failure> {
    let mut desired = loaded.desired.clone();
    desired.retain(|name, spec| {
        let has_this_name = |other: &String| other == name.as_str();
        let is_selected = server_names.is_empty() || server_names.iter().any(has_this_name);
        is_selected && spec.enabled && spec.trust == Trust::Trusted && !unusable_servers.iter().any(has_this_name)
    });
    let specs = desired.clone();
    let host = context.connect_to_check(desired).await?;
    let mut checks = tools::checks(&host);
    for status in host.status() {
        let Some(failure) = reach::server_failure(&host, &status) else {
            checks.push(Check::good("server", status.name.as_str(), describe_connection(&status)));
            continue;
        };
        let why = host.why(status.name.as_str());
        let step = why.steps.iter().find(|step| !step.ok);
        let message = step.map_or_else(|| failure.message.clone(), |step| format!("{}: {}", step.stage, step.what));
        let mut check = Check::bad("server", status.name.as_str(), message, failure.exit);
        check.hint = failure.hint;
        checks.push(check);
        if let Some(spec) = specs.get(&status.name) {
            checks.extend(contact::checks(&status.name, spec, context).await);
        }
    }
    Ok(checks)
}

/// Describes a connected server. The era is the generation of MCP that it speaks: `modern` (2026-07-28), or `legacy`
/// (older, with sessions).
fn describe_connection(status: &ServerStatus) -> String {
    let version = status.protocol_version.as_deref().unwrap_or("?");
    let era = status.era.map_or_else(String::new, |era| format!(" ({era} era)"));
    format!("connected, MCP {version}{era}, {}", count(status.tools, "tool"))
}
