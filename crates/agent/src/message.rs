//! The parts of a conversation, the same for every provider.
//!
//! A message is text, the calls that a model wants made, or the result of one. [`Message::parts`] holds what MCP has
//! beyond text (pictures, sounds, resources) unchanged, and each wire (the API format of a provider) sends what its
//! provider accepts. [`Message::blocks`] holds data that a provider wants back unchanged, such as thinking that the
//! provider has signed.
//!
//! Everything here is stored as JSON. The JSON of a message leaves out empty fields other than `role` and `content`. So
//! a conversation that was stored before a field existed can still be read, and its JSON stays the same.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolrack_host::{Content, text::map_texts};

/// The speaker of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The program that leads the conversation. Usually its words are in [`Request::system`](crate::Request::system)
    /// instead of a message.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool, with the result of one call.
    Tool,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Message {
    /// The speaker.
    pub role: Role,
    /// The text; empty if a model only makes calls.
    pub content: String,
    /// The calls that a model wants made, in the order in which it wrote them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<Vec<ToolCallData>>,
    /// The id of the call that this message answers, in a tool's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// Whether the call failed, in a tool's message; `content` then says how.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_error: bool,
    /// Pictures, sounds and files beside the text of a user or a tool. The text itself is in `content`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Content>,
    /// The blocks that the provider wants back unchanged, in a model's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<ProviderBlocks>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

impl Message {
    /// Creates a message of text.
    pub fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: None,
            tool_call_id: None,
            is_error: false,
            parts: Vec::new(),
            blocks: None,
        }
    }

    /// Creates a tool's message with the result of the call `id`.
    pub fn tool_result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(id.into()), ..Self::new(Role::Tool, content) }
    }

    /// Creates a tool's message that says how the call `id` failed.
    pub fn tool_error(id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::tool_result(id, content) }
    }

    /// Sets the calls. An empty list becomes `None`.
    #[must_use]
    pub fn with_tool_calls(mut self, calls: Vec<ToolCallData>) -> Self {
        self.tool_calls = (!calls.is_empty()).then_some(calls);
        self
    }

    /// Sets the parts. Leaves out parts that are text, because `content` has the text of a result already.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Content>) -> Self {
        self.parts = parts.into_iter().filter(|part| !is_in_text(part)).collect();
        self
    }

    /// Returns a copy to store, in which `conceal` has hidden secrets in the text and in the arguments of calls.
    ///
    /// Three things stay as they are, because the provider would refuse the message otherwise: the names of tools, the
    /// pieces that the provider has signed, and the blocks that only the provider understands.
    #[must_use]
    pub fn concealed(&self, conceal: &dyn Fn(&str) -> String) -> Self {
        let mut concealed = self.clone();
        let blocks =
            concealed.blocks.as_mut().map(|provider_blocks| &mut provider_blocks.blocks[..]).unwrap_or_default();
        let call_extras = blocks.iter().filter_map(|block| match block {
            Block::Call { extra } => Some(extra),
            _ => None,
        });
        let signed_calls: Vec<bool> = call_extras.map(is_signed).collect();
        let calls = concealed.tool_calls.iter_mut().flatten().enumerate();
        calls.filter(|(index, _)| signed_calls.get(*index) != Some(&true)).for_each(|(_, call)| call.conceal(conceal));
        // If the pieces cannot be concealed separately, the blocks no longer fit the text. Requests then send the
        // opaque blocks first, and the text and the calls without their further fields.
        concealed.content = concealed_pieces(&self.content, blocks, conceal).unwrap_or_else(|| conceal(&self.content));
        concealed
    }

    /// Returns the calls that a model wants made; empty if there are none.
    #[must_use]
    pub fn calls(&self) -> &[ToolCallData] {
        self.tool_calls.as_deref().unwrap_or_default()
    }
}

/// A call that a model wants made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolCallData {
    /// The id, unique in its conversation. It comes from the provider, or from this crate if the provider gave none.
    pub id: String,
    /// The model-visible name of the tool, as the model wrote it.
    pub name: String,
    /// The arguments, a JSON object; `null` if the model did not write a JSON object.
    pub input: Value,
    /// The text that the model wrote as arguments, if it is not a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_arguments: Option<String>,
}

