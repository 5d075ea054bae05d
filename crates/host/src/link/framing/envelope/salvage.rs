//! Recovers the id and the kind of a message that cannot be parsed.
//!
//! An answer that cannot be parsed must not leave its call waiting for the deadline, so this module searches the broken
//! bytes for the id of the call. The [`Scanner`] tracks only strings and brackets, and notes the members of the
//! outermost object. Damage inside one value (a bad escape, bytes that are not UTF-8, an invalid number, too many
//! levels) does not disturb the scanner, and the order of the members does not matter. The scanner stores a few hundred
//! bytes for a message of any length, and takes the message in pieces. So it finds the id even in a line that is too
//! long to be stored, and even at the end of the line, where the TypeScript SDK puts the id of an answer.
//!
//! Heuristic, in this order:
//! 1. `"id": <integer or string>` directly in the outermost object: certain, unless the object has two different ids.
//!    Then the last id counts, as it does for most JSON parsers, but it is not certain.
//! 2. If rule 1 finds no id, and the brackets do not match: the last `"id": <integer or string>` anywhere in the bytes.
//!    Never certain. Brackets do not match after an unescaped or missing quote, a missing bracket, a cut, or in a
//!    broken batch. The last id is the best guess, because rule 1 fails to see an id only if the damage comes before
//!    the id.
//! 3. If the brackets do match, the message has no id, even if its values contain one.

use memchr::{memchr, memchr2, memmem};

use crate::{canonical::integer_of, link::framing::envelope::Id};

/// How many bytes of a string or number are stored: enough for every member name of JSON-RPC and every reasonable id.
const TOKEN_LIMIT: usize = 256;

/// The name of the member that holds the id, with its quotes.
const ID_MEMBER: &[u8] = b"\"id\"";

/// The recovered parts of a broken message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Salvaged {
    /// The id, if one was found.
    pub(crate) id: Option<Id>,
    /// Whether the id is in the outermost object and is the only id there. If false, it may be the id of something else
    /// in the message.
    pub(crate) is_certain: bool,
    /// Whether the message is probably an answer: it has a `result` or an `error`, and no `method`.
    pub(crate) is_answer: bool,
}

impl Salvaged {
    /// Returns the id of the host's request that the message probably answers; `None` if the message is probably no
    /// answer.
    pub(crate) fn answered_request(&self) -> Option<i64> {
        self.id.as_ref().filter(|_| self.is_answer)?.number()
    }
}

/// Recovers the parts of a whole message that cannot be parsed. The [module](self) describes the heuristic.
pub(crate) fn salvage(bytes: &[u8]) -> Salvaged {
    let mut scanner = Scanner::default();
    scanner.feed(bytes);
    let salvaged = scanner.salvaged();
    if salvaged.id.is_some() || scanner.is_closed { salvaged } else { guess(bytes, salvaged) }
}

/// Applies rule 2: searches for members anywhere, even inside strings.
fn guess(bytes: &[u8], salvaged: Salvaged) -> Salvaged {
    let contains = |member: &[u8]| memmem::find(bytes, member).is_some();
    Salvaged {
        id: memmem::rfind_iter(bytes, ID_MEMBER).find_map(|start| id_after(bytes.get(start + ID_MEMBER.len()..)?)),
        is_certain: false,
        is_answer: salvaged.is_answer
            || (!contains(b"\"method\"") && (contains(b"\"result\"") || contains(b"\"error\""))),
    }
}

/// Returns the id in `: <integer or string>…`.
fn id_after(bytes: &[u8]) -> Option<Id> {
    let value = bytes.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let value = value.get(..TOKEN_LIMIT).unwrap_or(value);
    let end = match value.strip_prefix(b"\"") {
        // Both quotes belong to the value.
        Some(string) => memchr(b'"', string)? + 2,
        None => value.iter().position(|byte| !is_number_byte(*byte))?,
    };
    parse_id(value.get(..end)?)
}

/// Parses a JSON value as an id, if it is one.
pub(super) fn parse_id(value: &[u8]) -> Option<Id> {
    match value {
        [b'"', text @ .., b'"'] => string_id(text),
        digits => number_id(digits),
    }
}

/// Takes a message in pieces and notes the members of its outermost object.
///
/// The scanner reads one object. It skips the bytes before the opening bracket and after the closing bracket. An array
/// (a batch) has no members to note.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    position: Position,
    depth: usize,
    /// Whether the outermost bracket has been closed; all further bytes are ignored.
    is_closed: bool,
    /// The current or last string, or the current number.
    token: Token,
    /// Whether the last string is a member name if a colon follows.
    may_be_name: bool,
    /// Whether the next value belongs to a member `id` of the outermost object.
    is_id_value: bool,
    id: Option<Id>,
    /// Whether the outermost object has two different ids.
    is_contradicted: bool,
    has_method: bool,
    /// Whether there is a member `result` or `error`.
    has_outcome: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Position {
    #[default]
    BetweenTokens,
    InString,
    /// In a string, and the next byte is escaped.
    InEscape,
    /// In a number that is the value of an id; other numbers are skipped.
    InNumber,
}

