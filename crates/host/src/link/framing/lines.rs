//! Splits an untrusted byte stream into lines: over stdio, each MCP message is one line.
//!
//! A server may send endless lines, lines of gigabytes, or gigabytes without a line end. The limit for one line bounds
//! the memory. A longer line is read to its end and dropped, and the next line is read as usual. Of a dropped line,
//! only the length and the id are stored, so that the host can fail the call that the line answers.
//!
//! This module finds lines; [`envelope`](super::envelope) reads them.

use std::{fmt, io};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use memchr::{memchr, memrchr};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::coop::consume_budget,
};

use crate::link::framing::envelope::{BOM, Salvaged, Scanner};

/// How many bytes of capacity are reserved for reading when the buffer has almost no free capacity.
const RESERVED_CAPACITY: usize = 16 * 1024;

/// If the free capacity is below this, in bytes, more is reserved before reading.
const MIN_FREE_CAPACITY: usize = 4 * 1024;

/// The most bytes of one read, so that few bytes follow the end of a long line in the buffer.
const MAX_READ: usize = 64 * 1024;

/// A buffer larger than this, in bytes, is released together with the line that made it grow.
const MAX_KEPT_CAPACITY: usize = 64 * 1024;

/// How many times the limit a line may reach before it is reported as [`Line::Endless`].
const ENDLESS_FACTOR: u64 = 64;

/// An item of a stream of lines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// A line within the limit. The line feed, a carriage return before it and a byte order mark at the start of the
    /// stream are removed. Never empty or blank.
    ///
    /// The bytes share the read buffer, so the whole buffer lives as long as they do (64 KiB or the length of the
    /// line).
    Full(Bytes),
    /// A line over the limit has ended. It is dropped; later lines are not affected.
    TooLong {
        /// The length of the line.
        bytes: u64,
        /// The parts that could be recovered, such as the id of the request that the line answers.
        salvaged: Salvaged,
    },
    /// A line has grown to 64 times the limit and has not ended. (While a [larger limit](LargerLimit) applies, the line
    /// must have grown to twice that limit as well.) Reported once per line; the caller can continue to read, but
    /// should close the stream.
    Endless {
        /// The length of the line so far.
        bytes: u64,
        /// The parts that could be recovered so far.
        salvaged: Salvaged,
    },
    /// The stream ended in the middle of a line, which is dropped. This is the last item.
    Cut {
        /// How many bytes of the line were read.
        bytes: u64,
    },
}

/// Reads [`Line`]s from `R`, which may send any bytes.
///
/// Uses 16 KiB of memory while idle. While a long line arrives, the capacity of the buffer is the length of the line,
/// rounded up to a power of two. At most the current limit and 64 KiB of it are used.
pub(crate) struct Lines<R> {
    reader: R,
    /// The bytes that have been read and not yet been returned or dropped.
    buffer: BytesMut,
    /// The number of bytes at the start of the buffer that contain no line feed.
    searched_bytes: usize,
    /// The largest capacity of the current buffer so far.
    largest_capacity: usize,
    /// The most bytes of a line.
    limit: usize,
    /// The larger limit that may apply for a time.
    larger_limit: Option<LargerLimit>,
    /// Whether no line has ended yet, so that a byte order mark may still come or be in the buffer.
    at_start: bool,
    /// The current line, if it is over the limit; its bytes are scanned and dropped.
    overlong: Option<OverlongLine>,
}

/// Returns the larger limit, while one applies.
pub(crate) type LargerLimit = Box<dyn Fn() -> Option<usize> + Send>;

