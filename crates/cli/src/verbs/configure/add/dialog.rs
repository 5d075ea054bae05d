//! Asks the user at a terminal for the parts of `add` that the command line lacks.

use toolrack_host::text;

use super::{
    args::{AddArgs, AddOptions, env_pair},
    invalid_options_failure, parse_new_name,
};
use crate::{
    context::Context,
    error::{Exit, Failure},
};

/// Asks for the name, and for the command or URL, unless they were typed.
///
/// # Errors
/// When no user can be asked, or the user leaves.
pub(super) async fn ask_for_missing(args: &mut AddArgs, context: &Context) -> Result<(), Failure> {
    if args.name.is_some() && !args.rest.is_empty() {
        return Ok(());
    }
    if !context.screen.is_interactive() || context.screen.prints_json() {
        let missing_name = if args.name.is_none() { "no name, and " } else { "" };
        return Err(Failure::usage(format!("nothing says what to add: there is {missing_name}no command or URL"))
            .hint("toolrack add NAME -- COMMAND [ARGUMENT]..., toolrack add NAME URL, or toolrack add --help"));
    }
    if args.name.is_none() {
        args.name = Some(
            ask_until_valid("Name of the server: ", context, |typed_text| Ok(parse_new_name(typed_text)?.to_string()))
                .await?,
        );
    }
    let parse = |typed_text: &str| parse_target(typed_text, &args.options);
    (args.rest, args.options) = ask_until_valid("Its command or its URL: ", context, parse).await?;
    let after_dashes = false;
    if args.is_url(after_dashes) {
        return Ok(());
    }
    loop {
        let variable = ask_until_valid(
            "A variable it needs (NAME=VALUE, or NAME to type the value unseen; none: Enter): ",
            context,
            |typed_text| {
                if typed_text.is_empty() { Ok(None) } else { env_pair(typed_text).map(Some).map_err(Failure::usage) }
            },
        );
        match variable.await? {
            Some(variable) => args.options.env.push(variable),
            None => return Ok(()),
        }
    }
}

/// Parses the command, or the URL with options after it. Returns the words of the command or the URL, and `options`
/// with those that were typed.
fn parse_target(typed_text: &str, options: &AddOptions) -> Result<(Vec<String>, AddOptions), Failure> {
    let words = shell_words::split(typed_text).map_err(|_| Failure::usage("a quotation mark is not closed"))?;
    if words.is_empty() {
        return Err(Failure::usage("write a command such as `npx -y PACKAGE`, or https://…"));
    }
    let mut parsed_args = AddArgs { name: None, options: options.clone(), rest: words };
    parsed_args.take_options_after_typed_url().map_err(|error| invalid_options_failure(&error))?;
    Ok((parsed_args.rest, parsed_args.options))
}

/// Repeats the question until `parse` accepts the answer.
async fn ask_until_valid<T>(
    question: &str,
    context: &Context,
    parse: impl Fn(&str) -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        let Some(typed_text) = context.terminal().ask_value(question).await else {
            return Err(Failure::new(Exit::Interrupted, "INTERRUPTED", "nothing was done"));
        };
        match parse(typed_text.trim()) {
            Ok(parsed) => return Ok(parsed),
            Err(failure) => context.screen.message(&text::for_line(&failure.message)),
        }
    }
}