impl ToolCallData {
    /// Creates a call with these arguments.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Map<String, Value>) -> Self {
        Self { id: id.into(), name: name.into(), input: Value::Object(input), raw_arguments: None }
    }

    /// Creates a call from arguments in the form of text. An empty text or `null` means no arguments. Any other text
    /// that is not a JSON object becomes [`raw_arguments`](Self::raw_arguments).
    pub fn from_text(id: impl Into<String>, name: impl Into<String>, arguments: &str) -> Self {
        let input = match arguments.trim() {
            "" | "null" => Some(Value::Object(Map::new())),
            text => serde_json::from_str(text).ok().filter(Value::is_object),
        };
        let raw_arguments = input.is_none().then(|| arguments.to_owned());
        Self { id: id.into(), name: name.into(), input: input.unwrap_or_default(), raw_arguments }
    }

    /// Creates a call whose arguments never arrived, because the answer was cut before them.
    pub(crate) fn without_arguments(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), input: Value::Null, raw_arguments: Some(String::new()) }
    }

    /// Hides secrets in the arguments with `conceal`.
    pub(crate) fn conceal(&mut self, conceal: &dyn Fn(&str) -> String) {
        map_texts(&mut self.input, &|text| conceal(text).into());
        self.raw_arguments = self.raw_arguments.take().map(|text| conceal(&text));
    }

    /// Returns the arguments; `None` if the model wrote no JSON object.
    #[must_use]
    pub fn arguments(&self) -> Option<&Map<String, Value>> {
        self.input.as_object()
    }
}

