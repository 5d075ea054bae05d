//! Runs `toolrack daemon install` and `uninstall`, which write and remove a systemd unit for the daemon of one user or
//! of the machine.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use serde::Serialize;
use toolrack_config::Environment;

use super::{super::serve::args::ServeArgs, background::serve_words};
use crate::{
    args,
    context::Context,
    error::{Exit, Failure, in_words},
};

/// `daemon install`.
#[derive(Debug, Args)]
#[command(
    after_help = "The daemon takes the options of `toolrack serve`. The unit starts with your session, and has the PATH of this \
moment; change it with `systemctl --user edit toolrack`.

Examples:
  toolrack daemon install
  toolrack daemon install --yes-read-only --allow 'fs/*'
  sudo toolrack daemon install --system"
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    pub(crate) unit: UnitArgs,

    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// `daemon uninstall`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  toolrack daemon uninstall
  sudo toolrack daemon uninstall --system")]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    pub(crate) unit: UnitArgs,
}

/// The unit to write or remove.
#[derive(Debug, Args)]
pub(crate) struct UnitArgs {
    /// The unit of a daemon for the whole machine, which runs as a separate user, instead of your own daemon
    #[arg(long)]
    pub(crate) system: bool,

    /// The folder of the unit, instead of the one in which systemd looks
    #[arg(long, value_name = "DIR")]
    pub(crate) unit_folder: Option<PathBuf>,
}

/// The name of the unit.
const UNIT_NAME: &str = "toolrack.service";

/// The beginning of the first line of every unit that this command has written. No other unit is overwritten or
/// removed.
const FIRST_LINE_START: &str = "# Written by `toolrack daemon install";

const USER_UNIT: &str = include_str!("install/user.service");
const SYSTEM_UNIT: &str = include_str!("install/system.service");

/// The data folder of the machine's daemon. systemd makes it, as the unit says.
const SYSTEM_HOME: &str = "/var/lib/toolrack";

/// How long the daemon may take to end its servers and itself, after the time that its options give to calls under way.
const END_TIME: Duration = Duration::from_secs(37);

/// The folders of homes, which the machine's daemon cannot see (`ProtectHome` in its unit).
const HOME_FOLDERS: &[&str] = &["/home", "/root", "/run/user"];

/// The variables that the unit copies at installation, if they are set.
const COPIED_VARIABLES: &[&str] = &["TOOLRACK_HOME", "TOOLRACK_MCP_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// `daemon install --json`.
#[derive(Debug, Serialize)]
struct InstallDocument {
    unit: PathBuf,
    /// The command that starts the daemon, now and at each boot.
    start: &'static str,
    /// The command that removes the unit.
    undo: &'static str,
}

/// `daemon uninstall --json`.
#[derive(Debug, Serialize)]
struct UninstallDocument {
    unit: PathBuf,
    removed: bool,
    /// The command that ends the daemon, if it is running.
    stop: &'static str,
}

/// Writes the unit, and says how to start it and how to remove it.
pub(super) async fn install(args: &InstallArgs, words: &[OsString], context: &Context) -> Result<Exit, Failure> {
    if args.serve.with_parent {
        return Err(
            Failure::usage("`--with-parent` is for `toolrack serve`").hint("a unit has no parent that could end")
        );
    }
    let unit = unit_path(&args.unit, &context.environment)?;
    let program = std::env::current_exe().map_err(|error| write_failure(&unit, &error))?;
    let daemon =
        DaemonCommand { program: &program, words: &serve_command(args, words), end_time: end_time(&args.serve) };
    let text = unit_text(&daemon, args.unit.system, &context.environment);
    if author_of(&unit).map_err(|error| write_failure(&unit, &error))? == UnitAuthor::Another {
        return Err(foreign_unit(&unit).hint("move it away, or name another folder with --unit-folder"));
    }
    write(&unit, &text).map_err(|error| write_failure(&unit, &error))?;
    if let Some(message) = warning_about(&program, args.unit.system) {
        context.screen.warning(message);
    }
    let (start, undo) = if args.unit.system {
        ("systemctl daemon-reload && systemctl enable --now toolrack", "toolrack daemon uninstall --system")
    } else {
        ("systemctl --user daemon-reload && systemctl --user enable --now toolrack", "toolrack daemon uninstall")
    };
    if context.screen.prints_json() {
        context.screen.document(&InstallDocument { unit, start, undo }).await?;
    } else {
        let lines =
            format!("wrote {}\n`{start}` starts the daemon, now and from now on\n`{undo}` undoes this", unit.display());
        context.screen.page(lines).await?;
    }
    Ok(Exit::Ok)
}

/// Removes the unit, if `daemon install` has written it.
pub(super) async fn uninstall(args: &UninstallArgs, context: &Context) -> Result<Exit, Failure> {
    let unit = unit_path(&args.unit, &context.environment)?;
    let not_removed = |error: &io::Error| {
        let message = format!("{} cannot be removed: {}", unit.display(), in_words(error));
        Failure::new(Exit::Other, "NOT_REMOVED", message)
    };
    let removed = match author_of(&unit).map_err(|error| not_removed(&error))? {
        UnitAuthor::Another => {
            return Err(foreign_unit(&unit).hint("remove it yourself, if you no longer want it"));
        }
        UnitAuthor::Toolrack => fs::remove_file(&unit).map(|()| true).map_err(|error| not_removed(&error))?,
        UnitAuthor::Missing => false,
    };
    let stop = if args.unit.system {
        "systemctl disable --now toolrack; systemctl daemon-reload"
    } else {
        "systemctl --user disable --now toolrack; systemctl --user daemon-reload"
    };
    if context.screen.prints_json() {
        context.screen.document(&UninstallDocument { unit, removed, stop }).await?;
    } else if removed {
        context.screen.page(format!("removed {}\n`{stop}` ends the daemon if it still runs", unit.display())).await?;
    } else {
        context.screen.note(&format!("there is no {}", unit.display()));
    }
    Ok(Exit::Ok)
}

/// The author of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnitAuthor {
    /// `daemon install`.
    Toolrack,
    /// Another program, or a user.
    Another,
    /// There is no such file.
    Missing,
}

