//! Reads a body from a stream. Keeps the state of the framing, not the data.

use super::limits::BodyLimits;
use super::trailer::TrailerSection;
use crate::Malformed;
use crate::bytes::{hex_digit, is_value_byte};
use crate::http1::framing::Framing;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyPart<'a> {
    /// The input is used up.
    NeedMore,
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The body has ended; the rest of the input belongs to the next message.
    End,
}

/// Reads one body.
///
/// ```text
///              ┌──────────────────────────────────────┐
///              v                                      │
/// chunked: Size ─;─> Extension ─CR─> SizeEnd ─LF─> Data ─> DataEnd (CR, LF)
///              └─────────CR────────────^  └─0─> Trailer ─empty line─> Done
/// ```
#[derive(Debug)]
pub struct BodyReader {
    state: State,
    /// `extension_bytes` is counted down here: an idle connection has room for a reader.
    limits: BodyLimits,
    /// Boxed and created with the first trailer: few bodies have any, and every idle connection has a reader.
    trailers: Option<Box<TrailerSection>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    UntilClose,
    Size {
        digits: u8,
        size: u64,
    },
    Extension {
        line: u32,
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        bytes_left: u64,
    },
    DataEnd {
        carriage_return: bool,
    },
    Trailer,
    /// The empty line that ends a body without trailers.
    LastLine,
    Done,
}

/// The start of a chunk line.
const CHUNK_LINE: State = State::Size { digits: 0, size: 0 };

/// Bytes of data that allow one more byte of chunk lines with extensions.
const DATA_PER_EXTENSION: u64 = 16;

/// "recipients MUST anticipate potentially large hexadecimal numerals and prevent parsing errors due to integer
/// conversion overflows" (RFC 9112 §7.1): this many digits are exactly 64 bits.
const DIGITS: u8 = 16;

impl BodyReader {
    /// A reader at the start of a body with this framing.
    #[inline]
    pub fn new(framing: Framing, limits: BodyLimits) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(length) => State::Length(length),
            Framing::Chunked => CHUNK_LINE,
            Framing::UntilClose => State::UntilClose,
        };
        BodyReader { state, limits, trailers: None }
    }

    /// The next part of the body, and how many bytes of the input it used, framing included. `NeedMore` uses all of it.
    /// After an error the connection is unusable.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, BodyPart<'a>), Malformed> {
        match self.state {
            State::Done => Ok((0, BodyPart::End)),
            _ if input.is_empty() => Ok((0, BodyPart::NeedMore)),
            State::Length(left) => {
                let (data, rest) = split(input, left);
                self.state = if rest == 0 { State::Done } else { State::Length(rest) };
                Ok((data.len(), BodyPart::Data(data)))
            }
            State::UntilClose => Ok((input.len(), BodyPart::Data(input))),
            _ => self.next_chunk(input),
        }
    }

    fn next_chunk<'a>(&mut self, input: &'a [u8]) -> Result<(usize, BodyPart<'a>), Malformed> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok((at, BodyPart::End)),
                _ if at == input.len() => return Ok((at, BodyPart::NeedMore)),
                State::Data { bytes_left: left } => {
                    let (data, rest) = split(&input[at..], left);
                    self.state = if rest == 0 {
                        State::DataEnd { carriage_return: false }
                    } else {
                        State::Data { bytes_left: rest }
                    };
                    return Ok((at + data.len(), BodyPart::Data(data)));
                }
                state => self.state = self.step(state, input[at])?,
            }
            at += 1;
        }
    }

    /// Processes one byte of framing.
    #[inline]
    fn step(&mut self, state: State, byte: u8) -> Result<State, Malformed> {
        match (state, byte) {
            (State::Size { digits, size }, byte) => self.size_byte(digits, size, byte),
            (State::Extension { line, size }, b'\r') => self.end_extension(line, size),
            (State::Extension { line, size }, byte) => {
                if line >= u32::from(self.limits.chunk_line_bytes) || !is_value_byte(byte) {
                    return Err(Malformed::ChunkExtension);
                }
                Ok(State::Extension { line: line + 1, size })
            }
            (State::SizeEnd { size: 0 }, b'\n') => Ok(State::Trailer),
            (State::SizeEnd { size }, b'\n') => Ok(State::Data { bytes_left: size }),
            (State::DataEnd { carriage_return: false }, b'\r') => {
                Ok(State::DataEnd { carriage_return: true })
            }
            (State::DataEnd { carriage_return: true }, b'\n') => Ok(CHUNK_LINE),
            (State::Trailer, b'\r') if self.trailers.is_none() => Ok(State::LastLine),
            (State::LastLine, b'\n') => Ok(State::Done),
            (State::LastLine, _) => Err(Malformed::TrailerInvalid),
            (State::Trailer, byte) => {
                let trailers = self.trailers.get_or_insert_with(Box::default);
                let ended = trailers.take(byte, u32::from(self.limits.trailer_bytes))?;
                Ok(if ended { State::Done } else { State::Trailer })
            }
            _ => Err(Malformed::ChunkEnd),
        }
    }

    /// Ends a chunk line with extensions. Their total is limited: otherwise a client could make the proxy read a
    /// thousand bytes for each byte of data. Data increases the limit; the next chunk line follows it.
    fn end_extension(&mut self, line: u32, size: u64) -> Result<State, Malformed> {
        let remaining = self.limits.extension_bytes.checked_sub(line).ok_or(Malformed::ChunkExtension)?;
        let paid = u32::try_from(size / DATA_PER_EXTENSION).unwrap_or(u32::MAX);
        self.limits.extension_bytes = remaining.saturating_add(paid);
        Ok(State::SizeEnd { size })
    }

    /// Processes a byte of the size: no sign, no prefix, no white space (RFC 9112 §7.1.1 allows BWS before `;`, which
    /// lenient parsers may take for part of the number).
    #[inline]
    fn size_byte(&self, digits: u8, size: u64, byte: u8) -> Result<State, Malformed> {
        match (hex_digit(byte), byte) {
            (Some(digit), _) if digits < DIGITS => {
                Ok(State::Size { digits: digits + 1, size: size << 4 | u64::from(digit) })
            }
            (None, b'\r') if digits > 0 => Ok(State::SizeEnd { size }),
            (None, b';') if digits > 0 => Ok(State::Extension { line: u32::from(digits) + 1, size }),
            (None, b'\n') if digits > 0 => Err(Malformed::ChunkEnd),
            _ => Err(Malformed::ChunkSize),
        }
    }

    /// The stream has ended: valid for a body until close and for one that is complete.
    pub fn at_eof(&mut self) -> Result<(), Malformed> {
        match self.state {
            State::Done | State::UntilClose => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(Malformed::Truncated),
        }
    }

    /// Whether the body has ended.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Remaining bytes of a body with a length; 0 once any body is complete.
    #[inline]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// The trailer fields that may be forwarded, once the body is complete.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(|trailers| trailers.fields())
    }
}

/// The wanted part of the input, and how much is wanted after that.
#[inline]
fn split(input: &[u8], length: u64) -> (&[u8], u64) {
    let taken_bytes = usize::try_from(length).map_or(input.len(), |wanted| wanted.min(input.len()));
    (&input[..taken_bytes], length - taken_bytes as u64)
}
