//! gRPC-Web bodies: frames, the last of which has the trailers, optionally in base64.

/// Bytes passed to the sink at once.
const BLOCK: usize = 4096;

/// Bytes before a message: a flag and the length.
const PREFIX: u8 = 5;

/// The flag of a trailer frame.
const TRAILERS: u8 = 0x80;

/// Tracks frames across any split of the input.
#[derive(Clone, Copy, Debug, Default)]
struct FrameTracker {
    /// Bytes of the prefix read so far.
    bytes_seen: u8,
    /// Bytes of the message still to come, once its prefix is complete.
    bytes_left: u32,
}

impl FrameTracker {
    /// Advances to the end of a frame or of `data`. Returns the number of bytes, and whether a frame ended.
    fn take(&mut self, data: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while self.bytes_seen < PREFIX {
            let Some(&byte) = data.get(at) else { return (at, false) };
            // The flag is shifted out.
            self.bytes_left = self.bytes_left << 8 | u32::from(byte);
            self.bytes_seen += 1;
            at += 1;
        }
        let message = data.len() - at;
        match usize::try_from(self.bytes_left) {
            Ok(left) if left <= message => {
                *self = Self::default();
                (at + left, true)
            }
            _ => {
                self.bytes_left -= u32::try_from(message).unwrap_or(self.bytes_left);
                (data.len(), false)
            }
        }
    }
}

/// Converts messages to the body of a response.
#[derive(Clone, Debug)]
pub struct Encoder {
    frames: FrameTracker,
    text: Option<Base64Group>,
}

/// An incomplete group of three bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Base64Group {
    waiting: [u8; 3],
    count: usize,
}

impl Encoder {
    /// For a base64 body or a binary one.
    #[must_use]
    pub fn new(is_text: bool) -> Self {
        Self { frames: FrameTracker::default(), text: is_text.then(Base64Group::default) }
    }

    /// Whether no frame is incomplete.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.frames.bytes_seen == 0
    }

    /// How many message bytes fit into `room` bytes of output; at least 1.
    #[must_use]
    pub fn room(&self, room: usize) -> usize {
        // A frame without a message has five bytes, which become eight characters.
        if self.text.is_some() { (room / 2).max(1) } else { room }
    }

    /// Passes the converted `data` to `sink`. In base64, the end of each frame is padded, so that nothing is held back.
    ///
    /// # Errors
    /// The error of `sink`.
    pub fn write<E>(&mut self, data: &[u8], mut sink: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if data.is_empty() {
            return Ok(());
        }
        let mut rest = data;
        let mut block = OutputBlock::default();
        while !rest.is_empty() {
            let (count, ended) = self.frames.take(rest);
            if let Some(text) = &mut self.text {
                text.write(&rest[..count], |group, bytes| block.push(&digits(group, bytes), &mut sink))?;
                if ended {
                    text.pad(|group, bytes| block.push(&digits(group, bytes), &mut sink))?;
                }
            }
            rest = &rest[count..];
        }
        if self.text.is_some() { block.flush(&mut sink) } else { sink(data) }
    }
}

impl Base64Group {
    fn write<E>(
        &mut self,
        data: &[u8],
        mut sink: impl FnMut([u8; 3], usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for &byte in data {
            self.waiting[self.count] = byte;
            self.count += 1;
            if self.count == 3 {
                self.count = 0;
                sink(self.waiting, 3)?;
            }
        }
        Ok(())
    }

    fn pad<E>(&mut self, mut sink: impl FnMut([u8; 3], usize) -> Result<(), E>) -> Result<(), E> {
        let count = std::mem::take(&mut self.count);
        if count == 0 {
            return Ok(());
        }
        self.waiting[count..].fill(0);
        sink(self.waiting, count)
    }
}

/// Collects output for a sink.
struct OutputBlock {
    bytes: [u8; BLOCK],
    count: usize,
}

impl Default for OutputBlock {
    fn default() -> Self {
        Self { bytes: [0; BLOCK], count: 0 }
    }
}

impl OutputBlock {
    fn push<E>(&mut self, chunk: &[u8], sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.count + chunk.len() > BLOCK {
            self.flush(sink)?;
        }
        self.bytes[self.count..self.count + chunk.len()].copy_from_slice(chunk);
        self.count += chunk.len();
        Ok(())
    }

    fn flush<E>(&mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        match std::mem::take(&mut self.count) {
            0 => Ok(()),
            count => sink(&self.bytes[..count]),
        }
    }
}

/// The four characters of a group with this many bytes (RFC 4648 §4).
fn digits(group: [u8; 3], bytes: usize) -> [u8; 4] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let [first, second, third] = group;
    let indices = [first >> 2, first << 4 | second >> 4, second << 2 | third >> 6, third];
    let mut digits = indices.map(|index| ALPHABET[usize::from(index & 63)]);
    digits[bytes + 1..].fill(b'=');
    digits
}

/// The body is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotBase64;

/// Decodes a base64 body, which may consist of several padded parts.
#[derive(Clone, Debug, Default)]
pub struct Decoder {
    bits: u32,
    /// Characters of the current group, including padding.
    chars_seen: u8,
    padding: u8,
}

impl Decoder {
    /// Whether the last group is complete: the body may end here.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.chars_seen == 0
    }

    /// Passes the decoded `data` to `sink`.
    ///
    /// # Errors
    /// The error of `sink`, or an error if the input is not base64.
    pub fn read<E: From<NotBase64>>(
        &mut self,
        data: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut block = OutputBlock::default();
        for &character in data {
            let value = match (value_of(character), character) {
                (Some(value), _) if self.padding == 0 => value,
                (None, b'=') if self.chars_seen >= 2 => {
                    self.padding += 1;
                    0
                }
                _ => return Err(NotBase64.into()),
            };
            self.bits = self.bits << 6 | u32::from(value);
            self.chars_seen += 1;
            if self.chars_seen == 4 {
                let [_, group @ ..] = self.bits.to_be_bytes();
                block.push(&group[..3 - usize::from(self.padding)], &mut sink)?;
                *self = Self::default();
            }
        }
        block.flush(&mut sink)
    }
}

const fn value_of(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Appends a trailer line.
pub fn trailer_line(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend(name.iter().map(u8::to_ascii_lowercase));
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The frame prefix of trailer lines.
#[must_use]
pub fn trailer_prefix(lines: &[u8]) -> [u8; PREFIX as usize] {
    let [first, second, third, fourth] = u32::try_from(lines.len()).unwrap_or(u32::MAX).to_be_bytes();
    [TRAILERS, first, second, third, fourth]
}
