//! What a connection saw that its owner may want to count: rare things, by reason. Never decides anything.

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// The connection was closed because the client broke a rule.
    ConnectionFault,
    /// A stream was reset because the client broke a rule.
    StreamFault,
    /// The client reset a request or refused its response, with this code.
    Reset,
    /// A GOAWAY was sent.
    GoAway,
    /// The client sent GOAWAY.
    GoAwayReceived,
    /// A request was rejected before it was read.
    Rejected,
    /// The abuse account is nearly overdrawn; the connection is going away.
    Warned,
}

impl Noted {
    /// The metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Noted::ConnectionFault => "connection_fault",
            Noted::StreamFault => "stream_fault",
            Noted::Reset => "reset_received",
            Noted::GoAway => "goaway_sent",
            Noted::GoAwayReceived => "goaway_received",
            Noted::Rejected => "rejected",
            Noted::Warned => "warned",
        }
    }
}

/// Something that happened, why, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note {
    /// What.
    pub what: Noted,
    /// The rule or the code in a few words: one of a bounded number.
    pub reason: &'static str,
    /// How often since it was last taken.
    pub count: u32,
}

/// Different notes that are kept until they are taken. There are more reasons, but no client has that many at a time.
const MAX_NOTES: usize = 32;

/// Notes that were not taken yet. A connection without any has one word for them.
#[derive(Debug, Default)]
pub(crate) struct Notes(Option<Box<List>>);

#[derive(Debug, Default)]
struct List(Vec<Note>);

impl Notes {
    pub(crate) fn add(&mut self, what: Noted, reason: &'static str) {
        let List(notes) = &mut **self.0.get_or_insert_default();
        if let Some(note) = notes.iter_mut().find(|note| note.what == what && note.reason == reason) {
            note.count = note.count.saturating_add(1);
        } else if notes.len() < MAX_NOTES {
            notes.push(Note { what, reason, count: 1 });
        }
    }

    /// Takes the newest note. Gives the memory back with the last one.
    pub(crate) fn take(&mut self) -> Option<Note> {
        let note = self.0.as_mut()?.0.pop();
        if note.is_none() {
            self.0 = None;
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_notes_are_counted_and_different_ones_bounded() {
        let mut notes = Notes::default();
        notes.add(Noted::Reset, "request_cancelled");
        notes.add(Noted::StreamFault, "request_cancelled");
        notes.add(Noted::Reset, "request_cancelled");
        let taken: Vec<_> = std::iter::from_fn(|| notes.take()).map(|note| (note.what, note.count)).collect();
        assert_eq!(taken, [(Noted::StreamFault, 1), (Noted::Reset, 2)]);
        assert!(notes.0.is_none());
        for code in crate::Code::ALL {
            for what in [Noted::ConnectionFault, Noted::StreamFault, Noted::Reset] {
                notes.add(what, code.label());
            }
        }
        assert_eq!(std::iter::from_fn(|| notes.take()).count(), MAX_NOTES);
    }
}
