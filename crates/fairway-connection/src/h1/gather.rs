//! Small pieces of a body become one: what comes in chunks of a byte goes on in one chunk for each read. Whoever
//! receives it pays for the number of chunks, not for what is in them.

use fairway_net::wire::Workspace;

/// Smaller pieces are gathered; larger ones are not worth a copy.
const SMALL: usize = 1024;

/// Pieces of one read, on their way.
pub(super) struct Gatherer<'b, 'w> {
    /// The only piece that waits, if no other one followed: it is not copied.
    lone: &'b [u8],
    /// Those that wait, if there are several.
    several: Vec<u8>,
    workspace: &'w Workspace,
}

impl<'b, 'w> Gatherer<'b, 'w> {
    /// Nothing waits.
    pub(super) fn new(workspace: &'w Workspace) -> Self {
        Self { lone: &[], several: Vec::new(), workspace }
    }

    /// Passes a piece on, or keeps it for those that follow.
    pub(super) fn add<E>(
        &mut self,
        piece: &'b [u8],
        sink: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if piece.len() >= SMALL {
            self.pass_on(sink)?;
            return sink(piece);
        }
        if self.several.is_empty() && self.lone.is_empty() {
            self.lone = piece;
            return Ok(());
        }
        if self.several.is_empty() {
            self.workspace.lend(&mut self.several);
            self.several.extend_from_slice(std::mem::take(&mut self.lone));
        }
        self.several.extend_from_slice(piece);
        Ok(())
    }

    /// Passes on what waits: the read is over.
    pub(super) fn end<E>(mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = self.pass_on(sink);
        self.workspace.take_back(&mut self.several);
        result
    }

    fn pass_on<E>(&mut self, sink: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let result = match std::mem::take(&mut self.lone) {
            [] if self.several.is_empty() => Ok(()),
            [] => sink(&self.several),
            lone => sink(lone),
        };
        self.several.clear();
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of these pieces, and where it is in memory.
    fn gathered(pieces: &[&[u8]]) -> Vec<(Vec<u8>, *const u8)> {
        let workspace = Workspace::new();
        let mut gatherer = Gatherer::new(&workspace);
        let mut passed = Vec::new();
        let mut sink = |data: &[u8]| {
            passed.push((data.to_vec(), data.as_ptr()));
            Ok::<_, ()>(())
        };
        pieces.iter().for_each(|piece| gatherer.add(piece, &mut sink).unwrap());
        gatherer.end(&mut sink).unwrap();
        passed
    }

    #[test]
    fn small_pieces_become_one_and_keep_their_place_among_large_ones() {
        let large = [b'L'; SMALL];
        let passed = gathered(&[b"a", b"b", b"c", &large, b"d", &large, &large, b"e", b"f"]);
        let data: Vec<_> = passed.iter().map(|(data, _)| &data[..]).collect();
        assert_eq!(data, [&b"abc"[..], &large, b"d", &large, &large, b"ef"]);
    }

    #[test]
    fn a_piece_that_comes_alone_is_not_copied() {
        let (large, small) = ([b'L'; SMALL], *b"small");
        let at = |pieces: &[&[u8]]| gathered(pieces).iter().map(|(_, at)| *at).collect::<Vec<_>>();
        assert_eq!(at(&[&small]), [small.as_ptr()]);
        assert_eq!(at(&[&large, &small]), [large.as_ptr(), small.as_ptr()]);
        assert!(gathered(&[]).is_empty());
    }

    #[test]
    fn nothing_is_passed_on_again_after_it_was_refused() {
        let workspace = Workspace::new();
        let mut gatherer = Gatherer::new(&workspace);
        let mut asked = 0;
        let mut refuse = |_: &[u8]| {
            asked += 1;
            Err(())
        };
        assert_eq!(gatherer.add(b"a", &mut refuse), Ok(()));
        assert_eq!(gatherer.add(b"b", &mut refuse), Ok(()));
        assert_eq!(gatherer.add(&[b'L'; SMALL], &mut refuse), Err(()));
        assert_eq!(gatherer.end(&mut refuse), Ok(()));
        assert_eq!(asked, 1);
    }
}