/// A line that is being dropped.
#[derive(Default)]
struct OverlongLine {
    bytes: u64,
    scanner: Scanner,
    /// Whether [`Line::Endless`] has reported this line.
    is_reported: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    /// Reads lines of at most `limit` bytes each, without the line feed.
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        let buffer = BytesMut::new();
        Self {
            reader,
            buffer,
            searched_bytes: 0,
            largest_capacity: 0,
            limit,
            larger_limit: None,
            at_start: true,
            overlong: None,
        }
    }

    /// Sets a larger limit, which applies whenever `larger_limit` returns one.
    pub(crate) fn with_larger_limit(self, larger_limit: LargerLimit) -> Self {
        Self { larger_limit: Some(larger_limit), ..self }
    }

    /// Returns whether a line of `length` bytes is over the current limit.
    fn exceeds_limit(&self, length: usize) -> bool {
        length > self.limit && self.current_larger_limit().is_none_or(|limit| length > limit)
    }

    fn current_larger_limit(&self) -> Option<usize> {
        self.larger_limit.as_ref().and_then(|limit| limit())
    }

    /// Returns the length so far of the unfinished line, including dropped bytes.
    fn unfinished_length(&self) -> u64 {
        self.overlong.as_ref().map_or(self.buffer.len() as u64, |line| line.bytes)
    }

    /// Returns the next line; `None` at the end of the stream, and from then on.
    ///
    /// Cancel safe: dropping the future loses nothing, so it may be one arm of a `select!`.
    ///
    /// # Errors
    /// The errors of the reader. A bad line is never an error.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            // Without this, a flood of bytes without lines leaves no time for other tasks.
            consume_budget().await;
            self.reserve_capacity();
            let bytes_read = self.reader.read_buf(&mut (&mut self.buffer).limit(MAX_READ)).await?;
            if bytes_read == 0 {
                return Ok(self.take_unfinished_line());
            }
        }
    }

    /// Returns the next line of the buffer, if it contains the end of one.
    fn take_line(&mut self) -> Option<Line> {
        self.skip_blank_lines();
        while let Some(offset) = memchr(b'\n', self.buffer.get(self.searched_bytes..)?) {
            let line = self.buffer.split_to(self.searched_bytes + offset + 1);
            self.searched_bytes = 0;
            let line = self.end_line(line);
            if line.is_some() {
                return line;
            }
            self.skip_blank_lines();
        }
        self.searched_bytes = self.buffer.len();
        if self.overlong.is_some() || self.exceeds_limit(self.buffer.len()) { self.drop_buffer() } else { None }
    }

    /// Drops all blank lines at the start of the buffer together: dropping millions of them one by one takes seconds.
    fn skip_blank_lines(&mut self) {
        if self.overlong.is_some() || self.searched_bytes > 0 {
            return;
        }
        loop {
            // No line in this window is over the limit.
            let window = &self.buffer[..self.buffer.len().min(self.limit)];
            let blank_bytes = window.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(window.len());
            let Some(last_line_feed) = memrchr(b'\n', &window[..blank_bytes]) else { return };
            self.buffer.advance(last_line_feed + 1);
            self.at_start = false;
        }
    }

    /// Returns the line in bytes that end with a line feed; `None` if the line is blank.
    fn end_line(&mut self, mut line: BytesMut) -> Option<Line> {
        line.truncate(line.len() - 1);
        if self.largest_capacity > MAX_KEPT_CAPACITY {
            self.replace_buffer();
        }
        let at_start = std::mem::take(&mut self.at_start);
        if self.overlong.is_some() || self.exceeds_limit(line.len()) {
            let mut overlong = self.overlong.take().unwrap_or_default();
            overlong.scan(&line);
            return Some(Line::TooLong { bytes: overlong.bytes, salvaged: overlong.scanner.salvaged() });
        }
        if at_start && line.starts_with(BOM) {
            line.advance(BOM.len());
        }
        if line.ends_with(b"\r") {
            line.truncate(line.len() - 1);
        }
        (!line.trim_ascii().is_empty()).then(|| Line::Full(line.freeze()))
    }

    /// Drops the buffered part of a line that is over the limit.
    fn drop_buffer(&mut self) -> Option<Line> {
        let larger_limit = self.current_larger_limit().unwrap_or(0) as u64;
        let overlong = self.overlong.get_or_insert_default();
        overlong.scan(&self.buffer);
        let endless_limit = ENDLESS_FACTOR.saturating_mul(self.limit as u64).max(larger_limit.saturating_mul(2));
        let is_newly_endless = overlong.bytes > endless_limit && !overlong.is_reported;
        overlong.is_reported |= is_newly_endless;
        let line =
            is_newly_endless.then(|| Line::Endless { bytes: overlong.bytes, salvaged: overlong.scanner.salvaged() });
        self.searched_bytes = 0;
        self.buffer.clear();
        if self.largest_capacity > MAX_KEPT_CAPACITY {
            self.replace_buffer();
        }
        line
    }

    /// Returns the last line of the stream, if it ends without a line feed.
    fn take_unfinished_line(&mut self) -> Option<Line> {
        let bytes = self.unfinished_length();
        self.overlong = None;
        self.searched_bytes = 0;
        self.buffer.clear();
        (bytes > 0).then_some(Line::Cut { bytes })
    }

    /// Makes sure that the buffer has free capacity for the next read.
    fn reserve_capacity(&mut self) {
        if self.buffer.capacity() - self.buffer.len() < MIN_FREE_CAPACITY {
            // Double the capacity, so that a long line is not copied again for every 16 KiB of it.
            self.buffer.reserve(self.buffer.len().max(RESERVED_CAPACITY));
            self.largest_capacity = self.largest_capacity.max(self.buffer.capacity());
        }
    }

    /// Moves the bytes after a long line to a new buffer, so that the large buffer is freed together with that line. At
    /// most [`MAX_READ`] bytes are moved, because the end of the line was in the last read.
    fn replace_buffer(&mut self) {
        let mut buffer = BytesMut::with_capacity(self.buffer.len().max(RESERVED_CAPACITY));
        buffer.extend_from_slice(&self.buffer);
        self.largest_capacity = buffer.capacity();
        self.buffer = buffer;
    }
}

