//! Supports MCP sampling, in which a server asks the model of its client. MCP deprecates sampling, so this module
//! supports only text.

use serde_json::{Value, json};
use toolrack_host::ask::AskRefused;

use crate::{
    message::{Message, Role},
    model::{Model, ModelError, ModelErrorKind, Request, Stop},
};

/// The maximum number of tokens of one answer, even if a server asks for more.
pub const MAX_TOKENS: u32 = 4_096;
/// The maximum size of all texts of one request, in bytes, so that the user can read it.
pub const MAX_BYTES: usize = 64 * 1_024;
/// The maximum number of messages of one request.
pub const MAX_MESSAGES: usize = 100;
/// The maximum number of stop sequences of one request.
const MAX_STOPS: usize = 16;

/// The parameters of `sampling/createMessage` that reach the model. `modelPreferences` and `includeContext` are
/// ignored.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    messages: Vec<Message>,
    system: Option<String>,
    max_tokens: u32,
    temperature: Option<f64>,
    stop_sequences: Vec<String>,
}

impl Sampling {
    /// Reads the parameters that a server sent.
    ///
    /// # Errors
    /// A refusal for the server. It has sent no messages, something other than text, more than [`MAX_BYTES`] of text,
    /// more than [`MAX_MESSAGES`] messages, or more than 16 stop sequences.
    pub fn read(params: &Value) -> Result<Self, AskRefused> {
        let messages = params["messages"].as_array().filter(|messages| !messages.is_empty());
        let messages = messages.ok_or_else(|| AskRefused::new("there are no messages"))?;
        if messages.len() > MAX_MESSAGES {
            return Err(AskRefused::new(format!("there are more than {MAX_MESSAGES} messages")));
        }
        let stop_sequences: Vec<_> =
            params["stopSequences"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if stop_sequences.len() > MAX_STOPS {
            return Err(AskRefused::new(format!("there are more than {MAX_STOPS} stop sequences")));
        }
        let sampling = Self {
            messages: messages.iter().map(read_message).collect::<Result<_, _>>()?,
            system: params["systemPrompt"].as_str().filter(|system| !system.is_empty()).map(ToOwned::to_owned),
            max_tokens: read_max_tokens(&params["maxTokens"]),
            temperature: params["temperature"].as_f64(),
            stop_sequences: stop_sequences.into_iter().filter(|stop| !stop.is_empty()).map(ToOwned::to_owned).collect(),
        };
        let contents = sampling.messages.iter().map(|message| &message.content);
        let texts = contents.chain(&sampling.system).chain(&sampling.stop_sequences);
        if texts.map(String::len).sum::<usize>() > MAX_BYTES {
            return Err(AskRefused::new(format!("the request has more than {MAX_BYTES} bytes of text")));
        }
        Ok(sampling)
    }

    /// Lowers the maximum number of tokens of the answer to `tokens`. Never raises it.
    #[must_use]
    pub fn limit_tokens(self, tokens: u32) -> Self {
        Self { max_tokens: self.max_tokens.min(tokens), ..self }
    }

    /// Returns the conversation: texts of a user and of a model.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Returns the system prompt, if the server sent one.
    #[must_use]
    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// Returns the maximum number of tokens of the answer.
    #[must_use]
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }

    /// Returns the sampling temperature, if the server sent one.
    #[must_use]
    pub fn temperature(&self) -> Option<f64> {
        self.temperature
    }

    /// Returns the stop sequences. Not every provider supports them, so [`answer`](Self::answer) cuts the complete
    /// answer before the first one.
    #[must_use]
    pub fn stop_sequences(&self) -> &[String] {
        &self.stop_sequences
    }

    /// Asks `model`, and returns the result of `sampling/createMessage`. Dropping the future cancels the request.
    ///
    /// # Errors
    /// [`ModelError`] if the model does not answer.
    pub async fn answer(&self, model: &dyn Model) -> Result<Value, ModelError> {
        let request = Request {
            system: self.system(),
            max_tokens: Some(self.max_tokens),
            temperature: self.temperature,
            ..Request::new(&self.messages)
        };
        let reply = match model.complete(request.clone()).await {
            // Many models that think refuse a temperature. The server only wishes for one, and an answer matters more.
            Err(error) if self.temperature.is_some() && refuses_temperature(&error) => {
                model.complete(Request { temperature: None, ..request }).await?
            }
            result => result?,
        };
        let mut text = reply.message.content;
        let cut_position = self.stop_sequences.iter().filter_map(|stop| text.find(stop.as_str())).min();
        if let Some(position) = cut_position {
            text.truncate(position);
        }
        let stop_reason = if cut_position.is_some() { "stopSequence" } else { mcp_stop_reason(&reply.stop) };
        let content = json!({"type": "text", "text": text});
        Ok(json!({"role": "assistant", "content": content, "model": model.name(), "stopReason": stop_reason}))
    }
}

/// Returns whether the provider refused the request because of its temperature.
fn refuses_temperature(error: &ModelError) -> bool {
    matches!(&error.kind, ModelErrorKind::Refused { message, .. } if message.to_lowercase().contains("temperature"))
}

/// Reads one message, whose content is a text or a list of texts.
fn read_message(message: &Value) -> Result<Message, AskRefused> {
    let role = match message["role"].as_str() {
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        _ => return Err(AskRefused::new("the role of a message is neither `user` nor `assistant`")),
    };
    let parts = match &message["content"] {
        Value::Array(parts) => parts.as_slice(),
        part => std::slice::from_ref(part),
    };
    let texts = parts.iter().map(|part| match (part["type"].as_str(), part["text"].as_str()) {
        (Some("text"), Some(text)) => Ok(text),
        _ => Err(AskRefused::new(
            "a message holds something other than text: pictures, sounds and tools are not supported",
        )),
    });
    Ok(Message::new(role, texts.collect::<Result<Vec<_>, _>>()?.join("\n")))
}