/// Blocks that a provider sent with an answer and wants back unchanged, in their order among its texts and calls.
///
/// Only the same model gets the blocks back, over the same wire. Any other model gets just the text and the calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProviderBlocks {
    /// The wire over which the answer came; see [`Wire`](crate::model::Wire).
    pub wire: String,
    /// The model that wrote the answer, as the request named it.
    pub model: String,
    /// The pieces of the answer, in order. The message itself holds their text and calls.
    pub blocks: Vec<Block>,
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Block {
    /// A block that only its provider understands: its JSON, unchanged.
    Raw(Value),
    /// Text: the next bytes of [`Message::content`].
    Text {
        /// The length of the text in bytes.
        bytes: usize,
        /// Further fields of the provider, such as a signature.
        #[serde(default, rename = "with", skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    },
    /// The next of [`Message::tool_calls`].
    Call {
        /// Further fields of the provider, such as a signature.
        #[serde(default, rename = "with", skip_serializing_if = "Map::is_empty")]
        extra: Map<String, Value>,
    },
}

/// Conceals each unsigned piece of `text`, and sets the lengths of the pieces in `blocks` to the new ones. Returns
/// `None` if the pieces do not make up this text, or if a secret extends over several unsigned pieces.
fn concealed_pieces(text: &str, blocks: &mut [Block], conceal: &dyn Fn(&str) -> String) -> Option<String> {
    let (mut remaining_text, mut concealed) = (text, String::new());
    // The text of the unsigned pieces since the last signed one, first unchanged, then with each piece concealed
    // separately. If concealing the unchanged text as a whole gives another result, a secret spans two pieces.
    let (mut unsigned_text, mut concealed_separately) = (String::new(), String::new());
    for block in blocks {
        let Block::Text { bytes, extra } = block else { continue };
        let (piece, following) = remaining_text.split_at_checked(*bytes)?;
        remaining_text = following;
        if is_signed(extra) {
            if conceal(&unsigned_text) != concealed_separately {
                return None;
            }
            unsigned_text.clear();
            concealed.push_str(&std::mem::take(&mut concealed_separately));
            concealed.push_str(piece);
        } else {
            let concealed_piece = conceal(piece);
            *bytes = concealed_piece.len();
            unsigned_text.push_str(piece);
            concealed_separately.push_str(&concealed_piece);
        }
    }
    let is_usable = remaining_text.is_empty() && conceal(&unsigned_text) == concealed_separately;
    is_usable.then(|| concealed + &concealed_separately)
}

/// Returns whether the provider has signed a piece, so that one of the piece's `extra` fields is a signature.
fn is_signed(extra: &Map<String, Value>) -> bool {
    // Anthropic names it `signature`, Gemini `thoughtSignature`.
    extra.keys().any(|name| name.to_ascii_lowercase().ends_with("signature"))
}

/// Returns whether the text of a result already contains the content of `part`.
pub(crate) fn is_in_text(part: &Content) -> bool {
    match part {
        Content::Text { .. } | Content::ResourceLink { .. } => true,
        Content::Resource { resource } => resource.blob.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn roles_are_written_in_lower_case() {
        for (role, word) in
            [(Role::System, "system"), (Role::User, "user"), (Role::Assistant, "assistant"), (Role::Tool, "tool")]
        {
            assert_eq!(json!(role), json!(word));
            assert_eq!(serde_json::from_value::<Role>(json!(word)).unwrap(), role);
        }
    }

    #[test]
    fn a_plain_message_has_nothing_but_role_and_content() {
        let message = Message::new(Role::User, "hello");
        assert_eq!(json!(message), json!({"role": "user", "content": "hello"}));
        let old =
            r#"{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "f", "input": {"a": 1}}]}"#;
        let message: Message = serde_json::from_str(old).unwrap();
        assert_eq!(message.calls()[0].arguments().unwrap()["a"], 1);
        assert_eq!(json!(message), serde_json::from_str::<Value>(old).unwrap());
    }

    #[test]
    fn a_result_names_its_call_and_an_error_is_marked_as_one() {
        assert_eq!(
            json!(Message::tool_result("call_1", "12")),
            json!({"role": "tool", "content": "12", "tool_call_id": "call_1"})
        );
        assert_eq!(json!(Message::tool_error("call_1", "no"))["is_error"], true);
    }

    #[test]
    fn parts_and_blocks_come_back_from_json_even_through_a_tagged_enum() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        enum Event {
            Said { message: Message },
        }
        let parts = json!([
            {"type": "text", "text": "said already"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA"}},
            {"type": "resource", "resource": {"uri": "file:///b", "text": "said already"}},
            {"type": "hologram", "depth": 3},
        ]);
        let parts: Vec<Content> = serde_json::from_value(parts).unwrap();
        let mut message = Message::tool_result("1", "x").with_parts(parts);
        assert_eq!(message.parts.len(), 3, "all that is not text: {:?}", message.parts);
        let extra = Map::from_iter([("signature".to_owned(), json!("s"))]);
        let blocks = vec![
            Block::Raw(json!({"type": "thinking"})),
            Block::Text { bytes: 1, extra },
            Block::Call { extra: Map::new() },
        ];
        message.blocks = Some(ProviderBlocks { wire: "anthropic".into(), model: "m".into(), blocks });
        let event = Event::Said { message };
        let again: Event = serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(again, event);
    }

    #[test]
    fn arguments_that_are_not_an_object_are_stored_unparsed() {
        assert_eq!(ToolCallData::from_text("1", "f", "").input, json!({}));
        let broken = ToolCallData::from_text("1", "f", r#"{"a": "#);
        assert_eq!((broken.arguments(), broken.raw_arguments.as_deref()), (None, Some(r#"{"a": "#)));
        assert_eq!(json!(broken)["input"], Value::Null);
        assert_eq!(serde_json::from_value::<ToolCallData>(json!(broken)).unwrap(), broken);
    }

    fn conceal(text: &str) -> String {
        text.replace("canary", "***")
    }

    fn signed() -> Map<String, Value> {
        Map::from_iter([("thoughtSignature".to_owned(), json!("c2ln"))])
    }

    fn blocks(blocks: Vec<Block>) -> Option<ProviderBlocks> {
        Some(ProviderBlocks { wire: "gemini".into(), model: "m".into(), blocks })
    }

    fn text(bytes: usize, extra: Map<String, Value>) -> Block {
        Block::Text { bytes, extra }
    }

    #[test]
    fn a_message_is_stored_without_secrets_in_text_and_arguments() {
        let input = json!({ "a": ["canary", { "b": "x canary y" }], "n": 7 }).as_object().unwrap().clone();
        let calls = vec![
            ToolCallData::new("canary-id", "canary_tool", input),
            ToolCallData::from_text("2", "f", "{\"cut\": \"canary"),
        ];
        let message = Message::new(Role::Assistant, "it is canary, canary").with_tool_calls(calls);
        let kept = message.concealed(&conceal);
        assert_eq!(kept.content, "it is ***, ***");
        assert_eq!(kept.calls()[0].input, json!({ "a": ["***", { "b": "x *** y" }], "n": 7 }));
        assert_eq!(kept.calls()[1].raw_arguments.as_deref(), Some("{\"cut\": \"***"));
        // Providers want ids and names back unchanged.
        assert_eq!((&*kept.calls()[0].id, &*kept.calls()[0].name), ("canary-id", "canary_tool"));
        assert_eq!(Message::tool_error("1", "no canary").concealed(&conceal), Message::tool_error("1", "no ***"));
        assert_eq!(message.content, "it is canary, canary", "the message itself stays unchanged");
    }

    #[test]
    fn signed_pieces_are_stored_unchanged_and_the_others_without_secrets() {
        let call = |id: &str| ToolCallData::new(id, "f", Map::from_iter([("k".to_owned(), json!("canary"))]));
        let mut message = Message::new(Role::Assistant, "canary 1canary 2").with_tool_calls(vec![call("a"), call("b")]);
        message.blocks = blocks(vec![
            Block::Raw(json!({ "thinking": "canary" })),
            text(8, signed()),
            Block::Call { extra: Map::new() },
            Block::Call { extra: signed() },
            text(8, Map::new()),
        ]);
        let kept = message.concealed(&conceal);
        assert_eq!(kept.content, "canary 1*** 2");
        let inputs: Vec<_> = kept.calls().iter().map(|call| &call.input["k"]).collect();
        assert_eq!(inputs, ["***", "canary"]);
        let stored = &kept.blocks.unwrap().blocks;
        assert_eq!(stored[0], Block::Raw(json!({ "thinking": "canary" })));
        assert_eq!(
            (&stored[1], &stored[4]),
            (&text(8, signed()), &text(5, Map::new())),
            "the lengths are those of the concealed pieces"
        );
    }

    #[test]
    fn a_secret_across_two_unsigned_pieces_is_concealed_also_beside_a_signed_piece() {
        let mut message = Message::new(Role::Assistant, "signed cana\u{72}y");
        message.blocks = blocks(vec![text(7, signed()), text(4, Map::new()), text(2, Map::new())]);
        assert_eq!(message.concealed(&conceal).content, "signed ***");
        message.blocks = blocks(vec![text(11, Map::new()), text(2, signed())]);
        assert_eq!(message.concealed(&conceal).content, message.content, "a signed piece stays as it is");
    }

    #[test]
    fn a_secret_across_two_pieces_is_concealed() {
        let mut message = Message::new(Role::Assistant, "x cana\u{72}y");
        message.blocks = blocks(vec![text(6, Map::new()), text(2, Map::new())]);
        assert_eq!(message.concealed(&conceal).content, "x ***");
        // Lengths that do not add up to this text are ignored, and the whole text is concealed.
        for lengths in [vec![3, 2], vec![100], vec![], vec![8, 1]] {
            let mut message = Message::new(Role::Assistant, "x canary");
            message.blocks = blocks(lengths.iter().map(|bytes| text(*bytes, Map::new())).collect());
            assert_eq!(message.concealed(&conceal).content, "x ***", "{lengths:?}");
        }
    }

    #[test]
    fn a_result_whose_text_holds_everything_stores_no_parts() {
        for (part, is_repeated) in [
            (json!({ "type": "text", "text": "x" }), true),
            (json!({ "type": "resource_link", "uri": "x:y", "name": "n" }), true),
            (json!({ "type": "resource", "resource": { "uri": "x:y", "text": "x" } }), true),
            (json!({ "type": "resource", "resource": { "uri": "x:y", "blob": "AAAA" } }), false),
            (json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" }), false),
            (json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }), false),
        ] {
            let content: Content = serde_json::from_value(part.clone()).unwrap();
            let message = Message::tool_result("1", "x").with_parts([content]);
            assert_eq!(message.parts.is_empty(), is_repeated, "{part}");
        }
    }

    #[test]
    fn arguments_are_read_as_models_write_them() {
        for (written, input, is_kept) in [
            ("{\"a\":1}", json!({ "a": 1 }), false),
            ("  {\"a\":1}\n", json!({ "a": 1 }), false),
            (" ", json!({}), false),
            ("null", json!({}), false),
            (" null ", json!({}), false),
            ("[]", Value::Null, true),
            ("\"{}\"", Value::Null, true),
            ("{\"a\":1}{\"b\":2}", Value::Null, true),
            ("{'a':1}", Value::Null, true),
        ] {
            let call = ToolCallData::from_text("1", "f", written);
            assert_eq!((&call.input, call.raw_arguments.is_some()), (&input, is_kept), "{written}");
            assert_eq!(call.arguments().is_none(), is_kept, "{written}");
        }
    }
}
