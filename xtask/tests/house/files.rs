//! The size, names and references of files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::source::{code, relative, sources, visit};
use crate::{metadata, none_of, root};

/// The maximum number of lines of a file without its tests.
const MAX_LINES: usize = 600;

/// Files that may be longer because they are only a table.
const FLAT_TABLES: &[&str] = &[];

#[test]
fn files_stay_readable() {
    let long: Vec<_> = sources()
        .iter()
        .filter(|source| !source.is_test() && !FLAT_TABLES.contains(&source.path.as_str()))
        .map(|source| (&source.path, source.without_tests().lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(path, lines)| format!("{path}: {lines}"))
        .collect();
    none_of(&long, "over 600 lines without tests; split along a seam:");
}

#[test]
fn modules_are_named_after_what_is_in_them() {
    let named = |path: &str, name: &str| path.split('/').any(|part| part.trim_end_matches(".rs") == name);
    let badly: Vec<_> = sources()
        .into_iter()
        .filter(|source| {
            ["mod", "utils", "util", "helpers", "misc", "common"].iter().any(|bad| named(&source.path, bad))
        })
        .map(|source| source.path)
        .collect();
    none_of(&badly, "name the noun (and foo.rs beside foo/, not foo/mod.rs):");
}

#[test]
fn every_file_is_reached() {
    let metadata = metadata();
    let targets =
        metadata["packages"].as_array().unwrap().iter().flat_map(|package| package["targets"].as_array().unwrap());
    let mut reached = BTreeSet::new();
    for target in targets {
        reach(Path::new(target["src_path"].as_str().unwrap()), true, &mut reached);
    }
    let forgotten: Vec<_> = sources()
        .into_iter()
        .map(|source| source.path)
        .filter(|path| {
            !["embedder/", "fuzz/"].iter().any(|apart| path.starts_with(apart)) && !reached.contains(&root().join(path))
        })
        .collect();
    none_of(&forgotten, "no crate, test or example has these files as a module, so that nothing in them runs:");
}

/// Adds a file and all files that it reaches with `mod name;`.
fn reach(file: &Path, is_root: bool, reached: &mut BTreeSet<PathBuf>) {
    if !reached.insert(file.to_path_buf()) {
        return;
    }
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{} cannot be read: {error}", relative(file)));
    let folder = if is_root { file.parent().unwrap().to_path_buf() } else { file.with_extension("") };
    for line in code(&text).lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [.., "mod", name] = words[..] else { continue };
        let Some(name) = name.strip_suffix(';') else { continue };
        reach(&folder.join(format!("{name}.rs")), false, reached);
    }
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    // Each path is in two parts, so that this file passes its own test.
    let mut places = vec![["/ro", "ot/"].concat(), ["/wo", "rk/"].concat(), ["/Us", "ers/"].concat()];
    places.push(root().display().to_string());
    let mut offences = Vec::new();
    visit(&root(), &mut |path| {
        let Ok(text) = fs::read_to_string(path) else { return };
        for (number, line) in text.lines().enumerate() {
            let known = places.iter().find(|place| begins_in(line, place));
            offences.extend(known.map(|place| format!("{}:{}: {place}", relative(path), number + 1)));
        }
    });
    none_of(&offences, "paths of one machine mean nothing on another:");
}

/// Returns whether the line has a path that begins with `place`. A path that only contains `place` does not count.
fn begins_in(line: &str, place: &str) -> bool {
    let goes_before = |c: char| c.is_alphanumeric() || matches!(c, ']' | '}' | ')' | '.' | '-' | '_' | '~' | '*');
    line.match_indices(place).any(|(at, _)| !line[..at].ends_with(goes_before))
}
