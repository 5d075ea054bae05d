//! A gzip body that is small on the wire and large once unpacked, written bit by bit (RFC 1951, RFC 1952).

/// Returns a gzip stream that unpacks to about this many spaces. The stream has less than a hundredth of that length.
///
/// It is one block with fixed Huffman codes: a space, then the pair "copy 258 bytes from 1 byte back" as often as
/// needed. The checksum at the end is wrong, but a reader notices that only after it has unpacked everything.
pub(super) fn bomb(unpacked: u64) -> Vec<u8> {
    // The header: magic number, deflate, no flags, no time, an unknown system.
    let mut bits = Bits { bytes: vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255], pending: 0, count: 0 };
    bits.push(0b1, 1); // The last block.
    bits.push(0b01, 2); // Fixed codes.
    bits.push_code(0x30 + 0x20, 8); // The literal 0x20, a space.
    for _ in 0..unpacked / 258 {
        bits.push_code(0b1100_0101, 8); // Length 258.
        bits.push_code(0, 5); // Distance 1.
    }
    bits.push_code(0, 7); // End of the block.
    let mut bytes = bits.finish();
    bytes.extend([0; 8]); // The checksum and the length, both wrong.
    bytes
}

/// A writer of single bits.
struct Bits {
    bytes: Vec<u8>,
    /// The bits that do not fill a byte yet, and how many they are.
    pending: u32,
    count: u32,
}

impl Bits {
    /// Appends the lowest bits of a number, least significant first.
    fn push(&mut self, value: u32, bits: u32) {
        self.pending |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push((self.pending & 0xff) as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    /// Appends a Huffman code, most significant bit first.
    fn push_code(&mut self, code: u32, bits: u32) {
        self.push(code.reverse_bits() >> (32 - bits), bits);
    }

    fn finish(mut self) -> Vec<u8> {
        // Completes the last byte.
        self.push(0, 7);
        self.bytes
    }
}