impl OverlongLine {
    /// Counts and scans the next bytes of the line, which are then dropped.
    fn scan(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.scanner.feed(bytes);
    }
}

/// Prints neither the reader, which need not be `Debug`, nor content.
impl<R> fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("buffered", &self.buffer.len())
            .field("limit", &self.limit)
            .field("overlong", &self.overlong.as_ref().map(|line| line.bytes))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        pin::Pin,
        task::{Context, Poll},
    };

    use proptest::prelude::*;
    use tokio::io::{AsyncWriteExt, ReadBuf};

    use super::*;
    use crate::link::framing::envelope::Id;

    /// Gives one piece per read, then the end.
    #[derive(Debug)]
    struct Pieces(VecDeque<Vec<u8>>);

    impl Pieces {
        fn of(pieces: &[&[u8]]) -> Self {
            Self(pieces.iter().map(|piece| piece.to_vec()).collect())
        }
    }

    impl AsyncRead for Pieces {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            if let Some(mut piece) = self.0.pop_front() {
                let rest = piece.split_off(piece.len().min(out.remaining()));
                out.put_slice(&piece);
                if !rest.is_empty() {
                    self.0.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// Sends the same bytes forever, and counts.
    #[derive(Debug)]
    struct Forever(u64);

    impl AsyncRead for Forever {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let piece = [b'x'; 1024];
            let piece = &piece[..out.remaining().min(1024)];
            out.put_slice(piece);
            self.0 += piece.len() as u64;
            Poll::Ready(Ok(()))
        }
    }

    fn read_all(limit: usize, pieces: &[&[u8]]) -> Vec<Line> {
        block_on(async {
            let mut lines = Lines::new(Pieces::of(pieces), limit);
            let mut all = Vec::new();
            while let Some(line) = lines.next().await.unwrap() {
                all.push(line);
            }
            assert_eq!(lines.next().await.unwrap(), None, "the end is the end");
            all
        })
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn full(text: &'static str) -> Line {
        Line::Full(Bytes::from_static(text.as_bytes()))
    }

    fn too_long(bytes: u64, id: impl Into<Option<i64>>) -> Line {
        let id: Option<Id> = id.into().map(Id::Number);
        Line::TooLong { bytes, salvaged: Salvaged { is_certain: id.is_some(), is_answer: id.is_some(), id } }
    }

    #[test]
    fn lines_are_emitted_one_by_one_for_any_chunking() {
        assert_eq!(read_all(99, &[b"one\ntwo\n", b"th", b"r", b"ee\n"]), [full("one"), full("two"), full("three")]);
        assert_eq!(read_all(99, &[]), []);
    }

    #[test]
    fn carriage_returns_blank_lines_and_a_byte_order_mark_are_left_out() {
        assert_eq!(
            read_all(99, &[b"\xef\xbb", b"\xbfone\r\n", b"\r\n\n  \t\n", b"\n\n two \r\n"]),
            [full("one"), full(" two ")]
        );
        assert_eq!(read_all(99, &[b"one\n\xef\xbb\xbftwo\n"]), [full("one"), full("\u{feff}two")], "only at the start");
        assert_eq!(read_all(99, &[b"a\rb\r\r\n"]), [full("a\rb\r")], "only the last one belongs to the line feed");
    }

    #[test]
    fn a_flood_of_blank_lines_leaves_time_for_other_tasks() {
        block_on(async {
            let pieces: Vec<Vec<u8>> = (0..1_000).map(|_| b"\r\n".repeat(4_000)).collect();
            let mut lines = Lines::new(Pieces(pieces.into()), 99);
            let mut turns = 0;
            let rest = async {
                loop {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                line = lines.next() => assert_eq!(line.unwrap(), None),
                () = rest => {}
            }
            assert!(turns > 3, "the others had {turns} turns");
        });
    }

    #[test]
    fn a_line_over_the_limit_fails_only_that_line() {
        assert_eq!(read_all(5, &[b"12345\n123456\n12", b"345\n"]), [full("12345"), too_long(6, None), full("12345")]);
        assert_eq!(read_all(5, &[b"1234", b"5678", b"9012", b"34\nok\n"]), [too_long(14, None), full("ok")]);
    }

    #[test]
    fn a_line_is_dropped_as_soon_as_it_is_over_the_limit() {
        block_on(async {
            let (mut server, client) = tokio::io::duplex(64);
            let mut lines = Lines::new(client, 5);
            for (sent, kept) in [(b"12345".as_slice(), 5), (b"6", 0), (b"7", 0)] {
                server.write_all(sent).await.unwrap();
                tokio::select! {
                    biased;
                    line = lines.next() => panic!("{line:?}"),
                    () = std::future::ready(()) => {}
                }
                assert_eq!(lines.buffer.len(), kept);
            }
            server.write_all(b"\n").await.unwrap();
            assert_eq!(lines.next().await.unwrap(), Some(too_long(7, None)));
        });
    }

    #[test]
    fn the_id_of_an_answer_over_the_limit_is_found_at_either_end() {
        let text = "x".repeat(300_000);
        let first = format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":\"{text}\"}}\n");
        let last = format!("{{\"result\":\"{text}\",\"jsonrpc\":\"2.0\",\"id\":8}}\n");
        let expected = [too_long(first.len() as u64 - 1, 7), too_long(last.len() as u64 - 1, 8), full("ok")];
        assert_eq!(read_all(10_000, &[first.as_bytes(), last.as_bytes(), b"ok\n"]), expected);
        assert_eq!(read_all(200_000, &[first.as_bytes(), last.as_bytes(), b"ok\n"]), expected);
    }

    #[test]
    fn a_stream_that_ends_within_a_line_is_an_error() {
        assert_eq!(read_all(99, &[b"one\ntw"]), [full("one"), Line::Cut { bytes: 2 }]);
        assert_eq!(read_all(5, &[b"1234567", b"89"]), [Line::Cut { bytes: 9 }]);
    }

    #[test]
    fn an_endless_line_is_an_error_and_is_never_stored() {
        block_on(async {
            let mut lines = Lines::new(Forever(0), 100_000);
            let Some(Line::Endless { bytes, .. }) = lines.next().await.unwrap() else { panic!("not endless") };
            assert!((6_400_000..6_600_000).contains(&bytes), "{bytes}");
            assert_eq!(lines.unfinished_length(), lines.reader.0);
            assert!(lines.buffer.capacity() <= MAX_KEPT_CAPACITY);
        });
    }

    #[test]
    fn an_id_is_known_of_a_line_that_never_ends() {
        let mut pieces: Vec<&[u8]> = vec![br#"{"jsonrpc":"2.0","id":7,"result":""#];
        pieces.extend([b"0123456789".as_slice(); 200]);
        let lines = read_all(10, &pieces);
        let [Line::Endless { salvaged, .. }, Line::Cut { bytes: 2_034 }] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(salvaged.answered_request(), Some(7));
    }

    #[test]
    fn a_large_line_does_not_leave_a_large_buffer() {
        block_on(async {
            let large = [vec![b'x'; 8 << 20], b"\nsmall\n".to_vec()].concat();
            let mut lines = Lines::new(large.as_slice(), 8 << 20);
            assert!(matches!(lines.next().await.unwrap(), Some(Line::Full(line)) if line.len() == 8 << 20));
            assert!(lines.buffer.capacity() <= MAX_KEPT_CAPACITY, "{}", lines.buffer.capacity());
            assert_eq!(lines.next().await.unwrap(), Some(full("small")));

            let dropped = [vec![b'x'; (8 << 20) + 1], b"\nsmall\n".to_vec()].concat();
            let mut lines = Lines::new(dropped.as_slice(), 8 << 20);
            assert_eq!(lines.next().await.unwrap(), Some(too_long((8 << 20) + 1, None)));
            assert!(lines.buffer.capacity() <= MAX_KEPT_CAPACITY, "{}", lines.buffer.capacity());
        });
    }

    #[test]
    fn short_lines_share_one_buffer() {
        block_on(async {
            let text = "{\"jsonrpc\":\"2.0\"}\n".repeat(100_000);
            let mut lines = Lines::new(text.as_bytes(), 8 << 20);
            let mut largest = 0;
            while let Some(line) = lines.next().await.unwrap() {
                assert_eq!(line, full("{\"jsonrpc\":\"2.0\"}"));
                largest = largest.max(lines.buffer.capacity());
            }
            assert!(largest <= 2 * RESERVED_CAPACITY, "{largest}");
        });
    }

    #[test]
    fn dropping_the_future_loses_nothing() {
        block_on(async {
            let (mut server, client) = tokio::io::duplex(64);
            let mut lines = Lines::new(client, 99);
            for piece in [b"on".as_slice(), b"e\ntw", b"o"] {
                server.write_all(piece).await.unwrap();
                while let Some(line) = tokio::select! {
                    biased;
                    line = lines.next() => line.unwrap(),
                    () = std::future::ready(()) => None,
                } {
                    assert_eq!(line, full("one"));
                }
            }
            assert_eq!(lines.unfinished_length(), 3);
            server.write_all(b"\n").await.unwrap();
            assert_eq!(lines.next().await.unwrap(), Some(full("two")));
        });
    }

    #[test]
    fn an_error_of_the_reader_is_passed_on_and_loses_nothing() {
        struct Broken(bool);
        impl AsyncRead for Broken {
            fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                self.0 = !self.0;
                out.put_slice(if self.0 { b"hal" } else { b"f\n" });
                Poll::Ready(if self.0 { Ok(()) } else { Err(io::ErrorKind::ConnectionReset.into()) })
            }
        }
        block_on(async {
            let mut lines = Lines::new(Broken(false), 99);
            assert_eq!(lines.next().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(lines.unfinished_length(), 3);
        });
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'\n'), 2 => Just(b'\r'), 7 => any::<u8>()], 0..120),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
            limit in 0_usize..20,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
            let pieces: Vec<&[u8]> = pieces.filter(|piece| !piece.is_empty()).collect();
            let without_endless = |lines: Vec<Line>| -> Vec<Line> {
                // Whether a line is reported as endless before it ends depends on the pieces.
                lines.into_iter().filter(|line| !matches!(line, Line::Endless { .. })).collect()
            };
            prop_assert_eq!(without_endless(read_all(limit, &pieces)), without_endless(read_all(limit, &[&bytes])));
        }

        #[test]
        fn lines_equal_those_of_a_plain_split(lines in proptest::collection::vec("[a-z{}\" ]{0,12}", 0..12)) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let expected: Vec<Line> = lines.into_iter()
                .filter(|line| !line.trim().is_empty())
                .map(|line| match line.len() {
                    ..=8 => Line::Full(Bytes::from(line)),
                    bytes => too_long(bytes as u64, None),
                })
                .collect();
            let read: Vec<Line> = read_all(8, &[text.as_bytes()]);
            prop_assert_eq!(read, expected);
        }
    }
}