impl Scanner {
    /// Takes the next bytes of the message.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) {
        while !self.is_closed && !bytes.is_empty() {
            bytes = match self.position {
                Position::BetweenTokens => self.read_between_tokens(bytes),
                Position::InString => self.read_string(bytes),
                Position::InEscape => self.read_escape(bytes),
                Position::InNumber => self.read_number(bytes),
            };
        }
    }

    /// Returns the parts that were found so far.
    pub(crate) fn salvaged(&self) -> Salvaged {
        Salvaged {
            id: self.id.clone(),
            is_certain: self.id.is_some() && !self.is_contradicted,
            is_answer: self.has_outcome && !self.has_method,
        }
    }

    fn read_between_tokens<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let [byte, rest @ ..] = bytes else { return &[] };
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => return rest,
            b'"' => {
                self.token.clear();
                self.position = Position::InString;
                return rest;
            }
            b':' if self.may_be_name => {
                self.is_id_value = self.depth == 1 && self.note_member();
                self.may_be_name = false;
                return rest;
            }
            b'-' | b'0'..=b'9' if self.is_id_value => {
                self.token.clear();
                self.position = Position::InNumber;
                return bytes;
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.is_closed = self.depth == 1;
                self.depth = self.depth.saturating_sub(1);
            }
            _ => {}
        }
        self.is_id_value = false;
        self.may_be_name = false;
        rest
    }

    /// Notes the name of a member of the outermost object; returns whether it is `id`.
    fn note_member(&mut self) -> bool {
        match self.token.bytes() {
            Some(b"id") => return true,
            Some(b"method") => self.has_method = true,
            Some(b"result" | b"error") => self.has_outcome = true,
            _ => {}
        }
        false
    }

    fn read_string<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len());
        let (piece, rest) = bytes.split_at(end);
        self.token.push(piece);
        let [byte, rest @ ..] = rest else { return rest };
        if *byte == b'\\' {
            self.token.push(b"\\");
            self.position = Position::InEscape;
            return rest;
        }
        self.position = Position::BetweenTokens;
        if self.is_id_value {
            self.is_id_value = false;
            self.note_id(self.token.bytes().and_then(string_id));
        } else {
            self.may_be_name = true;
        }
        rest
    }

    fn read_escape<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (escaped, rest) = bytes.split_at(bytes.len().min(1));
        self.token.push(escaped);
        self.position = Position::InString;
        rest
    }

    /// Reads a number. It ends at the first byte that cannot belong to it, so a number that is cut off never counts as
    /// complete.
    fn read_number<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let end = bytes.iter().position(|byte| !is_number_byte(*byte));
        let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
        self.token.push(piece);
        if end.is_some() {
            self.position = Position::BetweenTokens;
            self.is_id_value = false;
            self.note_id(self.token.bytes().and_then(number_id));
        }
        rest
    }

    fn note_id(&mut self, new_id: Option<Id>) {
        if new_id.is_some() {
            self.is_contradicted |= self.id.is_some() && self.id != new_id;
            self.id = new_id;
        }
    }
}

fn is_number_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn number_id(digits: &[u8]) -> Option<Id> {
    let digits = std::str::from_utf8(digits).ok()?;
    let number = digits.parse().ok().or_else(|| integer_of(digits.parse().ok()?))?;
    Some(Id::Number(number))
}

/// Returns the id from the text between two quotes, in which escapes are not decoded yet.
fn string_id(text: &[u8]) -> Option<Id> {
    let text = std::str::from_utf8(text).ok()?;
    if !text.contains('\\') {
        return Some(Id::String(text.into()));
    }
    serde_json::from_str(&format!("\"{text}\"")).ok().map(Id::String)
}

/// The first bytes of a string or number.
#[derive(Debug, Default)]
struct Token {
    first_bytes: Vec<u8>,
    /// Whether there were more bytes than [`TOKEN_LIMIT`].
    is_too_long: bool,
}

