//! Assembles an answer that is still arriving. The code of each wire (the API format of a provider) reads the
//! provider's events, and tells the draft about each piece: a text, a call, or a block that only the provider
//! understands. The draft streams the pieces as they arrive, in any order, and joins them at the end.

use std::collections::VecDeque;

use serde_json::{Map, Value};

use super::{Delta, Reply, Stop, Usage, Wire, error::ModelErrorKind};
use crate::message::{Block, Message, ProviderBlocks, Role, ToolCallData};

/// The maximum number of pieces (texts, calls, blocks) of one answer.
const MAX_PIECES: usize = 2_048;

/// The stream of deltas to which a draft adds the pieces.
pub(super) type Deltas = VecDeque<Delta>;

/// The pieces of the answer that have arrived.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pieces: Vec<Piece>,
    /// How many calls there are among the pieces.
    call_count: usize,
    /// The prefix of the ids that this draft gives to calls without an id.
    id_prefix: String,
    pub(super) usage: Usage,
    pub(super) stop: Option<Stop>,
    /// The cost that the provider reports, in US dollars.
    pub(super) cost: Option<f64>,
}

/// A piece of the answer. `extra` has further fields of the provider, such as a signature, which go back to it.
#[derive(Debug)]
enum Piece {
    Text {
        text: String,
        extra: Map<String, Value>,
    },
    Call(Call),
    /// A block that only the provider understands.
    Raw(Value),
}

/// A call that the model wants made.
#[derive(Debug, Default)]
struct Call {
    /// The number of the call in the answer, from 0.
    number: usize,
    id: String,
    /// Whether the draft has streamed the beginning of the call. It does so once the name has arrived.
    is_announced: bool,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
}

/// The index of a piece in a draft, to extend the piece later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PieceIndex(usize);

impl Draft {
    /// Creates a draft of the answer to a conversation with this many messages.
    pub(super) fn new(message_count: usize) -> Self {
        // The conversation only grows, so this prefix makes the ids unique in it. The ids are also deterministic.
        Self { id_prefix: format!("call_{message_count}_"), ..Self::default() }
    }

    /// Adds a piece, within the maximum number of pieces.
    fn add(&mut self, piece: Piece) -> Result<PieceIndex, ModelErrorKind> {
        if self.pieces.len() >= MAX_PIECES {
            return Err(ModelErrorKind::Unreadable { why: format!("it has more than {MAX_PIECES} pieces") });
        }
        self.pieces.push(piece);
        Ok(PieceIndex(self.pieces.len() - 1))
    }

    /// Returns whether nothing has arrived yet.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Begins a new piece of text.
    pub(super) fn begin_text(&mut self) -> Result<PieceIndex, ModelErrorKind> {
        self.add(Piece::Text { text: String::new(), extra: Map::new() })
    }

    /// Appends text to the piece `index`.
    pub(super) fn append_text_at(&mut self, index: PieceIndex, addition: &str, deltas: &mut Deltas) {
        if let Some(Piece::Text { text, .. }) = self.pieces.get_mut(index.0)
            && !addition.is_empty()
        {
            text.push_str(addition);
            deltas.push_back(Delta::Text(addition.to_owned()));
        }
    }

    /// Returns whether the text `index` is empty.
    pub(super) fn is_empty_text(&self, index: PieceIndex) -> bool {
        matches!(self.pieces.get(index.0), Some(Piece::Text { text, .. }) if text.is_empty())
    }

    /// Appends text to the last piece if that is a text without further fields; otherwise begins a new piece.
    pub(super) fn add_text(&mut self, addition: &str, deltas: &mut Deltas) -> Result<(), ModelErrorKind> {
        if addition.is_empty() {
            return Ok(());
        }
        let index = match self.pieces.last() {
            Some(Piece::Text { extra, .. }) if extra.is_empty() => PieceIndex(self.pieces.len() - 1),
            _ => self.begin_text()?,
        };
        self.append_text_at(index, addition, deltas);
        Ok(())
    }

    /// Adds a block that only the provider understands. The answer leaves out a block that is `null` at the end.
    pub(super) fn add_raw(&mut self, value: Value) -> Result<PieceIndex, ModelErrorKind> {
        self.add(Piece::Raw(value))
    }