/// Reads `maxTokens`, at least 1 and at most [`MAX_TOKENS`].
fn read_max_tokens(requested: &Value) -> u32 {
    let requested = requested.as_u64().and_then(|tokens| u32::try_from(tokens).ok()).unwrap_or(MAX_TOKENS);
    requested.clamp(1, MAX_TOKENS)
}

/// Returns MCP's `stopReason` for a model's reason to stop.
fn mcp_stop_reason(stop: &Stop) -> &str {
    match stop {
        Stop::End | Stop::ToolCalls => "endTurn",
        Stop::Length => "maxTokens",
        Stop::Refusal => "refusal",
        Stop::Other(reason) => reason,
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;
    use crate::{Reply, model::Scripted};

    fn text_result(text: &str) -> Value {
        json!({"role": "user", "content": {"type": "text", "text": text}})
    }

    #[test]
    fn a_model_gets_the_texts_and_its_words_are_the_result() {
        let params = json!({
            "messages": [text_result("hello"), {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}, text_result("who?")],
            "systemPrompt": "Be short.", "maxTokens": 20, "temperature": 0.5, "modelPreferences": {"hints": [{"name": "x"}]},
        });
        let model = Scripted::new().say("Ada.").recording();
        let sampling = Sampling::read(&params).unwrap();
        assert_eq!((sampling.max_tokens(), sampling.temperature()), (20, Some(0.5)));
        let answer = block_on(sampling.answer(&model)).unwrap();
        let content = json!({"type": "text", "text": "Ada."});
        let expected =
            json!({"role": "assistant", "content": content, "model": "mock/script", "stopReason": "endTurn"});
        assert_eq!(answer, expected);
        let [request] = model.requests().try_into().unwrap();
        let texts: Vec<_> = request.messages.iter().map(|message| (message.role, message.content.as_str())).collect();
        assert_eq!(texts, [(Role::User, "hello"), (Role::Assistant, "hi"), (Role::User, "who?")]);
        assert_eq!((request.system.as_deref(), request.tools.is_none()), (Some("Be short."), true));
    }

    #[test]
    fn a_model_that_takes_no_temperature_is_asked_without_one() {
        let message = "Unsupported parameter: 'temperature' is not supported with this model.".to_owned();
        let refused = ModelErrorKind::Refused { status: 400, message };
        for (temperature, requests) in [(json!(0.5), 2), (Value::Null, 1)] {
            let model = Scripted::new().fail(refused.clone()).say("Ada.").recording();
            let params = json!({"messages": [text_result("who?")], "temperature": temperature});
            let answered = block_on(Sampling::read(&params).unwrap().answer(&model));
            assert_eq!((answered.is_ok(), model.requests().len()), (requests == 2, requests));
        }
    }

    #[test]
    fn an_answer_ends_before_the_first_stop_sequence_and_says_when_it_was_cut() {
        let asked =
            Sampling::read(&json!({"messages": [text_result("x")], "stopSequences": ["END", "", "two"]})).unwrap();
        let answer = block_on(asked.answer(&Scripted::new().say("one two END"))).unwrap();
        assert_eq!((&answer["content"]["text"], &answer["stopReason"]), (&json!("one "), &json!("stopSequence")));
        let mut reply = Reply::new(Message::new(Role::Assistant, "one"));
        reply.stop = Stop::Length;
        let answer = block_on(asked.answer(&Scripted::new().reply(reply))).unwrap();
        assert_eq!(answer["stopReason"], "maxTokens");
        assert!(block_on(asked.answer(&Scripted::new())).is_err());
    }

    #[test]
    fn a_server_cannot_ask_for_more_tokens_than_the_bound() {
        for (asked, most) in
            [(json!(1_000_000), MAX_TOKENS), (json!(u64::MAX), MAX_TOKENS), (json!(0), 1), (json!(null), MAX_TOKENS)]
        {
            let sampling = Sampling::read(&json!({"messages": [text_result("x")], "maxTokens": asked})).unwrap();
            assert_eq!(sampling.max_tokens(), most, "{asked}");
            assert!(sampling.limit_tokens(7).max_tokens() <= 7);
        }
    }

    #[test]
    fn sampling_of_other_content_than_text_or_of_too_much_text_is_refused_with_a_reason() {
        let image = json!({"role": "user", "content": {"type": "image", "data": "AAAA", "mimeType": "image/png"}});
        let mixed =
            json!({"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "audio", "data": "AAAA"}]});
        for (params, why) in [
            (json!({"messages": [image]}), "pictures"),
            (json!({"messages": [mixed]}), "pictures"),
            (json!({"messages": []}), "no messages"),
            (json!(7), "no messages"),
            (json!({"messages": [{"role": "system", "content": {"type": "text", "text": "x"}}]}), "role"),
            (json!({"messages": vec![text_result("x"); MAX_MESSAGES + 1]}), "messages"),
            (json!({"messages": [text_result("x")], "systemPrompt": "x".repeat(MAX_BYTES)}), "bytes"),
            (json!({"messages": [text_result("x")], "stopSequences": vec!["x"; MAX_STOPS + 1]}), "stop sequences"),
        ] {
            let refused = Sampling::read(&params).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
