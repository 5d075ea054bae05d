//! Runs `/server:prompt name=value`, which sends a prompt of a server as the user's turn.

use std::collections::BTreeMap;

use toolrack_agent::{Conceal, Message, Role};
use toolrack_config::closest;
use toolrack_host::{
    Content, Host,
    mcp::{Prompt, PromptArgument, PromptMessage},
    text,
};

use super::Chat;
use crate::{
    arguments,
    error::{Exit, Failure},
    mention::as_data,
    verbs::offers::prompts::render,
};

/// The question for an argument shows at most this many bytes of the server's description of the argument.
const MAX_DESCRIPTION_BYTES: usize = 200;

/// A prompt that the user typed, and its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromptRequest {
    pub(super) server: String,
    pub(super) prompt: String,
    pub(super) arguments: BTreeMap<String, String>,
}

impl PromptRequest {
    /// Parses the text after the server: the name of the prompt, and `name=value` for each argument, with the quotes of
    /// a shell.
    ///
    /// # Errors
    /// When the text cannot be parsed.
    pub(super) fn parse(server: &str, rest: &str) -> Result<Self, Failure> {
        let usage_failure =
            |why: String| Failure::usage(format!("/{server}: {why}")).hint("/SERVER:PROMPT [NAME=VALUE …]");
        let words = shell_words::split(rest).map_err(|_| usage_failure("a quote is not closed".to_owned()))?;
        // Without a name directly after the colon, the first word is an argument.
        let Some((prompt, words)) = words.split_first().filter(|_| !rest.starts_with(char::is_whitespace)) else {
            return Err(usage_failure("which prompt?".to_owned()));
        };
        let arguments = arguments::parse(words)
            .and_then(arguments::into_strings)
            .map_err(|error| usage_failure(error.to_string()))?;
        Ok(Self { server: server.to_owned(), prompt: prompt.clone(), arguments })
    }
}

impl Chat<'_> {
    /// Gets the prompt, shows it, and makes it the user's message.
    ///
    /// # Errors
    /// When there is no such prompt, an argument is missing or unknown, or the server refuses.
    pub(super) async fn get_prompt(&self, request: PromptRequest) -> Result<Vec<Message>, Failure> {
        let PromptRequest { server, prompt: name, mut arguments } = request;
        let host = &self.agent.host;
        let prompts = host.prompts(&server).await.map_err(|error| Failure::from_call_error(&error))?;
        let prompt = find_prompt(&server, &name, &prompts)?;
        refuse_unknown_arguments(prompt, &arguments)?;
        self.ask_for_missing(&server, prompt, &mut arguments).await?;
        let filled_prompt = host
            .get_prompt(&server, &prompt.name, &arguments)
            .await
            .map_err(|error| Failure::from_call_error(&error))?;
        let mut messages = Vec::new();
        for message in &filled_prompt.messages {
            messages.push(to_model_message(host, &server, &prompt.name, message, self.tools.conceal()).await?);
        }
        if messages.is_empty() {
            return Err(Failure::new(Exit::Tool, "EMPTY_PROMPT", "the prompt has no messages").server(&*server));
        }
        self.show(render::filled_page(&filled_prompt)).await?;
        Ok(to_user_turn(messages))
    }

    /// Asks the user for the required arguments that were not given.
    async fn ask_for_missing(
        &self,
        server: &str,
        prompt: &Prompt,
        arguments: &mut BTreeMap<String, String>,
    ) -> Result<(), Failure> {
        let is_missing = |argument: &&PromptArgument| argument.required && !arguments.contains_key(&argument.name);
        let missing_arguments: Vec<_> = prompt.arguments.iter().filter(is_missing).collect();
        let terminal = self.context.terminal();
        for argument in &missing_arguments {
            let name = text::for_line(&argument.name);
            let about = argument.description.as_deref().map(|about| text::clip(about, MAX_DESCRIPTION_BYTES));
            let about = about.map_or_else(String::new, |about| format!(" ({})", text::for_line(&about)));
            let value = match self.context.screen.is_interactive() {
                true => terminal.ask_value(&format!("  {name}{about}: ")).await,
                false => None,
            };
            let Some(value) = value.filter(|value| !value.trim().is_empty()) else {
                let names: Vec<_> = missing_arguments.iter().map(|argument| format!("{}=…", argument.name)).collect();
                let hint = format!("/{server}:{} {}", prompt.name, names.join(" "));
                return Err(Failure::usage(format!("the prompt needs `{name}`")).hint(text::for_line(&hint)));
            };
            arguments.insert(argument.name.clone(), value);
        }
        Ok(())
    }
}

