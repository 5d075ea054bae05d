//! The README as registries show it. A registry has none of the files that its links name, so the links lead to the
//! repository, at the version of the release.

use super::released::REPOSITORY;
use crate::run::{content, root};

/// Returns the README for the packages of this version.
pub(crate) fn for_registries(version: &str) -> String {
    with_absolute_links(&content(&root().join("README.md")), version)
}

/// Makes each relative target of a link, `](docs/x.md)`, and of a picture, `![…](docs/x.png)`, a full address.
fn with_absolute_links(page: &str, version: &str) -> String {
    let mut parts = page.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let kind = if is_picture(&out) { "raw" } else { "blob" };
        out += "](";
        let target = part.split(')').next().unwrap_or_default();
        if !target.contains("://") && !target.starts_with('#') {
            out += &format!("{REPOSITORY}/{kind}/v{version}/");
        }
        out += part;
    }
    out
}

/// Returns whether the text in brackets at the end of `before` is that of a picture.
fn is_picture(before: &str) -> bool {
    before.rfind('[').is_some_and(|start| before[..start].ends_with('!'))
}

#[cfg(test)]
mod tests {
    use pulldown_cmark::{Event, Parser, Tag};

    use super::*;

    #[test]
    fn links_lead_to_the_repository_and_pictures_to_their_bytes() {
        let page = "[a](docs/a.md#x), ![b](b.svg) [c](https://c.example) [d](#d)";
        let expected = format!(
            "[a]({REPOSITORY}/blob/v9.9.9/docs/a.md#x), ![b]({REPOSITORY}/raw/v9.9.9/b.svg) [c](https://c.example) [d](#d)"
        );
        assert_eq!(with_absolute_links(page, "9.9.9"), expected);
    }

    #[test]
    fn no_link_of_the_page_in_a_registry_is_relative() {
        let page = for_registries("9.9.9");
        let targets = Parser::new(&page).filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some(dest_url.into_string()),
            _ => None,
        });
        let targets: Vec<_> = targets.collect();
        assert!(targets.len() > 10 && targets.iter().all(|target| target.starts_with("https://")), "{targets:?}");
    }
}
