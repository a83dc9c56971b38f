//! What is to be written to the connection, in its order. Never writes it.

/// What body bytes may fill. Control frames and heads go beyond it.
const ROOM: usize = 128 * 1024;

/// Memory that stays when everything was written.
const KEPT: usize = 64 * 1024;

/// Answers to control frames that may wait; a peer that does not read them is not read either.
const REPLIES: u32 = 64;

/// Frames that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    replies: u32,
}

impl Outbox {
    /// Where frames are appended.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Where an answer to a control frame is appended.
    pub(crate) fn reply(&mut self) -> &mut Vec<u8> {
        self.replies += 1;
        &mut self.bytes
    }

    /// Whether too many answers wait.
    #[inline]
    pub(crate) fn is_clogged(&self) -> bool {
        self.replies >= REPLIES
    }

    /// What waits.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// How many body bytes may be appended.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        ROOM.saturating_sub(self.bytes.len() - self.written)
    }

    /// So many bytes were written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
            self.replies = 0;
            self.bytes.shrink_to(KEPT);
        } else if self.written > ROOM {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Its memory, while nothing waits in it.
    #[inline]
    pub(crate) fn memory(&mut self) -> Option<&mut Vec<u8>> {
        self.bytes.is_empty().then_some(&mut self.bytes)
    }

    /// Gives back memory that nothing needs now.
    pub(crate) fn rest(&mut self) {
        self.bytes.shrink_to_fit();
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_and_answers_come_back_when_all_is_written() {
        let mut outbox = Outbox::default();
        outbox.bytes().resize(ROOM + 5, 0);
        assert_eq!(outbox.room(), 0);
        for _ in 0..64 {
            outbox.reply().push(1);
        }
        assert!(outbox.is_clogged());
        outbox.wrote(ROOM + 1);
        assert_eq!((outbox.pending().len(), outbox.room()), (68, ROOM - 68));
        assert!(outbox.is_clogged());
        outbox.wrote(68);
        assert_eq!(outbox.pending(), b"");
        assert!(!outbox.is_clogged() && outbox.kept_bytes() <= KEPT);
    }
}
