//! Finds the files that an entry runs, if they are in the folder of the project.
//!
//! A user who agrees to `python srv.py` agrees to the current content of that file. The agreement does not cover what
//! the file loads in turn, or the content of a folder that the entry names. Nor does it cover files outside of the
//! project, and files whose path begins with `~` or a placeholder. Between this check and the start of the program,
//! another program can still replace the file.

use std::{
    collections::BTreeMap,
    fs::{File, Metadata},
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use toolrack_host::spec::Stdio;

/// The maximum size of a file to read. The fingerprint of a larger file is its inode, its size and the time of its last
/// change.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

/// The maximum number of bytes to read from all files of one entry. Further files get the same kind of fingerprint as
/// files that are too large.
const MAX_TOTAL_BYTES: u64 = 64 * 1024 * 1024;

/// Files that a program runs if its argument is the folder that contains them.
const FOLDER_ENTRY_POINTS: &[&str] =
    &["package.json", "index.js", "index.mjs", "index.cjs", "index.ts", "__main__.py", "__init__.py"];

/// Extensions that interpreters add to a name to find a file.
const EXTENSIONS: &[&str] = &[".js", ".mjs", ".cjs", ".ts", ".py"];

/// Extensions of scripts: files that interpreters run.
const SCRIPT_EXTENSIONS: &[&str] = &[".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".rb", ".pl", ".php", ".lua", ".jar"];

/// Programs, each with the files of the working folder that set the program's scripts or packages.
const MANIFESTS: &[(&[&str], &[&str])] = &[
    (&["npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx"], &["package.json", ".npmrc", ".yarnrc.yml", "bunfig.toml"]),
    (&["uv", "uvx", "poetry", "pdm", "hatch"], &["pyproject.toml", "uv.toml", ".python-version"]),
    (&["make", "gmake"], &["Makefile", "makefile", "GNUmakefile"]),
    (&["just"], &["justfile", "Justfile", ".justfile"]),
    (&["cargo"], &["Cargo.toml", "rust-toolchain.toml", ".cargo/config.toml", "build.rs"]),
    (&["deno"], &["deno.json", "deno.jsonc"]),
    (&["docker", "podman"], &["Dockerfile", "Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml"]),
];

/// Returns the files below `root` that `stdio` runs: the path of each within `root`, and its current fingerprint.
pub(crate) fn files_of(stdio: &Stdio, root: &Path) -> BTreeMap<String, String> {
    // `RunFolders::set_folder` has made `cwd` absolute, unless it begins with `~` or a placeholder. For such a `cwd`,
    // take the root instead. In an absolute `cwd`, `$$` stands for `$`, as everywhere in an entry.
    let cwd = stdio.cwd.as_deref().and_then(Path::to_str).filter(|cwd| cwd.starts_with('/'));
    let cwd = cwd.map_or_else(|| root.to_owned(), |cwd| PathBuf::from(cwd.replace("$$", "$")));
    let mut collector = FileCollector { root, cwd, bytes_left: MAX_TOTAL_BYTES, files: BTreeMap::new() };
    let command = &stdio.command;
    if command.contains('/') {
        collector.add_all_in(command);
    }
    let name = Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    for (_, manifests) in MANIFESTS.iter().filter(|(programs, _)| programs.contains(&name)) {
        manifests.iter().for_each(|manifest| collector.add_in_cwd(manifest));
    }
    for (index, arg) in stdio.args.iter().enumerate() {
        collector.add_all_in(arg);
        let is_module =
            index.checked_sub(1).and_then(|previous| stdio.args.get(previous)).is_some_and(|arg| arg == "-m");
        if is_module {
            collector.add_module(arg);
        }
        // These programs can run an installed package by its bare name, from `node_modules/.bin`.
        if ["npx", "bunx", "npm", "pnpm", "yarn", "bun"].contains(&name) && !arg.contains(['.', '/']) {
            collector.add_in_cwd(&format!("node_modules/.bin/{arg}"));
        }
    }
    // Variables can name files that a program runs, as `NODE_OPTIONS` and `PYTHONSTARTUP` do. Any variable can do so
    // for some program, so search all values.
    stdio.env.values().for_each(|value| collector.add_all_in(value));
    collector.files
}

/// Collects the files that an entry runs.
struct FileCollector<'a> {
    root: &'a Path,
    cwd: PathBuf,
    /// The number of bytes that may still be read.
    bytes_left: u64,
    /// The fingerprints of the files, by their paths.
    files: BTreeMap<String, String>,
}

impl FileCollector<'_> {
    /// Adds every file that `text` names, also inside a longer text: `--import=./x.js`, `sh -c './run.sh && y'`.
    fn add_all_in(&mut self, text: &str) {
        // `:-` precedes the default of a placeholder, which may be a path.
        let text = text.replace("$$", "$").replace("${PWD}", ".").replace(":-", " ");
        self.add_word(&text);
        for word in text.split(|c: char| c.is_whitespace() || "=:,;|&()<>{}'\"`".contains(c)) {
            if word.len() < text.len() {
                self.add_word(word);
            }
        }
    }

    /// Adds the files that `word` may name: the file itself, the file with an extension, or the files that programs run
    /// in a folder of this name.
    fn add_word(&mut self, word: &str) {
        if word.is_empty() || word.starts_with('-') {
            return;
        }
        let path = self.cwd.join(word);
        if path.is_dir() {
            FOLDER_ENTRY_POINTS.iter().for_each(|name| self.add_path(&path.join(name)));
        } else {
            self.add_path(&path);
            self.record_absence(word, &path);
            EXTENSIONS.iter().for_each(|extension| self.add_in_cwd(&format!("{word}{extension}")));
        }
    }

    /// Records that a script does not exist yet. If a program creates it later, the entry waits for a new agreement.
    fn record_absence(&mut self, word: &str, path: &Path) {
        let normalized_path = normalized(path);
        let is_script = word.starts_with("./") || SCRIPT_EXTENSIONS.iter().any(|extension| word.ends_with(extension));
        if is_script && path.symlink_metadata().is_err() && normalized_path.starts_with(self.root) {
            let name = normalized_path.strip_prefix(self.root).unwrap_or(&normalized_path).display().to_string();
            self.files.entry(name).or_insert_with(|| "not there".to_owned());
        }
    }

    /// Adds the files that `python -m NAME` runs.
    fn add_module(&mut self, name: &str) {
        let mut path = String::new();
        for part in name.split('.') {
            path += part;
            for file in ["/__init__.py", "/__main__.py", ".py"] {
                self.add_in_cwd(&format!("{path}{file}"));
            }
            path.push('/');
        }
    }

    /// Adds the file `name` of the working folder.
    fn add_in_cwd(&mut self, name: &str) {
        let path = self.cwd.join(name);
        self.add_path(&path);
    }

    /// Adds the file at `path` if the path or the target of its links is in the project.
    fn add_path(&mut self, path: &Path) {
        let Ok(metadata) = path.metadata() else { return };
        let normalized_path = normalized(path);
        let is_inside = |path: &Path| path.starts_with(self.root);
        if !metadata.is_file()
            || !(is_inside(&normalized_path) || path.canonicalize().is_ok_and(|real_path| is_inside(&real_path)))
        {
            return;
        }
        let name = normalized_path.strip_prefix(self.root).unwrap_or(&normalized_path).display().to_string();
        if !self.files.contains_key(&name) {
            let fingerprint = self.fingerprint(path, &metadata);
            self.files.insert(name, fingerprint);
        }
    }

    /// Returns the fingerprint of a file: the hash of its content, or for a file that is too large its
    /// [`metadata_fingerprint`].
    fn fingerprint(&mut self, path: &Path, metadata: &Metadata) -> String {
        let limit = MAX_FILE_BYTES.min(self.bytes_left);
        if metadata.len() <= limit
            && let Some((hash, length)) = hash_content(path, limit)
        {
            self.bytes_left -= length;
            return hash;
        }
        metadata_fingerprint(metadata)
    }
}

