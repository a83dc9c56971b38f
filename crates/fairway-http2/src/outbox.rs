//! What is to be written to the connection, in its order. Never writes it.

/// What body bytes may fill. Control frames and heads go beyond it.
const ROOM: usize = 128 * 1024;

/// What may wait when a stream is opened, whose answer then waits as well: with one more head of 32 KiB it is 256 KiB.
const CROWDED: usize = 224 * 1024;

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
    /// Where the last of the replies ends.
    replied: u32,
}

impl Outbox {
    /// Where frames are appended.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends an answer to a control frame.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.replies += 1;
        self.replied = self.bytes.len() as u32;
    }

    /// Whether too many answers wait.
    #[inline]
    pub(crate) fn is_clogged(&self) -> bool {
        self.replies >= REPLIES
    }

    /// Whether too much waits for another stream.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.bytes.len() - self.written > CROWDED
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
        if self.written >= self.replied as usize {
            (self.replies, self.replied) = (0, 0);
        }
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
            self.bytes.shrink_to(KEPT);
        } else if self.written > ROOM {
            self.bytes.drain(..self.written);
            self.replied = self.replied.saturating_sub(self.written as u32);
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
            outbox.reply(|out| out.push(1));
        }
        assert!(outbox.is_clogged());
        outbox.wrote(ROOM + 1);
        assert_eq!((outbox.pending().len(), outbox.room()), (68, ROOM - 68));
        assert!(outbox.is_clogged());
        outbox.wrote(68);
        assert_eq!(outbox.pending(), b"");
        assert!(!outbox.is_clogged() && outbox.kept_bytes() <= KEPT);
    }

    #[test]
    fn answers_that_were_written_do_not_wait_behind_a_body() {
        let mut outbox = Outbox::default();
        outbox.bytes().resize(ROOM, 0);
        (0..REPLIES).for_each(|_| outbox.reply(|out| out.extend_from_slice(&[1; 17])));
        outbox.bytes().extend_from_slice(&[0; 1000]);
        outbox.wrote(ROOM + 1);
        assert!(outbox.is_clogged());
        outbox.wrote(64 * 17 - 2);
        assert!(outbox.is_clogged(), "a byte of the last one waits");
        outbox.wrote(1);
        assert_eq!((outbox.is_clogged(), outbox.pending().len()), (false, 1000));
    }
}