/// Returns the author of the file `unit`.
///
/// # Errors
/// When there is such a file, and it cannot be read.
fn author_of(unit: &Path) -> io::Result<UnitAuthor> {
    match fs::read(unit) {
        Ok(content) if content.starts_with(FIRST_LINE_START.as_bytes()) => Ok(UnitAuthor::Toolrack),
        Ok(_) => Ok(UnitAuthor::Another),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(UnitAuthor::Missing),
        Err(error) => Err(error),
    }
}

/// Returns the path of the unit.
fn unit_path(args: &UnitArgs, environment: &Environment) -> Result<PathBuf, Failure> {
    if let Some(folder) = &args.unit_folder {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        return Ok(folder.join(UNIT_NAME));
    }
    if args.system {
        return Ok(Path::new("/etc/systemd/system").join(UNIT_NAME));
    }
    let config_home = environment.get("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let folder = config_home.or_else(|| environment.home().map(|home| home.join(".config")));
    let folder = folder.ok_or_else(|| Failure::config("no home folder is known: set `HOME`, or name --unit-folder"))?;
    Ok(folder.join("systemd/user").join(UNIT_NAME))
}

/// The options whose value is a file or folder.
const PATH_OPTIONS: &[&str] =
    &["--tls-cert", "--tls-key", "--token-file", "--team", "--mcp-config", "--root", "--answers"];

/// Returns the words of a `serve` command with the options of this `daemon install`. Paths in them are absolute,
/// because the daemon starts in another folder.
fn serve_command(args: &InstallArgs, words: &[OsString]) -> Vec<String> {
    let mut command = Vec::new();
    let mut words = serve_words("install", words).into_iter().map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let (name, joined_value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        match name {
            "--system" => {}
            "--unit-folder" => drop(joined_value.or_else(|| words.next())),
            _ if PATH_OPTIONS.contains(&name) => {
                let value = joined_value.or_else(|| words.next()).unwrap_or_default();
                command.push(format!("{name}={}", absolute(&value)));
            }
            _ => command.push(word),
        }
    }
    if args.unit.system && args.serve.token_file.is_none() {
        // Root finds the daemon's token in this file.
        command.extend(["--token-file".to_owned(), format!("{SYSTEM_HOME}/token")]);
    }
    command
}

/// Returns a path as an absolute one. `--mcp-config` also takes `-` and JSON, which stay as they are.
fn absolute(path: &str) -> String {
    let is_path = !path.is_empty() && !args::is_inline(Path::new(path));
    let absolute = is_path.then(|| std::path::absolute(path).ok()).flatten();
    absolute.map_or_else(|| path.to_owned(), |absolute| absolute.to_string_lossy().into_owned())
}

/// What the unit says of the daemon.
struct DaemonCommand<'a> {
    program: &'a Path,
    words: &'a [String],
    /// How long the daemon may take to end before systemd kills it.
    end_time: Duration,
}