/// Returns the hash and the length of the file at `path`; `None` when it cannot be read, or is longer than `limit`.
fn hash_content(path: &Path, limit: u64) -> Option<(String, u64)> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(limit + 1).read_to_end(&mut bytes).ok()?;
    let length = u64::try_from(bytes.len()).ok().filter(|length| *length <= limit)?;
    Some((format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(&bytes))), length))
}

/// Returns the size, the inode and the time of the last change (ctime) of a file. No program can set the ctime to a
/// time of its choice.
#[cfg(unix)]
fn metadata_fingerprint(metadata: &Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    format!(
        "{} bytes, inode {}:{}, changed at {seconds}.{nanoseconds:09}",
        metadata.len(),
        metadata.dev(),
        metadata.ino()
    )
}

#[cfg(not(unix))]
fn metadata_fingerprint(metadata: &Metadata) -> String {
    format!("{} bytes, changed at {:?}", metadata.len(), metadata.modified().ok())
}

/// Returns `path` without `.` and `..`, with links unresolved.
fn normalized(path: &Path) -> PathBuf {
    let mut normalized_path = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized_path.pop();
            }
            part => normalized_path.push(part),
        }
    }
    normalized_path
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn found(command: &str, args: &[&str], folder: &Path) -> Vec<String> {
        let args = args.iter().map(|&arg| arg.to_owned()).collect();
        let stdio = Stdio { command: command.into(), args, cwd: Some(folder.to_owned()), ..Stdio::default() };
        files_of(&stdio, folder).into_keys().collect()
    }

    #[test]
    fn the_files_that_a_command_runs_are_found() {
        let disk = tempfile::tempdir().unwrap();
        let folder = disk.path().canonicalize().unwrap();
        for file in ["srv.py", "x.js", "run.sh", "pkg/__init__.py", "pkg/mod.py", "package.json", "app/index.js", "b"] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        let absolute = folder.join("srv.py").display().to_string();
        for (command, args, files) in [
            ("./b", &[][..], &["b"][..]),
            ("b", &[], &[]),
            ("python", &["srv.py"], &["srv.py"]),
            ("python", &[&*absolute], &["srv.py"]),
            ("python", &["-m", "pkg.mod"], &["pkg/__init__.py", "pkg/mod.py"]),
            ("node", &["--import=./x.js", "app"], &["app/index.js", "x.js"]),
            ("node", &["x"], &["x.js"]),
            // A whole argument may be the name of a script with spaces, which is recorded though it does not exist yet.
            ("sh", &["-c", "cd . && ./run.sh"], &["cd . && ./run.sh", "package.json", "run.sh"]),
            ("npm", &["start"], &["package.json"]),
            ("/bin/sh", &["-c", "true"], &[]),
            ("node", &["dist/later.js", "@scope/pkg"], &["dist/later.js"]),
        ] {
            assert_eq!(found(command, args, &folder), files, "{command} {args:?}");
        }
    }

    #[test]
    fn a_large_file_counts_by_the_time_of_its_change() {
        let disk = tempfile::tempdir().unwrap();
        let folder = disk.path().canonicalize().unwrap();
        File::create(folder.join("large")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        let stdio = Stdio { command: "./large".into(), cwd: Some(folder.clone()), ..Stdio::default() };
        let files = files_of(&stdio, &folder);
        assert!(files["large"].contains("changed at"), "{files:?}");
    }

    #[cfg(unix)]
    #[test]
    fn the_content_behind_a_link_counts() {
        let disk = tempfile::tempdir().unwrap();
        let elsewhere = disk.path().join("elsewhere.py");
        let folder = disk.path().canonicalize().unwrap().join("project");
        fs::create_dir(&folder).unwrap();
        fs::write(&elsewhere, "one").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.join("srv.py")).unwrap();
        let stdio = Stdio { command: "./srv.py".into(), cwd: Some(folder.clone()), ..Stdio::default() };
        let before = files_of(&stdio, &folder);
        fs::write(&elsewhere, "two").unwrap();
        let after = files_of(&stdio, &folder);
        assert_eq!(before.keys().collect::<Vec<_>>(), ["srv.py"]);
        assert_ne!(before, after);
    }
}