    /// Returns the block `index`, to complete it.
    pub(super) fn raw_mut(&mut self, index: PieceIndex) -> Option<&mut Value> {
        match self.pieces.get_mut(index.0) {
            Some(Piece::Raw(value)) => Some(value),
            _ => None,
        }
    }

    /// Removes the blocks for which `is_useless` returns `true`. Indexes of pieces are invalid afterwards.
    pub(super) fn drop_raw(&mut self, is_useless: impl Fn(&Value) -> bool) {
        self.pieces.retain(|piece| !matches!(piece, Piece::Raw(block) if is_useless(block)));
    }

    /// Returns the further fields of a text or a call.
    pub(super) fn extra_mut(&mut self, index: PieceIndex) -> Option<&mut Map<String, Value>> {
        match self.pieces.get_mut(index.0)? {
            Piece::Text { extra, .. } => Some(extra),
            Piece::Call(call) => Some(&mut call.extra),
            Piece::Raw(_) => None,
        }
    }

    /// Begins a call. If the id is empty, or another call of this answer has it already, gives the call another id.
    pub(super) fn begin_call(
        &mut self,
        id: &str,
        name: &str,
        deltas: &mut Deltas,
    ) -> Result<PieceIndex, ModelErrorKind> {
        let number = self.call_count;
        let is_taken = |id: &str| self.pieces.iter().any(|piece| matches!(piece, Piece::Call(call) if call.id == id));
        let mut id = id.to_owned();
        for candidate in number.. {
            if !id.is_empty() && !is_taken(&id) {
                break;
            }
            id = format!("{}{candidate}", self.id_prefix);
        }
        let index = self.add(Piece::Call(Call { number, id, ..Call::default() }))?;
        self.call_count += 1;
        self.set_name(index, name, deltas);
        Ok(index)
    }

    /// Sets the name of a call that began without one.
    pub(super) fn set_name(&mut self, index: PieceIndex, name: &str, deltas: &mut Deltas) {
        if let Some(Piece::Call(call)) = self.pieces.get_mut(index.0)
            && !call.is_announced
            && !name.is_empty()
        {
            call.name = name.to_owned();
            call.is_announced = true;
            deltas.push_back(Delta::ToolCallBegin { index: call.number, id: call.id.clone(), name: name.to_owned() });
            if !call.arguments.is_empty() {
                let fragment = call.arguments.clone();
                deltas.push_back(Delta::ToolCallArguments { index: call.number, fragment });
            }
        }
    }

    /// Returns the arguments of the call `index` that have arrived.
    pub(super) fn arguments(&self, index: PieceIndex) -> Option<&str> {
        match self.pieces.get(index.0)? {
            Piece::Call(call) => Some(&call.arguments),
            Piece::Text { .. } | Piece::Raw(_) => None,
        }
    }

    /// Appends to a call's arguments.
    pub(super) fn append_arguments(&mut self, index: PieceIndex, addition: &str, deltas: &mut Deltas) {
        if let Some(Piece::Call(call)) = self.pieces.get_mut(index.0)
            && !addition.is_empty()
        {
            call.arguments.push_str(addition);
            if call.is_announced {
                deltas.push_back(Delta::ToolCallArguments { index: call.number, fragment: addition.to_owned() });
            }
        }
    }

    /// Sets the complete arguments of a call, unless they have arrived in pieces already.
    pub(super) fn complete_arguments(&mut self, index: PieceIndex, complete: &str, deltas: &mut Deltas) {
        let has_no_arguments = matches!(self.pieces.get(index.0), Some(Piece::Call(call)) if call.arguments.is_empty());
        if has_no_arguments {
            self.append_arguments(index, complete, deltas);
        }
    }

