//! The client's unidirectional streams (RFC 9114 §6.2, RFC 9204 §4.2): their types and contents.

use bytes::Bytes;
use fairway_http2::abuse::Weight;
use quinn_proto::{Connection, StreamId};

use crate::code::{Code, Fault};
use crate::control::{ControlAction, ControlStream};
use crate::qpack::{self, DecoderInstruction};
use crate::shared::ConnectionShared;
use crate::transport::{self, StreamInput};
use crate::varint;

const CONTROL: u64 = 0x0;
const PUSH: u64 = 0x1;
const ENCODER: u64 = 0x2;
const DECODER: u64 = 0x3;

/// Bytes read from QUIC at once.
const READ: usize = 4 * 1024;

/// The longest decoder instruction: an integer of 62 bits.
const MAX_INSTRUCTION: usize = 10;

/// The purpose of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamPurpose {
    Control,
    Encoder,
    Decoder,
}

impl StreamPurpose {
    const ALL: [StreamPurpose; 3] = [StreamPurpose::Control, StreamPurpose::Encoder, StreamPurpose::Decoder];
}

/// A stream whose type was not received yet.
#[derive(Debug)]
struct UntypedStream {
    id: StreamId,
    bytes: [u8; 8],
    count: u8,
}

/// The client's unidirectional streams.
#[derive(Debug, Default)]
pub(crate) struct ClientUniStreams {
    untyped: Vec<UntypedStream>,
    /// The critical streams, by [`StreamPurpose`].
    critical: [Option<StreamId>; 3],
    control: ControlStream,
    /// Bytes of the control stream that were read and not processed.
    pending: Bytes,
    /// The start of a decoder instruction.
    acknowledgment: Vec<u8>,
}

impl ClientUniStreams {
    /// The client opened a stream.
    pub(crate) fn opened(&mut self, id: StreamId) {
        self.untyped.push(UntypedStream { id, bytes: [0; 8], count: 0 });
    }

    /// Reads a stream up to the next frame that requires an action; `None` if there is nothing more for now.
    pub(crate) fn read(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut ConnectionShared,
    ) -> Result<Option<ControlAction>, Fault> {
        let purpose = match self.purpose(id) {
            Some(purpose) => purpose,
            None => match self.read_type(quic, id, shared)? {
                Some(purpose) => purpose,
                None => return Ok(None),
            },
        };
        loop {
            if purpose == StreamPurpose::Control
                && let Some(request) = self.control.receive(&mut self.pending, shared)?
            {
                return Ok(Some(request));
            }
            match transport::read(quic, id, READ) {
                StreamInput::Bytes(bytes) => self.receive(purpose, bytes, shared)?,
                StreamInput::Blocked => return Ok(None),
                StreamInput::End | StreamInput::Reset(_) => return Err(closed_critical()),
            }
        }
    }

    fn purpose(&self, id: StreamId) -> Option<StreamPurpose> {
        StreamPurpose::ALL.into_iter().find(|purpose| self.critical[*purpose as usize] == Some(id))
    }

    fn receive(
        &mut self,
        purpose: StreamPurpose,
        bytes: Bytes,
        shared: &mut ConnectionShared,
    ) -> Result<(), Fault> {
        match purpose {
            StreamPurpose::Control => self.pending = bytes,
            StreamPurpose::Encoder => {
                let count = shared.qpack.receive(&bytes)?;
                shared.charge_instructions(count)?;
            }
            StreamPurpose::Decoder => self.acknowledgments(&bytes, shared)?,
        }
        Ok(())
    }

    /// Reads the type of a stream (RFC 9114 §6.2), byte by byte because what follows belongs to it.
    fn read_type(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        shared: &mut ConnectionShared,
    ) -> Result<Option<StreamPurpose>, Fault> {
        let Some(at) = self.untyped.iter().position(|untyped| untyped.id == id) else { return Ok(None) };
        loop {
            let untyped = &mut self.untyped[at];
            match transport::read(quic, id, 1) {
                StreamInput::Bytes(bytes) => {
                    untyped.bytes[usize::from(untyped.count)] = bytes[0];
                    untyped.count += 1;
                }
                StreamInput::Blocked => return Ok(None),
                // "A receiver MUST tolerate unidirectional streams being closed or reset prior to the reception of the
                // unidirectional stream header."
                StreamInput::End | StreamInput::Reset(_) => {
                    self.untyped.swap_remove(at);
                    shared.charge(Weight::Medium, "streams_without_type")?;
                    return Ok(None);
                }
            }
            if let Some((number, _)) = varint::read(&untyped.bytes[..usize::from(untyped.count)]) {
                self.untyped.swap_remove(at);
                return self.assign(quic, id, number, shared);
            }
        }
    }

    fn assign(
        &mut self,
        quic: &mut Connection,
        id: StreamId,
        number: u64,
        shared: &mut ConnectionShared,
    ) -> Result<Option<StreamPurpose>, Fault> {
        let purpose = match number {
            CONTROL => StreamPurpose::Control,
            ENCODER => StreamPurpose::Encoder,
            DECODER => StreamPurpose::Decoder,
            // "if a server receives a client-initiated push stream, this MUST be treated as a connection error of type
            // H3_STREAM_CREATION_ERROR" (§6.2.2).
            PUSH => return Err(Fault::connection(Code::StreamCreation, "push_stream")),
            // "Recipients of unknown stream types MUST either abort reading of the stream or discard incoming data without further
            // processing" (§9).
            _ => {
                transport::stop(quic, id, Code::StreamCreation);
                shared.charge(Weight::Medium, "unknown_streams")?;
                return Ok(None);
            }
        };
        // "Only one control stream per peer is permitted; receipt of a second stream claiming to be a control stream MUST be treated
        // as a connection error of type H3_STREAM_CREATION_ERROR" (§6.2.1), and the same for QPACK (RFC 9204 §4.2).
        if self.critical[purpose as usize].replace(id).is_some() {
            return Err(Fault::connection(Code::StreamCreation, "second_critical_stream"));
        }
        Ok(Some(purpose))
    }

    /// Processes bytes of the client's decoder stream.
    fn acknowledgments(&mut self, bytes: &[u8], shared: &mut ConnectionShared) -> Result<(), Fault> {
        for &byte in bytes {
            self.acknowledgment.push(byte);
            match qpack::read_acknowledgment(&self.acknowledgment)? {
                (DecoderInstruction::Cancellation(_), _) => {
                    self.acknowledgment.clear();
                    shared.charge(Weight::Light, "decoder_instructions")?;
                }
                (DecoderInstruction::Incomplete, _) => {
                    debug_assert!(self.acknowledgment.len() < MAX_INSTRUCTION);
                }
            }
        }
        Ok(())
    }
}

/// "If either control stream is closed at any point, this MUST be treated as a connection error of type H3_CLOSED_CRITICAL_STREAM"
/// (RFC 9114 §6.2.1), and the same for QPACK (RFC 9204 §4.2).
pub(crate) fn closed_critical() -> Fault {
    Fault::connection(Code::ClosedCriticalStream, "critical_stream_closed")
}
