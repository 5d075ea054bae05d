//! Makes the tree of files that a confined server sees, in a mount namespace: a new root that contains only the files
//! that the server may reach. Files that the server may not change are read-only there. The server can neither list nor
//! change any other file, nor connect to any other socket file.

#![expect(
    clippy::disallowed_methods,
    reason = "this code runs as a separate process, which makes the tree of files that the server sees"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::unistd::{chdir, pivot_root};

use crate::grants::{Grant, Permission};
use crate::reach::{OpenedPath, reach};

/// Where the system's root is mounted while the new root is built.
const OLD_ROOT: &str = "/old";
/// Where the new root is built.
const NEW_ROOT: &str = "/new";

/// The configuration of the C library's resolver.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Links that programs expect in `/dev`, with their targets.
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
];

/// Replaces the root of this mount namespace by one with only `grants`, and enters `folder` in it. `resolves_by_tcp`
/// makes the server look up names over TCP. Returns whether `/proc` is that of this process namespace; otherwise it is
/// the system's.
///
/// # Errors
/// The system's error. This process can then no longer become the server.
pub(crate) fn enter(grants: Vec<Grant>, folder: &Path, resolves_by_tcp: bool) -> Result<bool, String> {
    let step_error = |step: &str| {
        let step = step.to_owned();
        move |error: io::Error| format!("{step}: {error}")
    };
    // Follows every link: this is a path of the system.
    let resolv_conf = if resolves_by_tcp { reach(Path::new(RESOLV_CONF), |_, _| false).ok() } else { None };
    enter_empty_root().map_err(|error| format!("a new root: {error}"))?;
    let mut builder = Builder::default();
    for Grant { opened_path, permission } in grants {
        let name = opened_path.real_path.display().to_string();
        // A program can write to a device even if it is mounted read-only.
        builder.add(opened_path, permission == Permission::Write).map_err(step_error(&name))?;
    }
    builder.mount_parts().map_err(step_error("the files that it may read"))?;
    create_folder(&path_below(NEW_ROOT, folder)).map_err(step_error("its working folder"))?;
    if let Some(resolv_conf) = resolv_conf {
        resolve_by_tcp(&resolv_conf.real_path).map_err(step_error(RESOLV_CONF))?;
    }
    for (name, target) in DEVICE_LINKS {
        // Few programs need these links, so the server starts without a link that cannot be made.
        let _ = symlink(target, Path::new(NEW_ROOT).join(name));
    }
    let has_own_proc = mount_proc().map_err(|error| format!("/proc: {error}"))?;
    builder.make_read_only().map_err(step_error("making files read-only"))?;
    enter_new_root(folder).map_err(|error| format!("the new root: {error}"))?;
    Ok(has_own_proc)
}

/// Moves this process into an empty root, in which the new root is built. It contains only [`OLD_ROOT`], where the
/// system's root is mounted, and [`NEW_ROOT`].
fn enter_empty_root() -> Result<(), Errno> {
    let none = None::<&str>;
    // Mounts that are made here must not appear in the system's namespace.
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
    // Any folder that exists will do: only this namespace sees the mount on it.
    let base = ["/tmp", "/mnt", "/usr"].into_iter().find(|path| Path::new(path).is_dir()).ok_or(Errno::ENOENT)?;
    mount_empty(base)?;
    let create = |path: &str| fs::DirBuilder::new().mode(0o755).create(path_below(base, Path::new(path)));
    create(OLD_ROOT)
        .and_then(|()| create(NEW_ROOT))
        .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
    pivot_root(base, &path_below(base, Path::new(OLD_ROOT)))?;
    chdir("/")?;
    mount_empty(NEW_ROOT)
}

/// Mounts an empty file system in memory, for at most 1 MiB of folders and links.
fn mount_empty(path: &str) -> Result<(), Errno> {
    mount(Some("tmpfs"), path, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, Some("mode=0755,size=1m"))
}

/// Makes the new root the root of this process, unmounts the system's root, and enters `folder`.
fn enter_new_root(folder: &Path) -> Result<(), Errno> {
    umount2(OLD_ROOT, MntFlags::MNT_DETACH)?;
    chdir(NEW_ROOT)?;
    // This stacks the old root on top of the new one, and the next line unmounts it: see `pivot_root(2)`.
    pivot_root(".", ".")?;
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir("/")?;
    chdir(folder)
}

/// Mounts the `/proc` of this namespace. If the kernel refuses that, as in a container that hides parts of its `/proc`,
/// mounts the system's instead. Returns whether the mounted `/proc` is that of this namespace.
fn mount_proc() -> Result<bool, Errno> {
    let target = Path::new(NEW_ROOT).join("proc");
    // If the folder cannot be created, mounting on it fails.
    let _ = fs::create_dir(&target);
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if mount(Some("proc"), &target, Some("proc"), flags, None::<&str>).is_ok() {
        return Ok(true);
    }
    bind_mount(&Path::new(OLD_ROOT).join("proc"), &target).map(|()| false)
}

