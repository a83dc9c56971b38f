//! The few things that are done to streams of QUIC. Never knows what is in them.

use bytes::Bytes;
use quinn_proto::{Connection, ReadError, StreamId, VarInt};

use crate::code::Code;

/// What a stream has.
#[derive(Debug)]
pub(crate) enum Input {
    /// The next bytes, at least one.
    Bytes(Bytes),
    /// Nothing now.
    Blocked,
    /// It ended, or is not read any more.
    End,
    /// The client reset it.
    Reset(Code),
}

/// Reads at most `max_bytes` bytes of a stream.
pub(crate) fn read(quic: &mut Connection, id: StreamId, max_bytes: usize) -> Input {
    let mut stream = quic.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Input::End };
    let input = match chunks.next(max_bytes) {
        Ok(Some(chunk)) => Input::Bytes(chunk.bytes),
        Ok(None) => Input::End,
        Err(ReadError::Blocked) => Input::Blocked,
        Err(ReadError::Reset(code)) => Input::Reset(Code::from_number(code.into_inner())),
    };
    // The owner sends what QUIC has to send after every call, whether this opened a window or not.
    let _: quinn_proto::ShouldTransmit = chunks.finalize();
    input
}

/// The code with which the client reset a stream, if it did; the stream is over then.
pub(crate) fn received_reset(quic: &mut Connection, id: StreamId) -> Option<Code> {
    let code = quic.recv_stream(id).received_reset().ok()??;
    Some(Code::from_number(code.into_inner()))
}

/// Sends STOP_SENDING, unless the direction is over already.
pub(crate) fn stop(quic: &mut Connection, id: StreamId, code: Code) -> bool {
    quic.recv_stream(id).stop(number(code)).is_ok()
}

/// Sends RESET_STREAM, unless the direction is over already.
pub(crate) fn reset(quic: &mut Connection, id: StreamId, code: Code) -> bool {
    quic.send_stream(id).reset(number(code)).is_ok()
}

/// Sets the order of what a stream sends, higher first, unless that is over already.
pub(crate) fn set_order(quic: &mut Connection, id: StreamId, order: i32) -> bool {
    quic.send_stream(id).set_priority(order).is_ok()
}

/// A code as QUIC has it.
pub(crate) fn number(code: Code) -> VarInt {
    VarInt::from_u32(code.number() as u32)
}
