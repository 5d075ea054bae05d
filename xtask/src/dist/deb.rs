//! The Debian package, which `dpkg-deb` builds. It has no maintainer scripts and starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

use super::needed;
use super::released::{REPOSITORY, Released};
use super::staged::{PROGRAMS, Staged, copy_file, write};
use crate::report::{Step, Stop};
use crate::run::{capture, failed, program, root};

/// Folders of the prefix that Debian has under another name below `/usr`.
const RELOCATED: &[(&str, &str)] = &[("share/zsh/site-functions", "share/zsh/vendor-completions")];

/// Lays the package out below `folder`, and builds it for the release; `None` for a target without a Debian
/// architecture.
///
/// # Errors
/// With the message of `dpkg-deb`.
pub(crate) fn pack(staged: &Staged, folder: &Path, released: &Released) -> Result<Option<PathBuf>, Stop> {
    let Some(processor) = staged.target.debian else { return Ok(None) };
    let folder = folder.join(processor);
    lay_out(staged, &folder, depends(staged)?, released)?;
    let file = released.folder.join(format!("toolrack_{}_{processor}.deb", released.version));
    let mut build = program("dpkg-deb");
    build.args(["--root-owner-group", "-Zxz", "--build"]).arg(&folder).arg(&file);
    capture(build.env("SOURCE_DATE_EPOCH", released.time.to_string()))?;
    Ok(Some(file))
}

/// Returns the `Depends` field: the packages of the shared libraries that the programs load.
fn depends(staged: &Staged) -> Result<&'static str, Stop> {
    let libraries =
        PROGRAMS.iter().map(|name| needed::libraries(&staged.program(name))).collect::<Result<Vec<_>, _>>()?;
    let unwinds = libraries.concat().iter().any(|library| library == "libgcc_s.so.1");
    Ok(if unwinds { "libc6 (>= 2.17), libgcc-s1" } else { "libc6 (>= 2.17)" })
}

fn lay_out(staged: &Staged, folder: &Path, depends: &str, released: &Released) -> Step {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed("empty", folder))?;
    }
    let usr = folder.join("usr");
    for name in PROGRAMS {
        copy_file(&staged.program(name), &usr.join("bin").join(name), 0o755)?;
    }
    capture(program("cp").arg("-R").arg(staged.prefix.join("share")).arg(&usr))?;
    for (from, to) in RELOCATED {
        let (from, to) = (usr.join(from), usr.join(to));
        fs::rename(&from, &to).map_err(failed("move", &from))?;
        // Remove the folder that contained it, if nothing else is there.
        let parent = from.parent().unwrap_or(&from);
        if parent.read_dir().is_ok_and(|mut entries| entries.next().is_none()) {
            fs::remove_dir(parent).map_err(failed("remove", parent))?;
        }
    }
    compress_documents(&usr.join("share"))?;
    capture(program("chmod").args(["-R", "u+rwX,go+rX,go-w"]).arg(folder))?;
    let control = folder.join("DEBIAN/control");
    write(&control, &control_file(staged, &usr, depends, released)?)?;
    write_md5sums(folder)
}

/// Compresses the man pages and the changelog, and joins the licences into one file, as Debian's policy wants them.
fn compress_documents(share: &Path) -> Step {
    let doc = share.join("doc/toolrack");
    let changes = doc.join("changelog");
    fs::rename(doc.join("CHANGELOG.md"), &changes).map_err(failed("move", &changes))?;
    let man = share.join("man/man1");
    let pages = fs::read_dir(&man).map_err(failed("read", &man))?.filter_map(|entry| Some(entry.ok()?.path()));
    for page in pages.chain([changes]) {
        capture(program("gzip").args(["-9", "--no-name"]).arg(&page))?;
    }
    let mut text = format!("Toolrack, from {REPOSITORY}\nLicensed under MIT or Apache-2.0, at the user's choice.\n");
    for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let file = doc.join(name);
        text += &format!("\n{}", crate::run::content(&root().join(name)));
        fs::remove_file(&file).map_err(failed("remove", &file))?;
    }
    write(&doc.join("copyright"), &text)
}

/// Returns the control file.
fn control_file(staged: &Staged, usr: &Path, depends: &str, released: &Released) -> Result<String, Stop> {
    let size = capture(program("du").args(["--summarize", "--apparent-size", "--block-size=1024"]).arg(usr))?;
    let size = size.split_whitespace().next().unwrap_or_default();
    let (version, processor) = (&released.version, staged.target.debian.unwrap_or_default());
    Ok(format!(
        "Package: toolrack\nVersion: {version}\nArchitecture: {processor}\n\
         Maintainer: The contributors of Toolrack <toolrack@users.noreply.github.com>\nInstalled-Size: {size}\n\
         Depends: {depends}\nRecommends: ca-certificates\nSection: utils\nPriority: optional\nHomepage: {REPOSITORY}\n\
         Description: gives any AI agent the tools of any set of MCP servers\n \
         A command line, and a daemon with a dashboard, a control interface and one\n \
         MCP endpoint in front of all servers.\n"
    ))
}

/// Writes `md5sums`, with which `dpkg --verify` detects changed files.
fn write_md5sums(folder: &Path) -> Step {
    let mut find = program("find");
    find.args(["usr", "-type", "f", "-exec", "md5sum", "{}", "+"]).current_dir(folder);
    let printed = capture(&mut find)?;
    let mut lines: Vec<_> = printed.lines().collect();
    lines.sort_unstable_by_key(|line| line.split_whitespace().last());
    write(&folder.join("DEBIAN/md5sums"), &(lines.join("\n") + "\n"))
}

#[cfg(test)]
mod tests {
    use super::super::released::fixtures::released;
    use super::super::staged::fixtures::{staged, staged_for};
    use super::*;

    #[test]
    fn the_package_has_everything_where_debian_looks_and_runs_no_script() {
        let folder = tempfile::tempdir().unwrap();
        let (staged, released) = (staged(folder.path()), released(folder.path()));
        let laid = folder.path().join("deb");
        lay_out(&staged, &laid, "libc6 (>= 2.17)", &released).unwrap();
        for path in [
            "usr/bin/toolrack",
            "usr/bin/toolrack-supervisor",
            "usr/share/man/man1/toolrack.1.gz",
            "usr/share/zsh/vendor-completions/_toolrack",
            "usr/share/doc/toolrack/changelog.gz",
            "usr/share/doc/toolrack/copyright",
        ] {
            assert!(laid.join(path).is_file(), "{path}");
        }
        assert!(!laid.join("usr/share/zsh/site-functions").exists());
        let control: Vec<_> =
            fs::read_dir(laid.join("DEBIAN")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(control.len(), 2, "{control:?}");
        capture(program("md5sum").args(["--check", "DEBIAN/md5sums"]).current_dir(&laid)).unwrap();
        let text = fs::read_to_string(laid.join("DEBIAN/control")).unwrap();
        assert!(
            text.contains("\nVersion: 9.9.9\nArchitecture: amd64\n") && text.contains("\nDepends: libc6 (>= 2.17)\n")
        );
    }

    #[test]
    fn there_is_no_package_for_a_machine_that_no_debian_runs_on() {
        let folder = tempfile::tempdir().unwrap();
        let mac = staged_for("aarch64-apple-darwin", folder.path());
        assert_eq!(pack(&mac, folder.path(), &released(folder.path())).unwrap(), None);
    }
}