    /// Assembles the answer of `model`, which came over `wire`. Its message stores the order of the pieces only if the
    /// provider wants more back than text and calls.
    pub(super) fn finish(self, wire: Wire, model: &str) -> Reply {
        let mut message = Message::new(Role::Assistant, "");
        let (mut calls, mut blocks) = (Vec::new(), Vec::new());
        // Whether the answer is only text and calls, without further fields.
        let mut is_text_and_calls = true;
        let is_incomplete = !matches!(self.stop, None | Some(Stop::End | Stop::ToolCalls));
        let last_call = self.call_count.checked_sub(1);
        for piece in self.pieces {
            match piece {
                Piece::Text { text, extra } => {
                    is_text_and_calls &= extra.is_empty();
                    if !text.is_empty() || !extra.is_empty() {
                        message.content.push_str(&text);
                        blocks.push(Block::Text { bytes: text.len(), extra });
                    }
                }
                Piece::Call(call) => {
                    is_text_and_calls &= call.extra.is_empty();
                    // A call that was cut before its first argument looks like a call without arguments, and must not
                    // be made as one.
                    calls.push(
                        match is_incomplete && last_call == Some(call.number) && call.arguments.trim().is_empty() {
                            true => ToolCallData::without_arguments(call.id, call.name),
                            false => ToolCallData::from_text(call.id, call.name, &call.arguments),
                        },
                    );
                    blocks.push(Block::Call { extra: call.extra });
                }
                Piece::Raw(Value::Null) => {}
                Piece::Raw(value) => {
                    is_text_and_calls = false;
                    blocks.push(Block::Raw(value));
                }
            }
        }
        let stop = match (self.stop.unwrap_or(Stop::End), calls.is_empty()) {
            // Gemini, Ollama and others report a normal end although they wait for the results of calls.
            (Stop::End, false) => Stop::ToolCalls,
            (Stop::ToolCalls, true) => Stop::End,
            (stop, _) => stop,
        };
        let mut message = message.with_tool_calls(calls);
        if !is_text_and_calls {
            message.blocks = Some(ProviderBlocks { wire: wire.to_string(), model: model.to_owned(), blocks });
        }
        Reply { message, stop, usage: self.usage, cost: self.cost }
    }
}

/// A piece of a model's message that goes back to the provider with the conversation.
pub(super) enum SentPiece<'a> {
    /// A block, unchanged.
    Raw(&'a Value),
    /// Text, with its further fields.
    Text(&'a str, Option<&'a Map<String, Value>>),
    /// A call, with its further fields.
    Call(&'a ToolCallData, Option<&'a Map<String, Value>>),
}

/// Returns the pieces of a model's message, in order. They include the provider's blocks only if the message came from
/// this model, over this wire (API format); otherwise they are only text and calls.
pub(super) fn pieces<'a>(message: &'a Message, wire: Wire, model: &str) -> Vec<SentPiece<'a>> {
    let provider_blocks =
        message.blocks.as_ref().filter(|blocks| blocks.wire == wire.as_str() && blocks.model == model);
    if let Some(ordered_pieces) = provider_blocks.and_then(|provider| order_pieces(message, &provider.blocks)) {
        return ordered_pieces;
    }
    let text = (!message.content.is_empty()).then_some(SentPiece::Text(&message.content, None));
    // The blocks do not match the message, which has changed since the provider sent it: put the opaque blocks first.
    let raw_blocks =
        provider_blocks.into_iter().flat_map(|provider| &provider.blocks).filter_map(|block| match block {
            Block::Raw(value) => Some(SentPiece::Raw(value)),
            _ => None,
        });
    raw_blocks.chain(text).chain(message.calls().iter().map(|call| SentPiece::Call(call, None))).collect()
}

/// Returns text and calls in the order of the provider's blocks; `None` if the blocks do not match the message's text
/// and calls.
fn order_pieces<'a>(message: &'a Message, blocks: &'a [Block]) -> Option<Vec<SentPiece<'a>>> {
    let (mut text, mut calls) = (message.content.as_str(), message.calls().iter());
    let mut ordered_pieces = Vec::with_capacity(blocks.len());
    for block in blocks {
        ordered_pieces.push(match block {
            Block::Raw(value) => SentPiece::Raw(value),
            Block::Text { bytes, extra } => {
                let (piece, rest) = text.split_at_checked(*bytes)?;
                text = rest;
                SentPiece::Text(piece, Some(extra))
            }
            Block::Call { extra } => SentPiece::Call(calls.next()?, Some(extra)),
        });
    }
    (text.is_empty() && calls.next().is_none()).then_some(ordered_pieces)
}

#[cfg(test)]
mod tests;