/// Returns how long a daemon with these options may take to end: it serves on, then waits for calls, then ends.
fn end_time(options: &ServeArgs) -> Duration {
    options.time_for_calls().saturating_add(END_TIME)
}

/// Returns why a unit with this program may not start, if there is a reason.
fn warning_about(program: &Path, is_system: bool) -> Option<&'static str> {
    // npx and uvx run programs from folders with these names.
    if ["/_npx/", "/uv/"].iter().any(|cache| program.to_string_lossy().contains(cache)) {
        return Some("the unit starts a program in a cache, which may be emptied; install Toolrack, and do this again");
    }
    (is_system && HOME_FOLDERS.iter().any(|folder| program.starts_with(folder))).then_some(
        "the unit does not start, because the machine's daemon cannot see home folders, and this program is in one; \
         install Toolrack from the Debian package or into /usr/local, and do this again",
    )
}

/// Returns the text of the unit.
fn unit_text(daemon: &DaemonCommand<'_>, is_system: bool, environment: &Environment) -> String {
    let mut command = quoted(&daemon.program.to_string_lossy());
    for word in daemon.words {
        command.push(' ');
        command += &quoted_argument(word);
    }
    let variables = if is_system {
        vec![("HOME".to_owned(), SYSTEM_HOME.to_owned()), ("TOOLRACK_HOME".to_owned(), SYSTEM_HOME.to_owned())]
    } else {
        variables_to_copy(environment)
    };
    let line = |(name, value): (String, String)| format!("Environment={}\n", quoted(&format!("{name}={value}")));
    let variables: String = variables.into_iter().map(line).collect();
    let unit = if is_system { SYSTEM_UNIT } else { USER_UNIT };
    let unit = unit.replace("@REPOSITORY@", env!("CARGO_PKG_REPOSITORY")).replace("@ENVIRONMENT@", &variables);
    let unit = unit.replace("@END_TIME@", &daemon.end_time.as_secs().to_string());
    // Replace the command last, so that nothing in it is taken for a placeholder.
    unit.replace("@COMMAND@", &command)
}

/// Returns the variables of the user that the daemon needs. `PATH` is one of them because systemd starts no shell,
/// which would extend it.
fn variables_to_copy(environment: &Environment) -> Vec<(String, String)> {
    let path = environment.get("PATH").map(|path| {
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        // Cannot fail: a folder from a PATH does not contain the character that separates folders.
        std::env::join_paths(folders).unwrap_or_default()
    });
    let copied_variables = COPIED_VARIABLES.iter().filter_map(|name| Some((*name, environment.get(name)?.to_owned())));
    let path = path.map(|path| ("PATH", path));
    path.into_iter()
        .chain(copied_variables)
        .map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned()))
        .collect()
}

