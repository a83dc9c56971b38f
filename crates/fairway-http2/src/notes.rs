//! What a connection saw that its owner may want to count: rare things, by reason. Never decides anything.

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Noted {
    /// The connection ended because of a rule that the peer broke, or because it took too long.
    ConnectionFault,
    /// A stream ended, or was never taken, because of a rule that the peer broke.
    StreamFault,
    /// The peer reset a stream, with this code.
    Reset,
    /// The peer was told that no more streams are taken.
    GoAway,
    /// The peer says that it takes no more streams, with this code.
    GoAwayReceived,
    /// A request was rejected before it was read.
    Rejected,
    /// The account of what the peer costs is nearly overdrawn.
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
    /// The rule or the code, in one or two words: one of a bounded number.
    pub reason: &'static str,
    /// How often since it was asked for last.
    pub count: u32,
}

/// Different things that are kept until they are asked for. There are more reasons, but no peer has that many at a time.
const MOST: usize = 32;

/// What was noted and not asked for yet. A connection of which nothing is noted has one word for it.
#[derive(Debug, Default)]
pub struct Notes(Option<Box<List>>);

#[derive(Debug, Default)]
struct List(Vec<Note>);

impl Notes {
    /// Notes something, or counts it again.
    pub fn add(&mut self, what: Noted, reason: &'static str) {
        let List(notes) = &mut **self.0.get_or_insert_default();
        if let Some(note) = notes.iter_mut().find(|note| note.what == what && note.reason == reason) {
            note.count = note.count.saturating_add(1);
        } else if notes.len() < MOST {
            notes.push(Note { what, reason, count: 1 });
        }
    }

    /// The last of them, which is forgotten.
    #[inline]
    pub fn take(&mut self) -> Option<Note> {
        self.0.as_mut()?.0.pop()
    }

    /// Gives its memory back if nothing is noted.
    pub fn rest(&mut self) {
        self.0.take_if(|list| list.0.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_counted_and_what_is_different_kept_apart_up_to_a_bound() {
        let mut notes = Notes::default();
        notes.add(Noted::Reset, "cancel");
        notes.add(Noted::StreamFault, "cancel");
        notes.add(Noted::Reset, "cancel");
        let taken: Vec<_> = std::iter::from_fn(|| notes.take()).map(|note| (note.what, note.count)).collect();
        assert_eq!(taken, [(Noted::StreamFault, 1), (Noted::Reset, 2)]);
        for code in crate::Code::ALL {
            for what in [Noted::ConnectionFault, Noted::StreamFault, Noted::Reset, Noted::GoAway] {
                notes.add(what, code.label());
            }
        }
        assert_eq!(std::iter::from_fn(|| notes.take()).count(), MOST);
        notes.rest();
        assert!(notes.0.is_none());
    }
}
