//! What a service gets of one exchange: as configured, until the service overrides it for later phases.

use fairway_model::{BodyMode, ProcessingPhases};

use crate::generated::processing_mode::{BodySendMode, HeaderSendMode};

/// The wire value of a mode.
pub(super) fn wire_number(mode: BodyMode) -> i32 {
    let mode = match mode {
        BodyMode::None => BodySendMode::None,
        BodyMode::Streamed => BodySendMode::Streamed,
        BodyMode::Buffered => BodySendMode::Buffered,
        BodyMode::BufferedPartial => BodySendMode::BufferedPartial,
        BodyMode::FullDuplexStreamed => BodySendMode::FullDuplexStreamed,
    };
    mode.into()
}

/// A service's override for one direction; unknown values change nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Override {
    pub(super) headers: i32,
    pub(super) body: i32,
    pub(super) trailers: i32,
}

impl Override {
    /// The phases from the body on.
    pub(super) fn apply_from_body(self, phases: &mut ProcessingPhases) {
        phases.body = match BodySendMode::try_from(self.body) {
            Ok(BodySendMode::None) => BodyMode::None,
            Ok(BodySendMode::Streamed) => BodyMode::Streamed,
            Ok(BodySendMode::Buffered) => BodyMode::Buffered,
            Ok(BodySendMode::BufferedPartial) => BodyMode::BufferedPartial,
            Ok(BodySendMode::FullDuplexStreamed) => BodyMode::FullDuplexStreamed,
            Err(_) => phases.body,
        };
        apply(self.trailers, &mut phases.trailers);
    }

    /// All phases.
    pub(super) fn apply(self, phases: &mut ProcessingPhases) {
        apply(self.headers, &mut phases.headers);
        self.apply_from_body(phases);
    }
}

fn apply(mode: i32, is_sent: &mut bool) {
    match HeaderSendMode::try_from(mode) {
        Ok(HeaderSendMode::Send) => *is_sent = true,
        Ok(HeaderSendMode::Skip) => *is_sent = false,
        Ok(HeaderSendMode::Default) | Err(_) => {}
    }
}
