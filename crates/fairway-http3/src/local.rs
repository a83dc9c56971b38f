//! Our unidirectional streams: the control stream with SETTINGS and GOAWAY, and the QPACK decoder stream. There is no
//! encoder stream, because nothing would be sent on it (RFC 9204 §4.2).

use bytes::Bytes;
use quinn_proto::{Connection, Dir, StreamId};

use crate::code::Fault;
use crate::config::Config;
use crate::outgoing::Outgoing;
use crate::shared::ConnectionShared;
use crate::{frame, settings, transport};

/// Stream types (RFC 9114 §6.2.1, RFC 9204 §4.2).
const CONTROL: u8 = 0x0;
const DECODER: u8 = 0x3;

/// The control stream is sent before any response.
const CONTROL_ORDER: i32 = i32::MAX;

/// Our unidirectional streams.
#[derive(Debug)]
pub(crate) struct LocalStreams {
    control: Option<StreamId>,
    frames: Outgoing,
    decoder: Option<StreamId>,
    /// Whether the type of the decoder stream was sent.
    typed: bool,
}

impl LocalStreams {
    pub(crate) fn new(config: &Config) -> Self {
        let mut frames = Outgoing::new();
        frames.queue(Bytes::from_static(&[CONTROL]));
        frames.queue(settings::frame(config));
        LocalStreams { control: None, frames, decoder: None, typed: false }
    }

    /// Opens the missing streams, as far as the client allows.
    pub(crate) fn open(&mut self, quic: &mut Connection, config: &Config) {
        if self.control.is_none() {
            self.control = quic.streams().open(Dir::Uni);
            if let Some(id) = self.control {
                transport::set_order(quic, id, CONTROL_ORDER);
                self.frames.flush(quic, id);
            }
        }
        if self.control.is_some() && self.decoder.is_none() && config.qpack_table > 0 {
            self.decoder = quic.streams().open(Dir::Uni);
            if let Some(id) = self.decoder {
                transport::set_order(quic, id, CONTROL_ORDER);
            }
        }
    }

    /// The number of open streams.
    pub(crate) fn count(&self) -> usize {
        usize::from(self.control.is_some()) + usize::from(self.decoder.is_some())
    }

    pub(crate) fn is_local(&self, id: StreamId) -> bool {
        self.control == Some(id) || self.decoder == Some(id)
    }

    /// Sends what is pending.
    pub(crate) fn flush(
        &mut self,
        quic: &mut Connection,
        shared: &mut ConnectionShared,
    ) -> Result<(), Fault> {
        if let Some(id) = self.control.filter(|_| self.frames.is_waiting()) {
            self.frames.unblock(quic, id);
        }
        let Some(id) = self.decoder else { return shared.qpack.sent_feedback(0) };
        if !self.typed {
            self.typed = write(quic, id, &[DECODER]) == 1;
        }
        let feedback = shared.qpack.feedback();
        let written = if feedback.is_empty() || !self.typed { 0 } else { write(quic, id, feedback) };
        shared.qpack.sent_feedback(written)
    }

    /// Sends GOAWAY with this stream id.
    pub(crate) fn go_away(&mut self, quic: &mut Connection, stream: u64) {
        match self.control {
            Some(id) => self.frames.push(quic, id, frame::go_away(stream)),
            None => self.frames.queue(frame::go_away(stream)),
        }
    }
}

/// Writes what QUIC accepts; returns how much. A stopped stream accepts nothing, and an event reports it.
fn write(quic: &mut Connection, id: StreamId, bytes: &[u8]) -> usize {
    quic.send_stream(id).write(bytes).unwrap_or(0)
}
