//! Shows prompts, and prompts that are filled in.

use serde::Serialize;
use toolrack_host::{
    mcp::{Prompt, PromptMessage, PromptResult},
    text,
};

use crate::{
    render::{Tone, one_line, paint},
    verbs::offers::{ServerItem, call::render as call},
};

/// The prompts of one server.
#[derive(Debug)]
pub(crate) struct ServerPrompts {
    pub(crate) server: String,
    pub(crate) prompts: Vec<Prompt>,
}

/// `prompts --json`.
#[derive(Debug, Serialize)]
pub(crate) struct Document<'a> {
    prompts: Vec<ServerItem<'a, Prompt>>,
    warnings: &'a [String],
}

/// Returns the output of `prompts --json`.
pub(crate) fn document<'a>(offers: &'a [ServerPrompts], warnings: &'a [String]) -> Document<'a> {
    Document { prompts: ServerItem::all(offers, |offer| (&offer.server, &offer.prompts)), warnings }
}

/// Lists the prompts of each server below the name of the server.
pub(crate) fn page(offers: &[ServerPrompts]) -> String {
    let mut lines = Vec::new();
    for offer in offers.iter().filter(|offer| !offer.prompts.is_empty()) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(paint(Tone::Strong, &offer.server));
        for prompt in &offer.prompts {
            lines.push(format!("  {}", signature(prompt)));
            let about = prompt.description.as_deref().or(prompt.title.as_deref());
            if let Some(first_line) = about.and_then(|words| words.trim().lines().next()) {
                let first_line = text::for_line(first_line);
                lines.push(one_line(&paint(Tone::Faint, &format!("      {first_line}"))));
            }
        }
    }
    lines.join("\n")
}

/// Returns the prompt with its arguments, such as `greet(name, style?)`. No types are shown, because all arguments of
/// prompts are texts.
fn signature(prompt: &Prompt) -> String {
    let arguments: Vec<_> = prompt
        .arguments
        .iter()
        .map(|argument| {
            let mark = if argument.required { "" } else { "?" };
            format!("{}{mark}", text::for_line(&argument.name))
        })
        .collect();
    format!("{}({})", text::for_line(&prompt.name), arguments.join(", "))
}

/// `prompt --json`.
#[derive(Debug, Serialize)]
pub(crate) struct FilledDocument<'a> {
    pub(crate) server: &'a str,
    pub(crate) prompt: &'a str,
    pub(crate) description: Option<&'a str>,
    pub(crate) messages: &'a [PromptMessage],
}

/// Renders the messages of a prompt, each below its role.
pub(crate) fn filled_page(result: &PromptResult) -> String {
    let parts: Vec<_> = result
        .messages
        .iter()
        .map(|message| {
            let role = format!("{}:", text::for_line(&message.role));
            format!("{}\n{}", paint(Tone::Strong, &role), call::content(&message.content))
        })
        .collect();
    parts.join("\n\n")
}
