//! Shows resources and resource templates.

use serde::Serialize;
use toolrack_host::{
    mcp::{Resource, ResourceContents, ResourceTemplate},
    text,
};

use crate::{
    render::{Tone, one_line, paint, size},
    verbs::offers::{ServerItem, call::render as call},
};

/// The resources of one server.
#[derive(Debug)]
pub(crate) struct ServerResources {
    pub(crate) server: String,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
}

/// `resources --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    resources: Vec<ServerItem<'a, Resource>>,
    templates: Vec<ServerItem<'a, ResourceTemplate>>,
    warnings: &'a [String],
}

/// Returns the output of `resources --json`.
pub(crate) fn document<'a>(offers: &'a [ServerResources], warnings: &'a [String]) -> Document<'a> {
    Document {
        resources: ServerItem::all(offers, |offer| (&offer.server, &offer.resources)),
        templates: ServerItem::all(offers, |offer| (&offer.server, &offer.templates)),
        warnings,
    }
}

/// Lists the resources of each server below the name of the server, and then its templates.
pub(crate) fn page(offers: &[ServerResources]) -> String {
    let mut lines = Vec::new();
    for offer in offers {
        if offer.resources.is_empty() && offer.templates.is_empty() {
            continue;
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(paint(Tone::Strong, &offer.server));
        for resource in &offer.resources {
            let facts: Vec<String> =
                [resource.mime_type.clone(), resource.size.map(size)].into_iter().flatten().collect();
            push_uri(&mut lines, &resource.uri, &facts.join(", "));
            let title = resource.title.as_deref().unwrap_or(&resource.name);
            push_about(&mut lines, title, resource.description.as_deref());
        }
        for template in &offer.templates {
            let kind = template.mime_type.clone().unwrap_or_default();
            push_uri(&mut lines, &template.uri_template, &kind);
            let title = template.title.as_deref().unwrap_or(&template.name);
            push_about(&mut lines, title, template.description.as_deref());
        }
    }
    lines.join("\n")
}

fn push_uri(lines: &mut Vec<String>, uri: &str, facts: &str) {
    let facts = if facts.is_empty() {
        String::new()
    } else {
        format!("  {}", paint(Tone::Faint, &format!("[{}]", text::for_line(facts))))
    };
    lines.push(format!("  {}{facts}", text::for_line(uri)));
}

fn push_about(lines: &mut Vec<String>, title: &str, description: Option<&str>) {
    let first_line = description.and_then(|words| words.trim().lines().next()).unwrap_or_default();
    let about = match (title, first_line) {
        ("", "") => return,
        (title, "") => title.to_owned(),
        ("", first_line) => first_line.to_owned(),
        (title, first_line) => format!("{title}: {first_line}"),
    };
    let about = format!("      {}", text::for_line(&about));
    lines.push(one_line(&paint(Tone::Faint, &about)));
}

/// `read --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ReadDocument<'a> {
    pub(crate) server: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) contents: &'a [ResourceContents],
}

/// Renders the contents of a resource, one after the other.
pub(crate) fn read_page(contents: &[ResourceContents]) -> String {
    let parts: Vec<_> = contents.iter().map(call::contents).collect();
    parts.join("\n")
}

/// Renders the contents of a resource for a file or another program: every text exactly as it came.
pub(crate) fn read_plain(contents: &[ResourceContents]) -> String {
    let parts = contents.iter().map(call::plain_contents).collect();
    call::join_parts(parts, contents.iter().all(|part| part.text.is_some()))
}
