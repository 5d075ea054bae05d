//! Asks models for answers: [`Model`] is the one trait for all of them.
//!
//! A model serializes the borrowed [`Request`] before it returns a future or a stream. So the future or stream borrows
//! nothing, and needs no copy of the conversation. Dropping it cancels the request.

mod anthropic;
mod body;
mod draft;
mod error;
mod failure;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod gemini;
pub mod local;
mod online;
mod openai_chat;
mod openai_responses;
pub mod provider;
mod scripted;
mod settings;
mod transport;

use std::{fmt, ops::AddAssign};

use futures::{future::BoxFuture, stream::BoxStream};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolrack_host::ToolBlock;

pub use error::{ModelError, ModelErrorKind};
pub use scripted::{BadScript, RecordedRequest, Scripted};
pub use settings::{Bounds, Key, ModelSettings, Price};
pub use toolrack_host::Wire;

use crate::message::Message;

/// A model that answers. Cheap to share: `Arc<dyn Model>`.
pub trait Model: Send + Sync + fmt::Debug {
    /// Returns the name that users see: `provider/name`.
    fn name(&self) -> &str;

    /// Returns the wire format in which the tools of a request must be written.
    fn wire(&self) -> Wire;

    /// Returns how many tokens fit into the model's context, input and output together, if known.
    fn context_tokens(&self) -> Option<u64>;

    /// Returns the cost of this usage in US dollars, if the prices are known. Use it for an interrupted answer: only a
    /// complete one has a [`Reply::cost`]. Default: `None`.
    fn cost_of(&self, usage: &Usage) -> Option<f64> {
        let _ = usage;
        None
    }

    /// Returns the complete answer, without streaming it.
    ///
    /// # Errors
    /// [`ModelError`], after all possible retries.
    fn complete(&self, request: Request<'_>) -> BoxFuture<'static, Result<Reply, ModelError>>;

    /// Streams the answer. The last item is [`Delta::Done`] with the whole answer, or an error. A streamed delta is
    /// final: a model retries a request only before the first byte of an answer.
    fn stream(&self, request: Request<'_>) -> BoxStream<'static, Result<Delta, ModelError>>;
}

/// A request to a model.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The conversation so far.
    pub messages: &'a [Message],
    /// The tools that the model may call, in the format of its [wire](Model::wire). Their bytes go into the request
    /// unchanged; without tools, the request does not mention any.
    pub tools: Option<&'a ToolBlock>,
    /// The system prompt.
    pub system: Option<&'a str>,
    /// The maximum number of tokens of the answer, including thinking. `None` leaves it to the provider or, if the
    /// provider demands a number, to the settings of the model.
    pub max_tokens: Option<u32>,
    /// The sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Members to add to the request's JSON body unchanged. A member here replaces the same member from the fields
    /// above, and `null` removes it. The conversation, the tools and whether the answer is streamed cannot be set here.
    pub extra_body: Option<&'a Map<String, Value>>,
}

impl<'a> Request<'a> {
    /// Creates a request with these messages and nothing else.
    #[must_use]
    pub fn new(messages: &'a [Message]) -> Self {
        Self { messages, ..Self::default() }
    }
}

/// A piece of a streamed answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// No answer came, and the model will send the request again after a wait.
    Retry {
        /// The length of the wait.
        after: std::time::Duration,
        /// The reason, safe to print.
        why: String,
    },
    /// Text for the user. All pieces together are the text of the answer. If a provider interleaves two texts, the
    /// stream has their pieces in the order of arrival, but the answer has one text after the other.
    Text(String),
    /// The model's thinking, if the provider shows it.
    Thinking(String),
    /// A call begins. Its arguments follow, perhaps interleaved with those of other calls.
    ToolCallBegin {
        /// The index of the call in the answer, from 0.
        index: usize,
        /// The id of the call, the same as in the complete answer.
        id: String,
        /// The tool's name as the model wrote it.
        name: String,
    },
    /// The next piece of the JSON text of a call's arguments.
    ToolCallArguments {
        /// The index of the call in the answer.
        index: usize,
        /// The piece.
        fragment: String,
    },
    /// The usage so far, which replaces the one before.
    Usage(Usage),
    /// The complete answer, as the last item.
    Done(Box<Reply>),
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Reply {
    /// The model's message, ready to be appended to the conversation.
    pub message: Message,
    /// The reason why the model stopped.
    pub stop: Stop,
    /// The usage of the request; all zero if the provider did not report any.
    pub usage: Usage,
    /// The cost of the request in US dollars, if the prices are known.
    pub cost: Option<f64>,
}

impl Reply {
    /// Creates a complete answer, without any usage.
    #[must_use]
    pub fn new(message: Message) -> Self {
        let stop = if message.calls().is_empty() { Stop::End } else { Stop::ToolCalls };
        Self { message, stop, usage: Usage::default(), cost: None }
    }
}

/// The reason why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Stop {
    /// The answer is complete.
    End,
    /// The model waits for the results of its calls.
    ToolCalls,
    /// The answer reached its token limit or filled the context. It is incomplete, perhaps within the arguments of a
    /// call.
    Length,
    /// The model or a filter of its provider refused. The text is the refusal, if the provider sent one.
    Refusal,
    /// Another reason, as the provider named it, safe to print.
    Other(String),
}

/// Usage, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Usage {
    /// All input, tokens from the cache included.
    pub input: u64,
    /// All output, thinking included.
    pub output: u64,
    /// The part of the input that was read from the provider's cache.
    pub cached_read: u64,
    /// The part of the input that was written into the provider's cache.
    pub cache_write: u64,
    /// The part of the output that was spent on thinking.
    pub reasoning: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cached_read = self.cached_read.saturating_add(other.cached_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.reasoning = self.reasoning.saturating_add(other.reasoning);
    }
}