/// Quotes an argument of a command for systemd, which would read a single `$` there as the start of a variable.
fn quoted_argument(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// Quotes a word for systemd that is not an argument of a command.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for character in word.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '%' => quoted.push_str("%%"),
            other if other.is_ascii_control() => quoted += &format!("\\x{:02x}", u32::from(other)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Replaces the unit in one step, so that systemd never reads half of it. Makes its folder if there is none.
fn write(unit: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = unit.parent() {
        fs::create_dir_all(folder)?;
    }
    let new_file = unit.with_extension("new");
    fs::write(&new_file, text)?;
    fs::rename(new_file, unit)
}

fn write_failure(unit: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {}", unit.display(), in_words(error));
    Failure::new(Exit::Other, "NOT_WRITTEN", message).hint("with --system only root may write it")
}

/// Returns the failure for a unit that `daemon install` has not written.
fn foreign_unit(unit: &Path) -> Failure {
    let message = format!("{} was not written by `toolrack daemon install`", unit.display());
    Failure::new(Exit::Other, "NOT_OURS", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_is_not_text_or_cannot_be_read_is_not_taken_for_a_missing_one() {
        let folder = tempfile::tempdir().unwrap();
        let unit = folder.path().join(UNIT_NAME);
        assert_eq!(author_of(&unit).unwrap(), UnitAuthor::Missing);
        for (content, author) in [
            (&b"[Unit]\nDescription=\xff\n"[..], UnitAuthor::Another),
            (b"", UnitAuthor::Another),
            (b"# Written by `toolrack daemon install`\n\xff", UnitAuthor::Toolrack),
        ] {
            fs::write(&unit, content).unwrap();
            assert_eq!(author_of(&unit).unwrap(), author);
        }
        assert!(author_of(folder.path()).is_err());
    }

    #[test]
    fn words_reach_the_daemon_as_they_were_typed() {
        assert_eq!(quoted_argument("a b"), "\"a b\"");
        assert_eq!(quoted_argument("50%\\\"$HOME\n"), r#""50%%\\\"$$HOME\x0a""#);
        assert_eq!(quoted("/opt/$x"), "\"/opt/$x\"");
    }

    #[test]
    fn a_user_s_unit_has_the_current_path_without_relative_folders() {
        let environment = Environment::new([("PATH", "/a:.:b:/c d"), ("TOOLRACK_HOME", "/t"), ("OTHER", "x")]);
        let words = ["serve".to_owned()];
        let daemon = DaemonCommand { program: Path::new("/bin/toolrack"), words: &words, end_time: END_TIME };
        let text = unit_text(&daemon, false, &environment);
        assert!(text.contains("\nExecStart=\"/bin/toolrack\" \"serve\"\n"), "{text}");
        assert!(text.contains("\nEnvironment=\"PATH=/a:/c d\"\nEnvironment=\"TOOLRACK_HOME=/t\"\nWork"), "{text}");
        assert!(!text.contains("OTHER") && !text.contains('@'), "{text}");
    }

    #[test]
    fn systemd_waits_for_the_calls_that_the_options_of_the_daemon_wait_for() {
        #[derive(clap::Parser)]
        struct Typed {
            #[command(flatten)]
            serve: ServeArgs,
        }
        for (options, seconds) in [(&[][..], 40), (&["--grace", "10m", "--drain", "5s"][..], 642)] {
            let typed = <Typed as clap::Parser>::try_parse_from([&["toolrack"], options].concat()).unwrap();
            for is_system in [false, true] {
                let end_time = end_time(&typed.serve);
                let daemon = DaemonCommand { program: Path::new("/bin/toolrack"), words: &[], end_time };
                let text = unit_text(&daemon, is_system, &Environment::new([("PATH", "/bin")]));
                assert!(text.contains(&format!("\nTimeoutStopSec={seconds}\n")), "{text}");
            }
        }
    }

    #[test]
    fn paths_in_options_lead_to_the_same_files_from_the_folder_of_the_unit() {
        #[derive(clap::Parser)]
        struct Typed {
            #[command(flatten)]
            install: InstallArgs,
        }
        let typed = <Typed as clap::Parser>::try_parse_from(["toolrack"]).unwrap();
        let words = "toolrack daemon install --team team.toml --unit-folder x --tls-key=/k --unit-folder=y --mcp-config {} --drain 3s";
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let command = serve_command(&typed.install, &words);
        let folder = std::path::absolute(".").unwrap();
        let team = format!("--team={}/team.toml", folder.display());
        assert_eq!(command[3..], [&*team, "--tls-key=/k", "--mcp-config={}", "--drain", "3s"]);
    }

    #[test]
    fn a_program_that_the_machine_s_daemon_cannot_see_is_a_warning() {
        for (program, is_system, is_warned) in [
            ("/home/ada/.local/bin/toolrack", true, true),
            ("/run/user/1000/bin/toolrack", true, true),
            ("/home/ada/.local/bin/toolrack", false, false),
            ("/usr/bin/toolrack", true, false),
            ("/homework/bin/toolrack", true, false),
            ("/var/cache/_npx/1/toolrack", false, true),
        ] {
            assert_eq!(warning_about(Path::new(program), is_system).is_some(), is_warned, "{program}");
        }
    }
}
