//! Reads the client's control stream (RFC 9114 §6.2.1): its frames and their order.

use bytes::Bytes;
use fairway_http2::Priority;
use fairway_http2::abuse::Weight;

use crate::code::{Code, Fault};
use crate::frame::{FrameHeader, FrameKind};
use crate::shared::ConnectionShared;
use crate::{settings, varint};

/// The longest SETTINGS and PRIORITY_UPDATE that are read.
const MAX_PAYLOAD: u64 = 1024;

/// The action that a frame requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlAction {
    /// Set the priority of the stream with this id.
    Priority(u64, Priority),
    /// The client is going away.
    GoAway,
}

/// The state of the client's control stream.
#[derive(Debug, Default)]
pub(crate) struct ControlStream {
    header: FrameHeader,
    /// The frame whose payload is incomplete.
    frame: Option<OpenFrame>,
    has_settings: bool,
    max_push_id: Option<u64>,
    go_away: Option<u64>,
}

#[derive(Debug)]
struct OpenFrame {
    kind: FrameKind,
    bytes_left: u64,
    payload: Vec<u8>,
}

impl ControlStream {
    /// Reads up to the next frame that requires an action; `None` when the input is used up.
    pub(crate) fn receive(
        &mut self,
        input: &mut Bytes,
        shared: &mut ConnectionShared,
    ) -> Result<Option<ControlAction>, Fault> {
        loop {
            let Some(frame) = &mut self.frame else {
                let Some((kind, length, _)) = self.header.take(input) else { return Ok(None) };
                self.begin_frame(kind, length, shared)?;
                continue;
            };
            let consumed =
                usize::try_from(frame.bytes_left).map_or(input.len(), |left| left.min(input.len()));
            let bytes = input.split_to(consumed);
            frame.bytes_left -= consumed as u64;
            if frame.kind != FrameKind::Unknown {
                frame.payload.extend_from_slice(&bytes);
            }
            if frame.bytes_left > 0 {
                return Ok(None);
            }
            if let Some(frame) = self.frame.take()
                && let Some(request) = self.end(frame.kind, &frame.payload)?
            {
                return Ok(Some(request));
            }
        }
    }

    /// Checks the type and length of a frame before its payload is buffered.
    fn begin_frame(
        &mut self,
        kind: FrameKind,
        length: u64,
        shared: &mut ConnectionShared,
    ) -> Result<(), Fault> {
        // "If the first frame of the control stream is any other frame type, this MUST be treated as a connection error of type
        // H3_MISSING_SETTINGS" (RFC 9114 §6.2.1).
        if !self.has_settings && kind != FrameKind::Settings {
            return Err(Fault::connection(Code::MissingSettings, "settings_missing"));
        }
        let max_length = match kind {
            FrameKind::Settings if self.has_settings => return Err(kind.unexpected()),
            FrameKind::Settings | FrameKind::RequestPriority | FrameKind::PushPriority => MAX_PAYLOAD,
            FrameKind::CancelPush | FrameKind::GoAway | FrameKind::MaxPushId => 8,
            FrameKind::Unknown => u64::MAX,
            FrameKind::Data | FrameKind::Headers | FrameKind::PushPromise | FrameKind::Http2 => {
                return Err(kind.unexpected());
            }
        };
        if length > max_length {
            let code = if max_length == 8 { Code::Frame } else { Code::ExcessiveLoad };
            return Err(Fault::connection(code, "control_frame_size"));
        }
        if self.has_settings {
            shared.charge(Weight::Light, "control_frames")?;
        }
        self.frame = Some(OpenFrame { kind, bytes_left: length, payload: Vec::new() });
        Ok(())
    }

    fn end(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Option<ControlAction>, Fault> {
        match kind {
            FrameKind::Settings => {
                settings::check(payload)?;
                self.has_settings = true;
            }
            FrameKind::GoAway => {
                let id = only_id(payload)?;
                // "An endpoint MAY send multiple GOAWAY frames indicating different identifiers, but the identifier in each frame
                // MUST NOT be greater than the identifier in any previous frame" (RFC 9114 §5.2).
                if self.go_away.is_some_and(|before| id > before) {
                    return Err(Fault::connection(Code::Id, "goaway_increased"));
                }
                self.go_away = Some(id);
                return Ok(Some(ControlAction::GoAway));
            }
            FrameKind::MaxPushId => {
                let id = only_id(payload)?;
                // "A MAX_PUSH_ID frame cannot reduce the maximum push ID" (§7.2.7).
                if self.max_push_id.is_some_and(|before| id < before) {
                    return Err(Fault::connection(Code::Id, "max_push_id_reduced"));
                }
                self.max_push_id = Some(id);
            }
            FrameKind::CancelPush => {
                // "If a server receives a CANCEL_PUSH frame for a push ID that has not yet been mentioned by a
                // PUSH_PROMISE frame, this MUST be treated as a connection error of type H3_ID_ERROR" (§7.2.3). This
                // server never pushes.
                only_id(payload)?;
                return Err(Fault::connection(Code::Id, "cancel_push_unpromised"));
            }
            FrameKind::PushPriority => {
                // RFC 9218 §7.2: a push that was never promised.
                varint::read(payload).ok_or_else(bad_payload)?;
                return Err(Fault::connection(Code::Id, "priority_of_unpromised_push"));
            }
            FrameKind::RequestPriority => {
                let (id, used) = varint::read(payload).ok_or_else(bad_payload)?;
                // "If a server receives a PRIORITY_UPDATE (type=0xF0700) with a Prioritized Element ID that is not a request
                // stream ID", H3_ID_ERROR (RFC 9218 §7.2).
                if id & 3 != 0 {
                    return Err(Fault::connection(Code::Id, "priority_stream_id"));
                }
                let value = &payload[used..];
                // The value is ASCII text (RFC 8941 §4.2).
                if !value.is_ascii() {
                    return Err(bad_payload());
                }
                return Ok(Some(ControlAction::Priority(id, Priority::parse(value))));
            }
            FrameKind::Data
            | FrameKind::Headers
            | FrameKind::PushPromise
            | FrameKind::Http2
            | FrameKind::Unknown => {}
        }
        Ok(None)
    }
}

/// "a frame payload that contains additional bytes after the identified fields or a frame payload that terminates before the end of
/// the identified fields MUST be treated as a connection error of type H3_FRAME_ERROR" (RFC 9114 §7.1).
fn only_id(payload: &[u8]) -> Result<u64, Fault> {
    match varint::read(payload) {
        Some((id, used)) if used == payload.len() => Ok(id),
        _ => Err(bad_payload()),
    }
}

fn bad_payload() -> Fault {
    Fault::connection(Code::Frame, "control_frame_payload")
}
