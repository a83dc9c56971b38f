//! Operations on QUIC streams.

use bytes::Bytes;
use quinn_proto::{Connection, ReadError, StreamId, VarInt};

use crate::code::Code;

/// The result of reading a stream.
#[derive(Debug)]
pub(crate) enum StreamInput {
    /// The next bytes, at least one.
    Bytes(Bytes),
    /// Nothing yet.
    Blocked,
    /// It ended, or is no longer read.
    End,
    /// The client reset it.
    Reset(Code),
}

/// Reads at most `max_bytes` bytes of a stream.
pub(crate) fn read(quic: &mut Connection, id: StreamId, max_bytes: usize) -> StreamInput {
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return StreamInput::End };
    let input = match chunks.next(max_bytes) {
        Ok(Some(chunk)) => StreamInput::Bytes(chunk.bytes),
        Ok(None) => StreamInput::End,
        Err(ReadError::Blocked) => StreamInput::Blocked,
        Err(ReadError::Reset(code)) => StreamInput::Reset(Code::from_number(code.into_inner())),
    };
    // The owner sends what QUIC has to send after every call, whether this opened a window or not.
    let _: quinn_proto::ShouldTransmit = chunks.finalize();
    input
}

/// The code with which the client reset a stream, if it did; the stream is then over.
pub(crate) fn received_reset(quic: &mut Connection, id: StreamId) -> Option<Code> {
    let code = quic.recv_stream(id).received_reset().ok()??;
    Some(Code::from_number(code.into_inner()))
}

/// Sends STOP_SENDING, unless the direction has ended.
pub(crate) fn stop(quic: &mut Connection, id: StreamId, code: Code) -> bool {
    quic.recv_stream(id).stop(number(code)).is_ok()
}

/// Sends RESET_STREAM, unless the direction has ended.
pub(crate) fn reset(quic: &mut Connection, id: StreamId, code: Code) -> bool {
    quic.send_stream(id).reset(number(code)).is_ok()
}

/// Sets the send order of a stream, higher first, unless it has ended.
pub(crate) fn set_order(quic: &mut Connection, id: StreamId, order: i32) -> bool {
    quic.send_stream(id).set_priority(order).is_ok()
}

/// A code as a QUIC integer.
pub(crate) fn number(code: Code) -> VarInt {
    VarInt::from_u32(code.number() as u32)
}
