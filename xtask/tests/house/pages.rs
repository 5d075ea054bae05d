//! Checks what the documentation pages say of the code, and their links.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::published::published;
use crate::source::sources;
use crate::{none_of, root};

/// Returns the tests that the last column of a page's tables names, but that do not exist. Fails if the page names no
/// more than `at_least` tests, because then it was probably not read correctly.
fn missing(page: &str, at_least: usize) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let last = rows.filter_map(|line| line.trim_end_matches(" |").rsplit(" | ").next());
    let named = last.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    // The name of a test has many words; other code in the column is a path or a type.
    let named: BTreeSet<_> = named.filter(|name| name.matches('_').count() > 2 || page == "SECURITY.md").collect();
    assert!(named.len() > at_least, "{page} names {} tests", named.len());
    let sources = sources();
    let is_there = |name: &str| sources.iter().any(|source| source.text.contains(&format!("fn {name}(")));
    named.into_iter().filter(|name| !is_there(name)).map(str::to_owned).collect()
}

#[test]
fn every_test_that_the_security_page_names_is_there() {
    none_of(&missing("SECURITY.md", 40), "SECURITY.md names tests that are not there:");
}

#[test]
fn every_test_that_holds_an_invariant_is_there() {
    none_of(&missing("ARCHITECTURE.md", 15), "ARCHITECTURE.md names tests that are not there:");
}

/// Returns the modules of `crate_name` that its section of the code map does not name.
fn unmapped(crate_name: &str, section: &str) -> Vec<String> {
    let code = section.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let named: BTreeSet<_> = code.flat_map(|code| code.split(['/', ',', '.', ' ', ':'])).collect();
    let files = std::fs::read_dir(root().join("crates").join(crate_name).join("src")).unwrap();
    let files = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let modules = files.filter_map(|file| file.strip_suffix(".rs").map(str::to_owned));
    let missing = modules.filter(|module| !["lib", "main", "tests"].contains(&&**module) && !named.contains(&**module));
    missing.map(|module| format!("crates/{crate_name}/src/{module}.rs")).collect()
}

#[test]
fn the_map_names_every_module() {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let map = text.split("\n## ").find(|part| part.starts_with("Code map")).unwrap();
    let sections = map.split("\n### `crates/").skip(1).map(|section| section.split_once('`').unwrap());
    let sections: Vec<_> = sections.collect();
    assert!(sections.len() > 7, "{} crates are on the map", sections.len());
    let missing: Vec<_> = sections.into_iter().flat_map(|(name, section)| unmapped(name, section)).collect();
    none_of(&missing, "ARCHITECTURE.md does not say what these modules are for:");
}

#[test]
fn the_head_of_each_crate_names_every_module() {
    let mut missing = Vec::new();
    for folder in std::fs::read_dir(root().join("crates")).unwrap().map(|folder| folder.unwrap().path()) {
        let roots = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let Some(text) = roots.iter().find_map(|file| std::fs::read_to_string(file).ok()) else { continue };
        let head = text.lines().take_while(|line| line.starts_with("//!"));
        let words: BTreeSet<_> = head.flat_map(|line| line.split(|c: char| c != '_' && !c.is_alphanumeric())).collect();
        let modules = text.lines().filter_map(|line| {
            let (_, module) = line.strip_suffix(';')?.split_once("mod ")?;
            (!line.starts_with([' ', '/'])).then_some(module)
        });
        let name = folder.file_name().unwrap().display();
        let missing_here = modules.filter(|module| *module != "tests" && !words.contains(module));
        missing.extend(missing_here.map(|module| format!("{name}: {module}")));
    }
    none_of(&missing, "the head of the crate's root file does not say what these modules are for:");
}

/// Returns the pages in the root of the repository, those of the book, and those that registries show.
fn pages() -> Vec<PathBuf> {
    let folders = [root(), root().join("docs"), root().join("docs/guide")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let files = entries.map(|entry| entry.unwrap().path());
    let of_crates = published().into_iter().map(|(_, folder)| folder.join("README.md"));
    files.filter(|file| file.extension().is_some_and(|kind| kind == "md")).chain(of_crates).collect()
}

/// How links to files and folders of this repository begin in pages that are also shown elsewhere, such as by
/// registries.
const OWN: [&str; 2] =
    ["https://github.com/toolrack/toolrack/blob/main/", "https://github.com/toolrack/toolrack/tree/main/"];

/// Returns the file that a link of a page names; `None` if the link leads out of this repository.
fn target(page: &Path, file: &str) -> Option<PathBuf> {
    let own = OWN.iter().find_map(|own| file.strip_prefix(own));
    match (own, file) {
        (Some(own), _) => Some(root().join(own)),
        (None, file) if file.contains("://") || file.starts_with("mailto:") => None,
        (None, "") => Some(page.to_path_buf()),
        (None, file) => Some(page.parent().unwrap().join(file)),
    }
}

/// Returns the targets of a page's links, and the anchors of its headings as GitHub and mdBook make them.
fn links_and_anchors(page: &Path) -> (Vec<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(page).unwrap();
    let (mut links, mut anchors, mut heading) = (Vec::new(), BTreeSet::new(), None::<String>);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string())
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|title| anchor(&title))),
            Event::Text(words) | Event::Code(words) => heading.iter_mut().for_each(|title| title.push_str(&words)),
            _ => {}
        }
    }
    (links, anchors)
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|&c| c.is_alphanumeric() || c == ' ' || c == '-' || c == '_');
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_to_a_heading() {
    let known: HashMap<PathBuf, _> =
        pages().into_iter().map(|page| (page.canonicalize().unwrap(), links_and_anchors(&page))).collect();
    let mut broken = Vec::new();
    for (page, (links, _)) in &known {
        for link in links {
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let Some(target) = target(page, file) else { continue };
            let leads = target.canonicalize().is_ok_and(|target| {
                wanted.is_empty() || known.get(&target).is_none_or(|(_, anchors)| anchors.contains(wanted))
            });
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    none_of(&broken, "links that lead nowhere:");
}

#[test]
fn the_book_has_every_page_of_the_guide() {
    let (listed, _) = links_and_anchors(&root().join("docs/SUMMARY.md"));
    let guide = std::fs::read_dir(root().join("docs/guide")).unwrap().map(|page| page.unwrap().file_name());
    let pages = guide.map(|name| format!("guide/{}", name.display())).filter(|name| name.ends_with(".md"));
    none_of(
        &pages.filter(|page| !listed.contains(page)).collect::<Vec<_>>(),
        "pages that docs/SUMMARY.md does not list:",
    );
}
