//! A body out of a stream. Holds the place in the framing between two pieces of input, never the pieces.

use super::limits::BodyLimits;
use super::trailer::Trailers;
use crate::Malformed;
use crate::bytes::{hex_digit, is_value_byte};
use crate::http1::framing::Framing;

/// What a step found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The input is used up.
    NeedMore,
    /// Bytes of the body.
    Data(&'a [u8]),
    /// The body has ended; what follows in the input is the next message.
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
    /// What is left of `extension_bytes` is counted down here: an idle connection has room for a reader.
    limits: BodyLimits,
    /// Boxed and made when the first trailer comes: few bodies have any, and every idle connection has a reader.
    trailers: Option<Box<Trailers>>,
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
        left: u64,
    },
    DataEnd {
        carriage_return: bool,
    },
    Trailer,
    /// The empty line that ends a body without trailers.
    LastLine,
    Done,
}

/// Before the first digit of a chunk line.
const CHUNK_LINE: State = State::Size { digits: 0, size: 0 };

/// So many bytes of data pay for a byte of a chunk line with extensions.
const DATA_PER_EXTENSION: u64 = 16;

/// "recipients MUST anticipate potentially large hexadecimal numerals and prevent parsing errors due to
/// integer conversion overflows" (RFC 9112 §7.1): so many digits are exactly 64 bits.
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

    /// The next part of the body, and how many bytes of the input it took, framing included. `NeedMore`
    /// takes all of it. After an error the connection is of no use.
    #[inline]
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Part<'a>), Malformed> {
        match self.state {
            State::Done => Ok((0, Part::End)),
            _ if input.is_empty() => Ok((0, Part::NeedMore)),
            State::Length(left) => {
                let (data, rest) = split(input, left);
                self.state = if rest == 0 { State::Done } else { State::Length(rest) };
                Ok((data.len(), Part::Data(data)))
            }
            State::UntilClose => Ok((input.len(), Part::Data(input))),
            _ => self.next_chunk(input),
        }
    }

    fn next_chunk<'a>(&mut self, input: &'a [u8]) -> Result<(usize, Part<'a>), Malformed> {
        let mut at = 0;
        loop {
            match self.state {
                State::Done => return Ok((at, Part::End)),
                _ if at == input.len() => return Ok((at, Part::NeedMore)),
                State::Data { left } => {
                    let (data, rest) = split(&input[at..], left);
                    self.state = if rest == 0 {
                        State::DataEnd { carriage_return: false }
                    } else {
                        State::Data { left: rest }
                    };
                    return Ok((at + data.len(), Part::Data(data)));
                }
                state => self.state = self.step(state, input[at])?,
            }
            at += 1;
        }
    }

    /// One byte of framing.
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
            (State::SizeEnd { size }, b'\n') => Ok(State::Data { left: size }),
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

    /// A chunk line with extensions ends: they are bounded in all, because a byte of data in every chunk would let a
    /// client have a thousand read for it. Data pays for more of them: the next chunk line comes only behind it.
    fn end_extension(&mut self, line: u32, size: u64) -> Result<State, Malformed> {
        let left = self.limits.extension_bytes.checked_sub(line).ok_or(Malformed::ChunkExtension)?;
        let paid = u32::try_from(size / DATA_PER_EXTENSION).unwrap_or(u32::MAX);
        self.limits.extension_bytes = left.saturating_add(paid);
        Ok(State::SizeEnd { size })
    }

    /// A byte of the size: no sign, no prefix, no white space (RFC 9112 §7.1.1 has BWS before `;`, which
    /// lenient parsers take for a part of the number or not).
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

    /// The stream has ended: a clean end for a body that lasts until close and for one that is done.
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

    /// How many bytes of a body with a length are still to come; 0 when any body is done.
    #[inline]
    pub fn remaining(&self) -> Option<u64> {
        match self.state {
            State::Length(left) => Some(left),
            State::Done => Some(0),
            _ => None,
        }
    }

    /// The trailer fields that may be forwarded, once the body is done.
    pub fn trailers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.trailers.iter().flat_map(|trailers| trailers.fields())
    }
}

/// As much of the input as is wanted, and how much is wanted after that.
#[inline]
fn split(input: &[u8], wanted: u64) -> (&[u8], u64) {
    let taken = usize::try_from(wanted).map_or(input.len(), |wanted| wanted.min(input.len()));
    (&input[..taken], wanted - taken as u64)
}