fn bind_mount(source: &Path, target: &Path) -> Result<(), Errno> {
    mount(Some(source), target, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
}

/// Makes the server look up names over TCP, whose ports Landlock can restrict, by mounting a copy of the resolver's
/// configuration that has the option `use-vc`.
fn resolve_by_tcp(resolver: &Path) -> io::Result<()> {
    let target = path_below(NEW_ROOT, resolver);
    let Ok(mut text) = fs::read(&target) else { return Ok(()) };
    text.extend_from_slice(b"\noptions use-vc\n");
    let copy = Path::new(NEW_ROOT).join(".resolv.conf");
    fs::write(&copy, text)?;
    bind_mount(&copy, &target)?;
    Ok(())
}

/// Returns the path below `root` that corresponds to the absolute path `path`.
fn path_below(root: &str, path: &Path) -> PathBuf {
    Path::new(root).join(path.strip_prefix("/").unwrap_or(path))
}

/// One file or folder of the new root.
struct Part {
    file: OwnedFd,
    is_folder: bool,
    is_writable: bool,
}

/// Builds the new root: [`add`](Self::add) each part, then call [`mount_parts`](Self::mount_parts) and
/// [`make_read_only`](Self::make_read_only).
#[derive(Default)]
struct Builder {
    /// The parts of the new root by their real paths, sorted: parents come first.
    parts: BTreeMap<PathBuf, Part>,
}

impl Builder {
    /// Adds a part, and creates the folders and links that lead to it.
    fn add(&mut self, opened_path: OpenedPath, is_writable: bool) -> io::Result<()> {
        let OpenedPath { file, real_path, links, is_folder } = opened_path;
        for (link, target) in links {
            let new_link = path_below(NEW_ROOT, &link);
            create_folder(new_link.parent().unwrap_or(&new_link))?;
            if fs::symlink_metadata(&new_link).is_err() {
                symlink(target, &new_link)?;
            }
        }
        let new_path = path_below(NEW_ROOT, &real_path);
        create_folder(new_path.parent().unwrap_or(&new_path))?;
        self.parts.entry(real_path).or_insert(Part { file, is_folder, is_writable }).is_writable |= is_writable;
        Ok(())
    }

    /// Mounts the parts. Leaves out a part that is below another one with at least the same rights.
    fn mount_parts(&mut self) -> io::Result<()> {
        let mut mounted_parts: BTreeMap<PathBuf, Part> = BTreeMap::new();
        for (path, part) in std::mem::take(&mut self.parts) {
            let is_covered = |(upper_path, upper_part): (&PathBuf, &Part)| {
                path.starts_with(upper_path) && (upper_part.is_writable || !part.is_writable)
            };
            if mounted_parts.iter().any(is_covered) {
                continue;
            }
            let target = path_below(NEW_ROOT, &path);
            if part.is_folder {
                create_folder(&target)?;
            } else if !target.exists() {
                fs::write(&target, "")?;
            }
            // Mount the file that is held open: by now, its path may lead to another file.
            let source = Path::new(OLD_ROOT).join("proc/self/fd").join(part.file.as_raw_fd().to_string());
            bind_mount(&source, &target)?;
            mounted_parts.insert(path, part);
        }
        self.parts = mounted_parts;
        Ok(())
    }

    /// Makes all files read-only that the server may not change.
    fn make_read_only(&self) -> io::Result<()> {
        let mounts = fs::read(Path::new(OLD_ROOT).join("proc/self/mountinfo"))?;
        for line in mounts.split(|byte| *byte == b'\n') {
            // The fifth field is the mount point, and the sixth has its options: see `proc_pid_mountinfo(5)`.
            let mut fields = line.split(|byte| *byte == b' ').skip(4);
            let (Some(mount_point), Some(options)) = (fields.next(), fields.next()) else { continue };
            let mount_point = unescape(mount_point);
            let Ok(mounted_path) = mount_point.strip_prefix(NEW_ROOT) else { continue };
            let mounted_path = Path::new("/").join(mounted_path);
            if self.parts.iter().any(|(path, part)| part.is_writable && mounted_path.starts_with(path)) {
                continue;
            }
            let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | MsFlags::MS_NOSUID;
            for option in options.split(|byte| *byte == b',') {
                // Repeat the flags that the system has set on a mount: the kernel refuses to remove them here.
                flags |= match option {
                    b"nodev" => MsFlags::MS_NODEV,
                    b"noexec" => MsFlags::MS_NOEXEC,
                    _ => MsFlags::empty(),
                };
            }
            mount(None::<&str>, &mount_point, None::<&str>, flags, None::<&str>)?;
        }
        Ok(())
    }
}

fn create_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() { Ok(()) } else { fs::DirBuilder::new().mode(0o755).recursive(true).create(path) }
}

/// Decodes a path of `mountinfo`, which writes spaces and some other characters as octal numbers.
fn unescape(path: &[u8]) -> PathBuf {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let number = || u8::from_str_radix(std::str::from_utf8(tail.get(..3)?).ok()?, 8).ok();
        match (*first == b'\\').then(number).flatten() {
            Some(byte) => {
                decoded.push(byte);
                rest = &tail[3..];
            }
            None => {
                decoded.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_may_contain_any_byte() {
        for (escaped, plain) in [("/a", "/a"), ("/a\\040b\\134", "/a b\\"), ("/\\", "/\\"), ("/\\9", "/\\9")] {
            assert_eq!(unescape(escaped.as_bytes()), Path::new(plain));
        }
    }
}
