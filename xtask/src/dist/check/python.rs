//! uv and pip install the wheel from a package index (PEP 503) on this machine.

use std::path::PathBuf;

use super::{NewUser, Times};
use crate::dist::checksums::sha256;
use crate::dist::file_server::{Fault, FileServer};
use crate::dist::staged::{copy_file, write};
use crate::dist::tools;
use crate::report::{Step, Stop};
use crate::run::{capture, program};

/// Serves the wheels; one new user runs `uvx`, and another one `pip`.
pub(super) fn check(wheels: &[PathBuf], times: &mut Times) -> Step {
    let python = tools::python();
    python.install()?;
    let newcomer = NewUser::new("uv")?;
    let index = newcomer.folder.join("index");
    let mut links = String::new();
    for wheel in wheels {
        let name = wheel.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        copy_file(wheel, &index.join("files").join(&name), 0o644)?;
        links += &format!("<a href=\"../../files/{name}#sha256={}\">{name}</a>\n", sha256(wheel)?);
        // Unpacking compares the hash of each file with the one in RECORD.
        let mut unpack = program(python.python());
        capture(unpack.args(["-m", "wheel", "unpack", "--dest"]).arg(newcomer.folder.join("unpacked")).arg(wheel))?;
    }
    write(
        &index.join("simple/toolrack/index.html"),
        &format!("<!DOCTYPE html>\n<html><body>\n{links}</body></html>\n"),
    )?;
    let served = FileServer::start(&index, Fault::None)?;
    let simple = format!("{}/simple/", served.address());

    let mut uvx = newcomer.command(python.venv.join("bin/uvx"));
    uvx.args(["toolrack", "call", "builtin/list_directory", "path=."]).env("UV_DEFAULT_INDEX", &simple);
    times.record_first_result("uvx toolrack call builtin/list_directory path=.", &mut uvx)?;

    let newcomer = NewUser::new("pip")?;
    capture(newcomer.command("python3").args(["-m", "venv", "../venv"]))?;
    let line = "../venv/bin/pip install toolrack && ../venv/bin/toolrack call builtin/list_directory path=.";
    let mut shell = newcomer.command("sh");
    shell.args(["-c", line]).env("PIP_INDEX_URL", &simple).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    times.record_first_result("pip install toolrack && toolrack call builtin/list_directory path=.", &mut shell)?;
    let supervisor = newcomer.folder.join("venv/bin/toolrack-supervisor");
    if supervisor.is_file() {
        Ok(())
    } else {
        Err(Stop::Failed("pip did not put the supervisor beside toolrack".into()))
    }
}
