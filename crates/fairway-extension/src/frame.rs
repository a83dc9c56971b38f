//! Length-prefixed messages (gRPC's PROTOCOL-HTTP2.md): a compression flag of one byte, a length of four bytes, and the message.
//! Does not interpret messages.

use prost::Message;

/// The size of the prefix of a message.
pub const PREFIX_BYTES: usize = 5;

/// Encodes a message with its prefix.
///
/// # Panics
/// The message is 4 GiB or larger.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    let mut framed = Vec::with_capacity(PREFIX_BYTES + message.encoded_len());
    framed.resize(PREFIX_BYTES, 0);
    message.encode_raw(&mut framed);
    set_length(&mut framed);
    framed
}

/// Writes the length into the prefix, after the message was appended.
pub(crate) fn set_length(framed: &mut [u8]) {
    let length = u32::try_from(framed.len() - PREFIX_BYTES).expect("what is sent is far below 4 GiB");
    framed[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Why bytes are not valid messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFrame {
    /// It is compressed, although no compression was negotiated.
    #[error("a compressed message, although no compression was offered")]
    Compressed,
    /// It is longer than the limit.
    #[error("a message of {0} bytes, more than the limit")]
    TooLong(u32),
}

/// Reassembles messages from arbitrarily split bytes.
#[derive(Debug)]
pub struct FrameReader {
    limit: u32,
    buffered: Vec<u8>,
}

impl FrameReader {
    /// Refuses messages longer than `limit` bytes.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        FrameReader { limit, buffered: Vec::new() }
    }

    /// Passes each complete message, without its prefix, to `take`, until it returns `false`.
    ///
    /// # Errors
    /// A message is compressed or too long; no further messages can be read.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), InvalidFrame> {
        // The buffer holds less than one message, so each piece completes it or is buffered too.
        while !bytes.is_empty() {
            if self.buffered.is_empty() {
                let Some(end) = self.message_end(bytes)?.filter(|end| *end <= bytes.len()) else {
                    self.buffered.extend_from_slice(bytes);
                    return Ok(());
                };
                let (message, rest) = bytes.split_at(end);
                bytes = rest;
                if !take(&message[PREFIX_BYTES..]) {
                    return Ok(());
                }
                continue;
            }
            let needed = self.message_end(&self.buffered)?.unwrap_or(PREFIX_BYTES);
            let missing = (needed - self.buffered.len()).min(bytes.len());
            self.buffered.extend_from_slice(&bytes[..missing]);
            bytes = &bytes[missing..];
            if self.message_end(&self.buffered)? == Some(self.buffered.len()) {
                let message = std::mem::take(&mut self.buffered);
                if !take(&message[PREFIX_BYTES..]) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Whether no part of an incomplete message is buffered.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.buffered.is_empty()
    }

    /// The buffered bytes of an incomplete message.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.buffered.len()
    }

    /// The end of the message that starts at the beginning; `None` while its prefix is incomplete.
    fn message_end(&self, bytes: &[u8]) -> Result<Option<usize>, InvalidFrame> {
        if bytes.first().is_some_and(|compressed| *compressed != 0) {
            return Err(InvalidFrame::Compressed);
        }
        let Some((prefix, _)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        if length > self.limit {
            return Err(InvalidFrame::TooLong(length));
        }
        Ok(Some(PREFIX_BYTES + length as usize))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
        let frame = |message: &Vec<u8>| {
            let mut framed = vec![0; PREFIX_BYTES];
            framed.extend_from_slice(message);
            set_length(&mut framed);
            framed
        };
        messages.iter().flat_map(frame).collect()
    }

    fn read(chunks: &[&[u8]], limit: u32) -> Result<(Vec<Vec<u8>>, bool), InvalidFrame> {
        let (mut frames, mut read) = (FrameReader::new(limit), Vec::new());
        for piece in chunks {
            frames.feed(piece, |message| {
                read.push(message.to_vec());
                true
            })?;
        }
        Ok((read, frames.is_between_messages()))
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_messages(
            messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let bytes = framed(&messages);
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<_> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&chunks, 40), Ok((messages, true)));
        }

        #[test]
        fn any_bytes_hold_less_than_a_message(bytes in prop::collection::vec(0_u8..3, 0..60)) {
            let mut frames = FrameReader::new(30);
            for byte in bytes {
                if frames.feed(&[byte], |_| true).is_err() {
                    break;
                }
                prop_assert!(frames.held_bytes() < PREFIX_BYTES + 30);
            }
        }
    }

    #[test]
    fn a_message_is_encoded_with_its_length() {
        assert_eq!(encode(&300_u32), [0, 0, 0, 0, 3, 8, 0xac, 2]);
        assert_eq!(encode(&0_u32), [0; 5]);
    }

    #[test]
    fn compressed_and_long_messages_are_refused_by_their_first_bytes() {
        assert_eq!(read(&[&[1]], 10), Err(InvalidFrame::Compressed));
        assert_eq!(read(&[&[0, 0, 0xa0, 0, 0]], 4 << 20), Err(InvalidFrame::TooLong(10 << 20)));
        assert_eq!(read(&[&[0, 0, 0], &[0, 11]], 10), Err(InvalidFrame::TooLong(11)));
        assert_eq!(read(&[&[0, 0, 0], &[0, 10]], 10), Ok((vec![], false)));
    }
}