/// Finds the prompt called `name`.
fn find_prompt<'a>(server: &str, name: &str, prompts: &'a [Prompt]) -> Result<&'a Prompt, Failure> {
    prompts.iter().find(|prompt| prompt.name == name).ok_or_else(|| {
        let escaped_name = text::for_line(name);
        let hint = match closest(name, prompts.iter().map(|prompt| &*prompt.name)) {
            Some(suggestion) => format!("did you mean /{server}:{}?", text::for_line(suggestion)),
            None => "/prompts shows all prompts".to_owned(),
        };
        Failure::new(Exit::Usage, "UNKNOWN_PROMPT", format!("`{server}` has no prompt `{escaped_name}`"))
            .hint(hint)
            .server(server)
    })
}

/// Refuses arguments that the prompt does not have: a misspelt one would go unnoticed.
fn refuse_unknown_arguments(prompt: &Prompt, typed_arguments: &BTreeMap<String, String>) -> Result<(), Failure> {
    let names = || prompt.arguments.iter().map(|argument| &*argument.name);
    match typed_arguments.keys().find(|name| !names().any(|known| known == *name)) {
        None => Ok(()),
        Some(name) => {
            let hint = match closest(name, names()) {
                Some(suggestion) => format!("did you mean `{}`?", text::for_line(suggestion)),
                None if prompt.arguments.is_empty() => "it takes none".to_owned(),
                None => format!("it takes {}", text::for_line(&names().collect::<Vec<_>>().join(", "))),
            };
            let message = format!("the prompt takes no argument `{}`", text::for_line(name));
            Err(Failure::usage(message).hint(hint))
        }
    }
}

/// Turns a message of a prompt into one of the conversation. A resource in it is marked as data, whatever its role.
async fn to_model_message(
    host: &Host,
    server: &str,
    prompt: &str,
    message: &PromptMessage,
    conceal: &Conceal,
) -> Result<Message, Failure> {
    let role = if message.role == "assistant" { Role::Assistant } else { Role::User };
    // `shape` returns text and pictures for a model, and bounds the length of the text.
    let output = host.shape(server, prompt, vec![message.content.clone()]).await;
    let output = output.map_err(|error| Failure::from_call_error(&error))?;
    let words = conceal(&output.text);
    let words = match &message.content {
        Content::Resource { resource } if !words.is_empty() => as_data(server, &resource.uri, &words),
        _ => words,
    };
    Ok(Message::new(role, words).with_parts(output.media))
}

/// Turns `messages` into the user's turn. Consecutive messages of the same role become one. Models expect that the user
/// speaks first and last. If the messages are in another order, all become one message of the user, in which the words
/// of the model are marked.
fn to_user_turn(messages: Vec<Message>) -> Vec<Message> {
    let is_from_user = |message: Option<&Message>| message.is_some_and(|message| message.role == Role::User);
    let keeps_roles = is_from_user(messages.first()) && is_from_user(messages.last());
    let mut turn: Vec<Message> = Vec::new();
    for mut message in messages {
        if !keeps_roles && message.role == Role::Assistant {
            message.content.insert_str(0, "[what the model said before]\n");
            message.role = Role::User;
        }
        match turn.last_mut().filter(|last| last.role == message.role) {
            Some(last) => {
                if !last.content.is_empty() && !message.content.is_empty() {
                    last.content.push_str("\n\n");
                }
                last.content.push_str(&message.content);
                last.parts.append(&mut message.parts);
            }
            None => turn.push(message),
        }
    }
    turn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_is_typed_as_in_a_shell() {
        let meant = PromptRequest::parse("docs", "summary style='short and dry' about=x=y").unwrap();
        assert_eq!((&*meant.server, &*meant.prompt), ("docs", "summary"));
        let arguments: Vec<_> = meant.arguments.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(arguments, [("about", "x=y"), ("style", "short and dry")]);
        assert_eq!(PromptRequest::parse("docs", "'two words'").unwrap().prompt, "two words");
        for wrong in ["", " summary", "summary style", "summary style='x", "summary a=1 a=2"] {
            assert!(PromptRequest::parse("docs", wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_prompt_ends_with_the_user_and_joins_messages_of_one_role() {
        let words = |roles: &[Role]| {
            let messages = roles.iter().enumerate().map(|(at, role)| Message::new(*role, at.to_string())).collect();
            let turn = to_user_turn(messages).into_iter().map(|message| (message.role, message.content));
            turn.collect::<Vec<_>>()
        };
        let (user, model) = (Role::User, Role::Assistant);
        assert_eq!(words(&[user, user]), [(user, "0\n\n1".to_owned())]);
        assert_eq!(
            words(&[user, model, user, user]),
            [(user, "0".to_owned()), (model, "1".to_owned()), (user, "2\n\n3".to_owned())]
        );
        assert_eq!(words(&[user, model]), [(user, "0\n\n[what the model said before]\n1".to_owned())]);
        assert_eq!(words(&[model, user]), [(user, "[what the model said before]\n0\n\n1".to_owned())]);
    }
}
