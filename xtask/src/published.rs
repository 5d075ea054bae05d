//! Checks the crates as the users of a registry get them: the packages are complete, every feature set builds, and a
//! small client needs few packages.

use std::collections::BTreeSet;
use std::fs;

use crate::report::{Report, Step, Stop};
use crate::run::{capture, cargo, content, execute, failed, program, root};

/// The folder in which cargo makes the packages, apart from those of other commands.
const FOLDER: &str = "target/published";

/// The maximum number of bytes of one file in a package.
const MAX_FILE_BYTES: u64 = 400 * 1024;

/// The maximum number of bytes of one package. crates.io accepts ten times as many.
const MAX_PACKAGE_BYTES: u64 = 1024 * 1024;

/// The fields of a manifest that registries require or show, or by which users find a crate.
const FIELDS: [&str; 8] =
    ["description", "readme", "keywords", "categories", "license", "repository", "rust-version", "edition"];

/// The feature sets that programs choose, other than the default: the package, and the features in place of its
/// defaults.
const FEATURE_SETS: [(&str, &str); 6] = [
    ("toolrack-host", ""),
    ("toolrack-host", "http"),
    ("toolrack-host", "http2,gzip"),
    ("toolrack-host", "schema-validation"),
    ("toolrack", ""),
    ("toolrack", "otel"),
];

/// The maximum number of packages that a client of local servers needs, `toolrack-host` included.
const MAX_PACKAGES: usize = 140;

pub(crate) fn run(report: &mut Report) {
    report.step("packages for registries", packages);
    report.step("feature sets", feature_sets);
    report.step("packages below a client of local servers", small_client);
}

/// Packs every crate that may be published, and checks the packages.
fn packages() -> Step {
    let names = publishable()?;
    let mut package =
        cargo(["package", "--no-verify", "--offline", "--allow-dirty", "--quiet", "--target-dir", FOLDER]);
    execute(package.args(names.iter().flat_map(|name| ["-p", name])))?;
    let mut faults = Vec::new();
    for name in &names {
        let packed = Packed::read(name)?;
        println!("   {name}: {} files, {} KiB", packed.files.len(), packed.size / 1024);
        faults.extend(packed.faults().into_iter().map(|fault| format!("{name}: {fault}")));
    }
    if faults.is_empty() { Ok(()) } else { Err(Stop::Failed(faults.join("; "))) }
}

/// Returns the names of the crates whose manifests do not forbid publishing.
fn publishable() -> Result<Vec<String>, Stop> {
    let folder = root().join("crates");
    let entries = fs::read_dir(&folder).map_err(failed("list", &folder))?;
    let manifests = entries.filter_map(|entry| Some(content(&entry.ok()?.path().join("Cargo.toml"))));
    let mut names: Vec<_> = manifests
        .filter(|manifest| !manifest.lines().any(|line| line == "publish = false"))
        .filter_map(|manifest| field_value(&manifest, "name").map(|name| name.trim_matches('"').to_owned()))
        .collect();
    names.sort();
    if names.is_empty() { Err(Stop::Failed("no crate may be published".into())) } else { Ok(names) }
}

/// Returns the value in the first line of `manifest` that sets `field`, as it is written there.
fn field_value<'a>(manifest: &'a str, field: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(" = "))
}

/// A package as cargo made it.
#[derive(Debug, Default)]
struct Packed {
    /// Its size in bytes, compressed.
    size: u64,
    /// The kind of each file as `tar` shows it, its size in bytes, and its path.
    files: Vec<(char, u64, String)>,
    /// The manifest, as cargo wrote it for the registry.
    manifest: String,
}

impl Packed {
    fn read(name: &str) -> Result<Self, Stop> {
        let id = capture(&mut cargo(["pkgid", "--offline", "-p", name]))?;
        let version = id.trim().rsplit(['#', '@']).next().unwrap_or_default();
        let stem = format!("{name}-{version}");
        let file = root().join(FOLDER).join("package").join(format!("{stem}.crate"));
        let size = fs::metadata(&file).map_err(failed("find", &file))?.len();
        let list = capture(program("tar").arg("-tvzf").arg(&file))?;
        let manifest = capture(program("tar").arg("-xOzf").arg(&file).arg(format!("{stem}/Cargo.toml")))?;
        let files = list.lines().filter_map(|line| parse_entry(line, &stem)).collect();
        Ok(Self { size, files, manifest })
    }

    /// Returns what is wrong with the package.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"] {
            if !self.files.iter().any(|(kind, size, path)| *kind == '-' && *size > 0 && path == needed) {
                faults.push(format!("the package has no {needed}"));
            }
        }
        let large = self.files.iter().filter(|(_, size, _)| *size > MAX_FILE_BYTES);
        faults.extend(large.map(|(_, size, path)| format!("{path} has {size} bytes, more than {MAX_FILE_BYTES}")));
        if self.size > MAX_PACKAGE_BYTES {
            faults.push(format!("the package has {} bytes, more than {MAX_PACKAGE_BYTES}", self.size));
        }
        let head = self.manifest.split("\n[").find(|table| table.starts_with("package]")).unwrap_or_default();
        let missing = FIELDS.iter().filter(|field| field_value(head, field).is_none());
        faults.extend(missing.map(|field| format!("Cargo.toml has no {field}")));
        if !self.manifest.contains("\n[package.metadata.docs.rs]\n") {
            faults.push("Cargo.toml has no [package.metadata.docs.rs]".into());
        }
        faults.extend(self.manifest.split("\n[").filter_map(missing_version));
        faults
    }
}

