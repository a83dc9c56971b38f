//! Output to be written to the connection, in order.

/// Bytes that bodies may fill. Control frames and heads may exceed it.
const MAX_BODY_BYTES: usize = 128 * 1024;

/// Pending bytes at which no stream is opened, since its response would only wait: with another head of 32 KiB it is
/// 256 KiB.
const MAX_BYTES_FOR_NEW_STREAM: usize = 224 * 1024;

/// Memory that is kept once everything is written.
const MAX_KEPT_BYTES: usize = 64 * 1024;

/// Pending replies to control frames; from a peer that does not read them, nothing is read.
const MAX_REPLIES: u32 = 64;

/// Frames to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    written: usize,
    replies: u32,
    /// Where the last reply ends.
    last_reply_end: u32,
}

impl Outbox {
    /// The buffer to append frames to.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a reply to a control frame.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.replies += 1;
        self.last_reply_end = self.bytes.len() as u32;
    }

    /// Whether too many replies are pending.
    #[inline]
    pub(crate) fn has_too_many_replies(&self) -> bool {
        self.replies >= MAX_REPLIES
    }

    /// Whether too much is pending to open another stream.
    #[inline]
    pub(crate) fn is_too_full_for_stream(&self) -> bool {
        self.bytes.len() - self.written > MAX_BYTES_FOR_NEW_STREAM
    }

    /// The pending output.
    #[inline]
    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// How many body bytes may be appended.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        MAX_BODY_BYTES.saturating_sub(self.bytes.len() - self.written)
    }

    /// Records that `count` bytes were written.
    pub(crate) fn mark_written(&mut self, count: usize) {
        self.written = (self.written + count).min(self.bytes.len());
        if self.written >= self.last_reply_end as usize {
            (self.replies, self.last_reply_end) = (0, 0);
        }
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
            self.bytes.shrink_to(MAX_KEPT_BYTES);
        } else if self.written > MAX_BODY_BYTES {
            self.bytes.drain(..self.written);
            self.last_reply_end = self.last_reply_end.saturating_sub(self.written as u32);
            self.written = 0;
        }
    }

    /// The buffer, while nothing is pending.
    #[inline]
    pub(crate) fn memory(&mut self) -> Option<&mut Vec<u8>> {
        self.bytes.is_empty().then_some(&mut self.bytes)
    }

    /// Releases unused memory.
    pub(crate) fn release_memory(&mut self) {
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
    fn room_and_response_slots_return_when_everything_is_written() {
        let mut outbox = Outbox::default();
        outbox.bytes().resize(MAX_BODY_BYTES + 5, 0);
        assert_eq!(outbox.room(), 0);
        for _ in 0..64 {
            outbox.reply(|out| out.push(1));
        }
        assert!(outbox.has_too_many_replies());
        outbox.mark_written(MAX_BODY_BYTES + 1);
        assert_eq!((outbox.pending().len(), outbox.room()), (68, MAX_BODY_BYTES - 68));
        assert!(outbox.has_too_many_replies());
        outbox.mark_written(68);
        assert_eq!(outbox.pending(), b"");
        assert!(!outbox.has_too_many_replies() && outbox.kept_bytes() <= MAX_KEPT_BYTES);
    }

    #[test]
    fn answers_that_were_written_do_not_wait_behind_a_body() {
        let mut outbox = Outbox::default();
        outbox.bytes().resize(MAX_BODY_BYTES, 0);
        (0..MAX_REPLIES).for_each(|_| outbox.reply(|out| out.extend_from_slice(&[1; 17])));
        outbox.bytes().extend_from_slice(&[0; 1000]);
        outbox.mark_written(MAX_BODY_BYTES + 1);
        assert!(outbox.has_too_many_replies());
        outbox.mark_written(64 * 17 - 2);
        assert!(outbox.has_too_many_replies(), "a byte of the last one waits");
        outbox.mark_written(1);
        assert_eq!((outbox.has_too_many_replies(), outbox.pending().len()), (false, 1000));
    }
}
