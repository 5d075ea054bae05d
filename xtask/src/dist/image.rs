//! The container image, which Podman builds from `scratch`: the programs, and the shared libraries of this machine that
//! they load.

use std::fs;
use std::path::{Path, PathBuf};

use super::released::{REPOSITORY, Released};
use super::staged::{PAGES, PROGRAMS, Staged, copy_file, set_mode, write};
use crate::engines::{podman, podman_problem};
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program, root};

const CONTAINERFILE: &str = include_str!("../../dist/Containerfile");

/// The root certificates of Debian's package `ca-certificates`.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the image below `folder`, and saves it for the release. `None` for any target but this machine's, because the
/// libraries come from this machine.
///
/// The archive has Docker's format, because OCI's has no health check; Podman, Docker and registries read both. It is
/// not compressed, because Podman 4.3 loads no compressed archive of this format.
///
/// # Errors
/// With Podman's message; skipped where Podman is not installed.
pub(crate) fn build(staged: &Staged, folder: &Path, released: &Released) -> Result<Option<PathBuf>, Stop> {
    let Some(processor) =
        staged.target.debian.filter(|_| super::target::here().is_ok_and(|here| here == staged.target))
    else {
        return Ok(None);
    };
    if let Some(why) = podman_problem() {
        return Err(Stop::Skipped(why.to_owned()));
    }
    let context = folder.join("context");
    write_context(staged, &context, released)?;
    let store = folder.join("podman");
    let engine = || podman(&store).map_err(failed("write the settings of Podman in", &store));
    let name = name(released);
    let mut build = engine()?;
    build.args(["build", "--quiet", "--format", "docker", "--isolation", "chroot", "--tag", &name]);
    build.args(["--timestamp", &released.time.to_string()]).arg(&context);
    capture(&mut build)?;
    let file = released.folder.join(format!("toolrack-{}-image-{processor}.tar", released.version));
    capture(engine()?.args(["save", "--quiet", "--format", "docker-archive", "--output"]).arg(&file).arg(&name))?;
    fs::remove_dir_all(&store).map_err(failed("empty", &store))?;
    Ok(Some(file))
}

/// Returns the local name of the image, without a registry.
pub(crate) fn name(released: &Released) -> String {
    format!("localhost/toolrack:{}", released.version)
}

/// Writes the build context: the programs, their libraries and the `Containerfile`.
fn write_context(staged: &Staged, context: &Path, released: &Released) -> Step {
    if context.exists() {
        fs::remove_dir_all(context).map_err(failed("empty", context))?;
    }
    let files = context.join("root");
    for name in PROGRAMS {
        let program = staged.program(name);
        copy_file(&program, &files.join("usr/bin").join(name), 0o755)?;
        for library in libraries(&program)? {
            copy_file(&library, &files.join(library.strip_prefix("/").unwrap_or(&library)), 0o755)?;
        }
    }
    copy_file(Path::new(CERTIFICATES), &files.join(CERTIFICATES.trim_start_matches('/')), 0o644)?;
    for page in PAGES {
        copy_file(&root().join(page), &files.join("usr/share/doc/toolrack").join(page), 0o644)?;
    }
    write(&files.join("etc/passwd"), "toolrack:x:65532:65532:Toolrack:/var/lib/toolrack:/nowhere\n")?;
    write(&files.join("etc/group"), "toolrack:x:65532:\n")?;
    // Host names are looked up in `/etc/hosts` before DNS.
    write(&files.join("etc/nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n")?;
    make_folders(context)?;
    let file = CONTAINERFILE.replace("@REPOSITORY@", REPOSITORY).replace("@VERSION@", &released.version);
    write(&context.join("Containerfile"), &file)
}

/// Makes the folder for data, and the one for temporary files. Every user may use the latter: the daemon is not root,
/// and the servers of an image on top of this one keep files there.
fn make_folders(context: &Path) -> Step {
    let temporary = context.join("root/tmp");
    for folder in [&temporary, &context.join("data")] {
        fs::create_dir_all(folder).map_err(failed("make", folder))?;
    }
    set_mode(&temporary, 0o1777).map_err(failed("set the rights of", &temporary))
}

/// Returns the shared libraries that a program loads, directly and indirectly, and the dynamic loader.
fn libraries(path: &Path) -> Result<Vec<PathBuf>, Stop> {
    let linked = capture(program("ldd").arg(path))?;
    let mut files: Vec<PathBuf> =
        linked.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect();
    // glibc opens this library only when it resolves a host name, so `ldd` does not list it.
    let resolver =
        files.iter().find(|file| file.ends_with("libc.so.6")).map(|libc| libc.with_file_name("libnss_dns.so.2"));
    files.extend(resolver.filter(|file| file.is_file()));
    Ok(files)
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn every_user_of_the_image_may_write_temporary_files() {
        let context = tempfile::tempdir().unwrap();
        make_folders(context.path()).unwrap();
        let mode = fs::metadata(context.path().join("root/tmp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o1777);
    }
}