/// Reads a line of `tar -tv`: the kind of the file, its bytes, and its path in the package.
fn parse_entry(line: &str, stem: &str) -> Option<(char, u64, String)> {
    // The words of a line: mode, owner, size, date, time, path.
    let mut words = line.split_whitespace();
    let kind = words.next()?.chars().next()?;
    let size = words.nth(1)?.parse().ok()?;
    let path = words.nth(2)?.strip_prefix(stem)?.trim_start_matches('/');
    Some((kind, size, path.to_owned()))
}

/// Returns a fault if this table of the manifest is a dependency without a version.
fn missing_version(table: &str) -> Option<String> {
    let (head, body) = table.split_once("]\n")?;
    let (kind, name) = head.rsplit_once('.')?;
    let is_dependency = kind.ends_with("dependencies") && field_value(body, "version").is_none();
    is_dependency.then(|| format!("the dependency {name} has no version"))
}

/// Lints each feature set, so that it builds without a warning.
fn feature_sets() -> Step {
    for (package, features) in FEATURE_SETS {
        let mut lint = cargo(["clippy", "--locked", "-p", package, "--no-default-features", "--features", features]);
        execute(lint.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Counts the packages that a program needs if it only starts servers on its own machine.
fn small_client() -> Step {
    let mut tree = cargo(["tree", "--locked", "-p", "toolrack-host", "--no-default-features"]);
    let count = count_packages(&capture(tree.args(["-e", "normal,build", "--prefix", "none"]))?);
    println!("   toolrack-host without its features: {count} packages, itself included");
    check_count(count)
}

/// Returns the number of different packages in the output of `cargo tree`.
fn count_packages(tree: &str) -> usize {
    let packages = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    packages.filter(|line| !line.is_empty()).collect::<BTreeSet<_>>().len()
}

fn check_count(count: usize) -> Step {
    match count {
        0 => Err(Stop::Failed("cargo tree shows no packages".into())),
        1..=MAX_PACKAGES => Ok(()),
        _ => Err(Stop::Failed(format!(
            "a client of local servers needs {count} packages, more than {MAX_PACKAGES}: put the new dependency of \
             toolrack-host behind a feature, or do without it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_FILE_BYTES, MAX_PACKAGE_BYTES, MAX_PACKAGES, Packed, check_count, count_packages, parse_entry};

    const MANIFEST: &str = r#"
[package]
edition = "2024"
rust-version = "1.95"
name = "a"
description = "d"
readme = "README.md"
keywords = ["k"]
categories = ["config"]
license = "MIT"
repository = "https://example.com"

[package.metadata.docs.rs]
targets = []

[dependencies.b]
version = "1"

[target."cfg(unix)".dependencies.c]
version = "1"
"#;

    fn whole() -> Packed {
        let files = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "Cargo.toml"];
        let files = files.map(|path| ('-', 10, path.to_owned())).into();
        Packed { size: 10, files, manifest: MANIFEST.to_owned() }
    }

    #[test]
    fn a_whole_package_has_no_faults() {
        assert_eq!(whole().faults(), Vec::<String>::new());
    }

    #[test]
    fn a_package_without_page_licence_or_field_is_faulty() {
        for missing in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            let mut packed = whole();
            packed.files.retain(|(_, _, path)| path != missing);
            assert_eq!(packed.faults(), [format!("the package has no {missing}")]);
        }
        let mut packed = whole();
        packed.files[1].0 = 'l';
        assert_eq!(packed.faults(), ["the package has no LICENSE-MIT"], "a symbolic link is not a file of the package");
        for field in ["description", "keywords", "categories", "readme"] {
            let mut packed = whole();
            packed.manifest = MANIFEST.replace(&format!("\n{field} = "), "\nother = ");
            assert_eq!(packed.faults(), [format!("Cargo.toml has no {field}")]);
        }
        let mut packed = whole();
        packed.manifest = MANIFEST.replace("metadata.docs", "metadata.other");
        assert_eq!(packed.faults(), ["Cargo.toml has no [package.metadata.docs.rs]"]);
    }

    #[test]
    fn a_package_that_is_too_large_is_faulty() {
        let mut packed = whole();
        packed.files.push(('-', MAX_FILE_BYTES + 1, "src/table.rs".to_owned()));
        packed.size = MAX_PACKAGE_BYTES + 1;
        let faults = packed.faults();
        assert!(faults[0].starts_with("src/table.rs has 409601 bytes"), "{faults:?}");
        assert!(faults[1].starts_with("the package has 1048577 bytes"), "{faults:?}");
    }

    #[test]
    fn a_dependency_without_a_version_is_a_fault() {
        for (table, name) in [("[dependencies.b]", "b"), (r#"[target."cfg(unix)".dependencies.c]"#, "c")] {
            let mut packed = whole();
            packed.manifest = MANIFEST.replace(&format!("{table}\nversion"), &format!("{table}\npath"));
            assert_eq!(packed.faults(), [format!("the dependency {name} has no version")]);
        }
    }

    #[test]
    fn the_list_of_a_package_is_read() {
        let line = "-rw-r--r-- 0/0            1068 2006-07-24 01:21 a-0.1.0/src/lib.rs";
        assert_eq!(parse_entry(line, "a-0.1.0"), Some(('-', 1068, "src/lib.rs".to_owned())));
    }

    #[test]
    fn a_package_that_a_tree_shows_twice_counts_once_and_too_many_fail() {
        assert_eq!(count_packages("a v1\nb v1\nc v1\nb v1 (*)\n"), 3);
        assert!(check_count(0).is_err());
        assert!(check_count(MAX_PACKAGES).is_ok());
        assert!(check_count(MAX_PACKAGES + 1).is_err());
    }
}