impl Token {
    fn clear(&mut self) {
        self.first_bytes.clear();
        self.is_too_long = false;
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = TOKEN_LIMIT - self.first_bytes.len();
        self.is_too_long |= bytes.len() > room;
        self.first_bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Returns the whole token, unless it was too long to be stored.
    fn bytes(&self) -> Option<&[u8]> {
        (!self.is_too_long).then_some(&self.first_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is left of a broken answer with this id.
    fn answer(id: i64) -> Salvaged {
        Salvaged { id: Some(Id::Number(id)), is_certain: true, is_answer: true }
    }

    /// What is left of a broken answer whose id may be another one.
    fn doubtful_answer(id: impl Into<Option<i64>>) -> Salvaged {
        Salvaged { id: id.into().map(Id::Number), is_certain: false, is_answer: true }
    }

    /// What is left of a broken message with this id that may not be an answer.
    fn message(id: i64) -> Salvaged {
        Salvaged { id: Some(Id::Number(id)), is_certain: true, is_answer: false }
    }

    const NOTHING: Salvaged = Salvaged { id: None, is_certain: false, is_answer: false };

    #[test]
    fn the_id_of_a_broken_answer_is_found_wherever_it_stands() {
        let table: &[(&str, Salvaged)] = &[
            // damage inside of one value
            (r#"{"jsonrpc":"2.0","id":7,"result":{"text":"\uZZZZ"}}"#, answer(7)),
            (r#"{"result":{"text":"\uZZZZ","id":3},"jsonrpc":"2.0","id":7}"#, answer(7)),
            (r#"{"result": tru, "id" : -7 , "jsonrpc":"2.0"}"#, answer(-7)),
            (r#"{"error":{"code":01,"message":'x'},"id":7}"#, answer(7)),
            (r#"{"id":7e0,"result":1e400}"#, answer(7)),
            // members that contradict each other
            (r#"{"id":7,"id":7,"result":{}}"#, answer(7)),
            (r#"{"id":7,"id":8,"result":{}}"#, doubtful_answer(8)),
            (r#"{"id":7,"method":"x","result":{}}"#, message(7)),
            // a cut
            (r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"ty"#, answer(7)),
            (r#"{"jsonrpc":"2.0","id":7,"#, message(7)),
            (r#"{"jsonrpc":"2.0","result":{},"id":7"#, doubtful_answer(None)),
            // what disturbs the scanner: a stray quote, a missing bracket, a batch
            (r#"{"result":{"text":"say "hi"},"id":7}"#, doubtful_answer(7)),
            (r#"{"result":[[1],"id":7}"#, doubtful_answer(7)),
            (r#"[{"id":6,"result":{}},{"id":7,"result":{]"#, doubtful_answer(7)),
            // nothing to find, so nothing is taken from the values
            (r#"{"jsonrpc":"2.0","method":"x","params":{"id":7},}"#, NOTHING),
            (r#"{"result":{"id":7},"error":{"id":8}}"#, doubtful_answer(None)),
            (r#"{"id":null,"error":{"id":8},}"#, doubtful_answer(None)),
            (r#"{"id":1.5,"result":{}}"#, doubtful_answer(None)),
            (r#"{"x":"id","result":{}}"#, doubtful_answer(None)),
            ("listening", NOTHING),
            ("", NOTHING),
            // two messages on one line: the first one counts
            (r#"{"id":7,"result":{}}{"id":8,"result":{}}"#, answer(7)),
        ];
        for (message, expected) in table {
            assert_eq!(&salvage(message.as_bytes()), expected, "{message}");
        }
    }

    #[test]
    fn a_string_id_is_decoded_and_one_that_is_too_long_is_left_alone() {
        let of = |message: &str| salvage(message.as_bytes()).id;
        assert_eq!(of(r#"{"id":"a\"\u0041","result":}"#), Some(Id::String("a\"A".into())));
        let long = |length: usize| format!(r#"{{"id":"{}","result":}}"#, "x".repeat(length));
        assert_eq!(of(&long(TOKEN_LIMIT)), Some(Id::String("x".repeat(TOKEN_LIMIT).into())));
        assert_eq!(of(&long(TOKEN_LIMIT + 1)), None);
    }

    #[test]
    fn only_an_answer_names_a_call() {
        assert_eq!(answer(7).answered_request(), Some(7));
        assert_eq!(message(7).answered_request(), None);
        assert_eq!(doubtful_answer(None).answered_request(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = salvage(&bytes);
        }

        #[test]
        fn a_split_input_gives_the_same_result(
            text in r#"(\{|\}|\[|\]|"id"|"result"|"method"|"|:|,|17|-1|\\|"x\\"y"|null| ){0,40}"#,
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut full = Scanner::default();
            full.feed(text.as_bytes());
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let mut pieces = Scanner::default();
            for cut in cuts.windows(2) {
                pieces.feed(&text.as_bytes()[cut[0]..cut[1]]);
            }
            prop_assert_eq!(pieces.salvaged(), full.salvaged());
        }

        #[test]
        fn damage_inside_of_a_string_never_hides_the_id(
            id in any::<i64>(),
            junk in proptest::collection::vec(any::<u8>(), 0..50),
            last in any::<bool>(),
        ) {
            // Anything that does not end the string.
            let junk: Vec<u8> = junk.into_iter().filter(|byte| !matches!(byte, b'"' | b'\\')).collect();
            let (first, then) = match last {
                true => (String::new(), format!(",\"id\":{id}")),
                false => (format!("\"id\":{id},"), String::new()),
            };
            let message = [b"{", first.as_bytes(), b"\"result\":\"", &junk, b"\"", then.as_bytes(), b"}"].concat();
            prop_assert_eq!(salvage(&message), Salvaged { id: Some(Id::Number(id)), is_certain: true, is_answer: true });
        }
    }
}
