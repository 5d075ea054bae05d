//! Makes the manual from the help texts, one page for each command.

use std::io;

use clap::{Command, CommandFactory};
use clap_mangen::{
    Man,
    roff::{Roff, roman},
};
use serde::Serialize;

use crate::verbs::Cli;

/// A page of the manual, in the format of `man`.
#[derive(Debug, Serialize)]
pub(crate) struct Page {
    /// The file name of the page, such as `toolrack-call.1`.
    pub(crate) file: String,
    pub(crate) roff: String,
}

/// Returns the page about the program itself.
///
/// # Errors
/// When the page cannot be rendered.
pub(crate) fn first_page() -> io::Result<Page> {
    page(&command_line())
}

/// Returns the page of the program, and a page for each of its commands.
///
/// # Errors
/// As [`first_page`].
pub(crate) fn pages() -> io::Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut commands = vec![command_line()];
    while let Some(command) = commands.pop() {
        pages.push(page(&command)?);
        commands.extend(command.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    }
    pages.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(pages)
}

/// Returns the command line with all names filled in.
fn command_line() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

fn page(command: &Command) -> io::Result<Page> {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // `sections` renders the text below the options, so the page itself gets none.
    let no_examples = None::<&str>;
    let command = command.clone().after_help(no_examples);
    let man = Man::new(command).source(concat!("toolrack ", env!("CARGO_PKG_VERSION"))).manual("Toolrack");
    let mut roff = Vec::new();
    man.render(&mut roff)?;
    sections(&examples).to_writer(&mut roff)?;
    let roff = String::from_utf8(roff).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok(Page { file: man.get_filename(), roff })
}

/// Renders the text below the options. A part with a heading becomes a section whose lines stay as they are. Other
/// parts become running text.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for part in text.split("\n\n").map(str::trim_end).filter(|part| !part.is_empty()) {
        let heading = part.split_once('\n').and_then(|(first, lines)| Some((first.strip_suffix(':')?, lines)));
        let Some((heading, lines)) = heading else {
            roff.control("PP", []);
            roff.text([roman(part.replace('\n', " "))]);
            continue;
        };
        roff.control("SH", [heading.to_uppercase().as_str()]);
        roff.control("nf", []);
        for line in lines.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_it() {
        let pages = pages().unwrap();
        let count = command_line().get_subcommands().count();
        assert!(pages.len() > count, "{} pages for {count} commands", pages.len());
        for page in &pages {
            let name = page.file.strip_suffix(".1").unwrap();
            assert!(page.roff.contains(".SH NAME"), "{name}");
            assert!(page.roff.contains(&name.replace('-', "\\-")), "{name}: {}", page.roff);
        }
        assert!(pages.iter().any(|page| page.file == "toolrack-call.1"));
    }

    #[test]
    fn examples_keep_their_lines() {
        let text = sections("Examples:\n  a b\n  .c\n\nEvery word counts.").to_roff();
        assert!(text.contains(".SH EXAMPLES\n.nf\n  a b\n"), "{text}");
        assert!(!text.contains("\n.c"), "a line is not a command of roff: {text}");
        assert!(text.contains(".PP\nEvery word counts."), "{text}");
    }
}
