//! The top modules of each crate do not use each other in a circle, so that a reader can begin with those that use no
//! other.

use std::collections::{BTreeMap, BTreeSet};

use syn::{
    ItemMod, ItemUse, Path, UseTree,
    visit::{self, Visit},
};

use crate::{
    none_of,
    source::{Source, sources},
};

/// The crates whose modules are checked.
const CRATES: &[&str] =
    &["agent", "auth", "cli", "code", "config", "daemon", "host", "otel", "rig", "store", "supervisor", "testkit"];

/// The modules that each top module of a crate uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// Collects the paths of one file, each from the root of its crate.
struct Uses {
    /// The module whose paths are read.
    module: Vec<String>,
    paths: BTreeSet<Vec<String>>,
}

impl Uses {
    fn of(module: Vec<String>, text: &str) -> BTreeSet<Vec<String>> {
        let mut uses = Self { module, paths: BTreeSet::new() };
        uses.visit_file(&syn::parse_file(text).unwrap());
        uses.paths
    }

    fn add(&mut self, path: &[String]) {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let inside = |ups: usize| self.module[..self.module.len().saturating_sub(ups)].to_vec();
        let full = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("self") => [inside(0), path[1..].to_vec()].concat(),
            Some("super") => [inside(ups), path[ups..].to_vec()].concat(),
            // Only in the root of a crate, a path without `crate`, `self` or `super` can begin with a top module.
            _ if self.module.is_empty() => path.to_vec(),
            _ => return,
        };
        self.paths.insert(full);
    }

    fn add_tree(&mut self, tree: &UseTree, above: &[String]) {
        let below = |name: &syn::Ident| [above, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.add_tree(&path.tree, &below(&path.ident)),
            UseTree::Name(name) => self.add(&below(&name.ident)),
            UseTree::Rename(rename) => self.add(&below(&rename.ident)),
            UseTree::Glob(_) => self.add(above),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(tree, above)),
        }
    }
}

impl Visit<'_> for Uses {
    fn visit_item_use(&mut self, item: &ItemUse) {
        self.add_tree(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &Path) {
        let parts: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.add(&parts);
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<Path>().is_ok_and(|condition| condition.is_ident("test"))
        });
        if !is_test {
            self.module.push(item.ident.to_string());
            visit::visit_item_mod(self, item);
            self.module.pop();
        }
    }
}

/// Returns the path of the module in a file below `src`, from the root of its crate.
fn module(file: &str) -> Vec<String> {
    let file = file.trim_end_matches(".rs").trim_end_matches("/mod");
    file.split('/').filter(|part| !["lib", "main"].contains(part)).map(ToOwned::to_owned).collect()
}

/// Returns the arrows between the top modules of a crate. `files` has the path below `src` and the text of each file.
fn arrows(files: &[(&str, &str)]) -> Arrows {
    let uses: Vec<_> = files.iter().map(|(file, text)| (module(file), Uses::of(module(file), text))).collect();
    let top: BTreeSet<_> = uses.iter().filter_map(|(module, _)| module.first().cloned()).collect();
    // If the root of the crate re-exports an item, its use from the root counts as a use of the module that has it.
    let roots = uses.iter().filter(|(module, _)| module.is_empty()).flat_map(|(_, paths)| paths);
    let roots = roots.filter(|path| path.len() > 1 && top.contains(&path[0]));
    let reexported: BTreeMap<_, _> = roots.map(|path| (path.last(), path.first())).collect();
    let mut arrows = Arrows::new();
    for (module, paths) in &uses {
        let Some(from) = module.first() else { continue };
        let used = paths.iter().filter_map(|path| {
            let first = path.first()?;
            if top.contains(first) { Some(first) } else { reexported.get(&Some(first)).copied().flatten() }
        });
        arrows.entry(from.clone()).or_default().extend(used.filter(|to| *to != from).cloned());
    }
    arrows
}

/// Returns the modules on a way from `module` back to itself, if there is one.
fn circle(arrows: &Arrows, module: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![module.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop() {
        for next in arrows.get(way.last()?).into_iter().flatten() {
            let longer = [way.as_slice(), std::slice::from_ref(next)].concat();
            if next == module {
                return Some(longer);
            }
            if seen.insert(next.clone()) {
                ways.push(longer);
            }
        }
    }
    None
}

#[test]
fn the_modules_of_a_crate_form_no_circle() {
    let sources: Vec<Source> = sources().into_iter().filter(|source| !source.path.contains("/tests")).collect();
    let mut circles = Vec::new();
    for name in CRATES {
        let folder = format!("crates/{name}/src/");
        let below = |source: &&Source| source.path.starts_with(&folder) && !source.path.contains("/bin/");
        let files = sources.iter().filter(below);
        let files: Vec<_> = files.map(|source| (&source.path[folder.len()..], source.text.as_str())).collect();
        assert!(!files.is_empty(), "{name} has no sources");
        let arrows = arrows(&files);
        let of_crate = arrows.keys().filter_map(|module| circle(&arrows, module));
        circles.extend(of_crate.map(|way| format!("{name}: {}", way.join(" -> "))));
    }
    none_of(&circles, "these modules use each other; move what both need to a module below them:");
}

#[test]
fn a_circle_of_modules_is_found_however_its_paths_are_written() {
    let lib = "pub mod low; mod high; pub use high::Thing;";
    for (low, is_circle) in [
        ("use crate::high::Thing;", true),
        ("use super::high;", true),
        ("use crate::{high::{self, other}, low::x};", true),
        ("fn f() -> crate::Thing { todo() }", true),
        ("fn f() { let _ = super::high::f::<u8>(); }", true),
        ("#[cfg(test)] mod tests { use crate::high::Thing; }", false),
        ("use std::high::Thing;", false),
    ] {
        let arrows = arrows(&[("lib.rs", lib), ("low.rs", low), ("high.rs", ""), ("high/x.rs", "use crate::low::y;")]);
        assert_eq!(circle(&arrows, "low").is_some(), is_circle, "{low}: {arrows:?}");
    }
}
