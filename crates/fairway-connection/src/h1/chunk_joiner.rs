//! Joins small body chunks: everything from one read is forwarded as one chunk, because a receiver's cost grows with
//! the number of chunks, not with their size.

use fairway_net::wire::Workspace;

/// Chunks up to this size are joined; larger ones are not worth a copy.
const MAX_GATHERED_CHUNK: usize = 1024;

/// The chunks of one read that were not forwarded yet.
pub(super) struct Gatherer<'b, 'w> {
    /// The only buffered chunk, which needs no copy.
    single_chunk: &'b [u8],
    /// Two or more buffered chunks, copied together.
    gathered: Vec<u8>,
    workspace: &'w Workspace,
}

impl<'b, 'w> Gatherer<'b, 'w> {
    /// A gatherer without chunks.
    pub(super) fn new(workspace: &'w Workspace) -> Self {
        Self { single_chunk: &[], gathered: Vec::new(), workspace }
    }

    /// Forwards a chunk, or buffers it until more arrive.
    pub(super) fn push<E>(
        &mut self,
        piece: &'b [u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if piece.len() >= MAX_GATHERED_CHUNK {
            self.flush(sink)?;
            return sink(piece);
        }
        if self.gathered.is_empty() && self.single_chunk.is_empty() {
            self.single_chunk = piece;
            return Ok(());
        }
        if self.gathered.is_empty() {
            self.workspace.lend(&mut self.gathered);
            self.gathered.extend_from_slice(std::mem::take(&mut self.single_chunk));
        }
        self.gathered.extend_from_slice(piece);
        Ok(())
    }

    /// Forwards what is buffered: the read is over.
    pub(super) fn finish<E>(mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = self.flush(sink);
        self.workspace.take_back(&mut self.gathered);
        result
    }

    fn flush<E>(&mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = match std::mem::take(&mut self.single_chunk) {
            [] if self.gathered.is_empty() => Ok(()),
            [] => sink(&self.gathered),
            lone => sink(lone),
        };
        self.gathered.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The forwarded chunks and their addresses in memory.
    fn gathered(chunks: &[&[u8]]) -> Vec<(Vec<u8>, *const u8)> {
        let workspace = Workspace::new();
        let mut gatherer = Gatherer::new(&workspace);
        let mut passed = Vec::new();
        let mut sink = |data: &[u8]| {
            passed.push((data.to_vec(), data.as_ptr()));
            Ok::<_, ()>(())
        };
        chunks.iter().for_each(|piece| gatherer.push(piece, &mut sink).unwrap());
        gatherer.finish(&mut sink).unwrap();
        passed
    }

    #[test]
    fn small_pieces_become_one_and_keep_their_place_among_large_ones() {
        let large = [b'L'; MAX_GATHERED_CHUNK];
        let passed = gathered(&[b"a", b"b", b"c", &large, b"d", &large, &large, b"e", b"f"]);
        let data: Vec<_> = passed.iter().map(|(data, _)| &data[..]).collect();
        assert_eq!(data, [&b"abc"[..], &large, b"d", &large, &large, b"ef"]);
    }

    #[test]
    fn a_single_chunk_is_not_copied() {
        let (large, small) = ([b'L'; MAX_GATHERED_CHUNK], *b"small");
        let at = |chunks: &[&[u8]]| gathered(chunks).iter().map(|(_, at)| *at).collect::<Vec<_>>();
        assert_eq!(at(&[&small]), [small.as_ptr()]);
        assert_eq!(at(&[&large, &small]), [large.as_ptr(), small.as_ptr()]);
        assert!(gathered(&[]).is_empty());
    }

    #[test]
    fn nothing_is_forwarded_again_after_a_refusal() {
        let workspace = Workspace::new();
        let mut gatherer = Gatherer::new(&workspace);
        let mut total_bytes = 0;
        let mut refuse = |_: &[u8]| {
            total_bytes += 1;
            Err(())
        };
        assert_eq!(gatherer.push(b"a", &mut refuse), Ok(()));
        assert_eq!(gatherer.push(b"b", &mut refuse), Ok(()));
        assert_eq!(gatherer.push(&[b'L'; MAX_GATHERED_CHUNK], &mut refuse), Err(()));
        assert_eq!(gatherer.finish(&mut refuse), Ok(()));
        assert_eq!(total_bytes, 1);
    }
}
