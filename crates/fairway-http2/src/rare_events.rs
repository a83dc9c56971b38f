//! Rare events of a connection, by reason, for its owner's metrics.

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerEventKind {
    /// The connection ended because the peer broke a rule or took too long.
    ConnectionFault,
    /// A stream ended, or was refused, because the peer broke a rule.
    StreamFault,
    /// The peer reset a stream with this code.
    Reset,
    /// GOAWAY was sent to the peer.
    GoAway,
    /// The peer sent GOAWAY with this code.
    GoAwayReceived,
    /// A request was rejected before it was read.
    Rejected,
    /// The abuse account is nearly overdrawn.
    Warned,
}

impl PeerEventKind {
    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            PeerEventKind::ConnectionFault => "connection_fault",
            PeerEventKind::StreamFault => "stream_fault",
            PeerEventKind::Reset => "reset_received",
            PeerEventKind::GoAway => "goaway_sent",
            PeerEventKind::GoAwayReceived => "goaway_received",
            PeerEventKind::Rejected => "rejected",
            PeerEventKind::Warned => "warned",
        }
    }
}

/// An event, its reason and its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerEvent {
    /// The kind.
    pub kind: PeerEventKind,
    /// The rule or code, in one or two words; from a bounded set.
    pub reason: &'static str,
    /// How often since it was last taken.
    pub count: u32,
}

/// Distinct events that are kept. More reasons exist, but no peer has that many at a time.
const MAX_KINDS: usize = 32;

/// Events not taken yet. A connection without events uses one word.
#[derive(Debug, Default)]
pub struct PeerEvents(Option<Box<EventList>>);

#[derive(Debug, Default)]
struct EventList(Vec<PeerEvent>);

impl PeerEvents {
    /// Adds an event, or increases its count.
    pub fn add(&mut self, kind: PeerEventKind, reason: &'static str) {
        let EventList(notes) = &mut **self.0.get_or_insert_default();
        if let Some(note) = notes.iter_mut().find(|note| note.kind == kind && note.reason == reason) {
            note.count = note.count.saturating_add(1);
        } else if notes.len() < MAX_KINDS {
            notes.push(PeerEvent { kind, reason, count: 1 });
        }
    }

    /// Removes and returns the last event.
    #[inline]
    pub fn take(&mut self) -> Option<PeerEvent> {
        self.0.as_mut()?.0.pop()
    }

    /// Releases memory if there are no events.
    pub fn release_memory(&mut self) {
        self.0.take_if(|list| list.0.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_events_are_counted_and_different_ones_kept_up_to_a_bound() {
        let mut notes = PeerEvents::default();
        notes.add(PeerEventKind::Reset, "cancel");
        notes.add(PeerEventKind::StreamFault, "cancel");
        notes.add(PeerEventKind::Reset, "cancel");
        let noted: Vec<_> = std::iter::from_fn(|| notes.take()).map(|note| (note.kind, note.count)).collect();
        assert_eq!(noted, [(PeerEventKind::StreamFault, 1), (PeerEventKind::Reset, 2)]);
        for code in crate::Code::ALL {
            for what in [
                PeerEventKind::ConnectionFault,
                PeerEventKind::StreamFault,
                PeerEventKind::Reset,
                PeerEventKind::GoAway,
            ] {
                notes.add(what, code.label());
            }
        }
        assert_eq!(std::iter::from_fn(|| notes.take()).count(), MAX_KINDS);
        notes.release_memory();
        assert!(notes.0.is_none());
    }
}
