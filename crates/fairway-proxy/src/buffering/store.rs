//! One body that is held.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fairway_model::BodyBuffer;
use tokio::sync::oneshot;

use super::disk::{Disk, EXTENT, Extent, Of, Read, Written};
use crate::memory_share::Share;

/// What a body that begins is given.
const SMALL: usize = 4096;

/// A body, or what came of it: its beginning in memory, then extents on disk, then what is gathered for the next extent.
///
/// It is read while it grows, or again from its beginning.
pub(crate) struct Store {
    bounds: BodyBuffer,
    of: Of,
    disk: Disk,
    /// What it takes of the worker's memory.
    share: Share,
    head: Vec<u8>,
    extents: Vec<Extent>,
    writing: Option<oneshot::Receiver<Written>>,
    tail: Vec<u8>,
    /// Whether the disk took no more: it is not asked again.
    is_refused: bool,
    /// Whether bytes of it are gone.
    is_lost: bool,
    /// How much of it was read.
    at: u64,
    /// An extent that was read from disk: which, and its bytes.
    loaded: Option<(usize, Vec<u8>)>,
    loading: Option<(usize, oneshot::Receiver<Read>)>,
}

/// Why it takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// It has as much as one body may have.
    TooLarge,
    /// There is no disk, or it is full or fails.
    NoDisk,
    /// All that are held have as much memory as they may have.
    NoMemory,
}

/// What was held cannot be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Store {
    /// An empty one, whose share has no bytes yet.
    pub(crate) fn new(of: Of, bounds: BodyBuffer, disk: Disk, share: Share) -> Self {
        Self {
            bounds,
            of,
            disk,
            share,
            head: Vec::new(),
            extents: Vec::new(),
            writing: None,
            tail: Vec::new(),
            is_refused: false,
            is_lost: false,
            at: 0,
            loaded: None,
            loading: None,
        }
    }

    /// Bytes that it holds.
    pub(crate) fn len(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.on_disk()
    }

    /// Bytes that are on disk, or will be.
    fn on_disk(&self) -> u64 {
        ((self.extents.len() + usize::from(self.writing.is_some())) * EXTENT) as u64
    }

    /// Whether everything was read; never of a body of which bytes are gone.
    pub(crate) fn is_read(&self) -> bool {
        !self.is_lost && self.at == self.len()
    }

    /// Whether it is being read from disk.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether there is a disk to hold it on.
    pub(crate) fn has_disk(&self) -> bool {
        self.disk.is_there()
    }

    /// Whether it takes nothing before the disk has written something.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.writing.is_some() && self.tail.len() >= EXTENT
    }

    /// Bytes of memory that it takes.
    fn memory(&self) -> u64 {
        let extents = usize::from(self.writing.is_some())
            + usize::from(self.loaded.is_some() || self.loading.is_some());
        (self.head.len() + self.tail.len() + extents * EXTENT) as u64
    }

    /// Ready with how many bytes it takes now, at least 1, where all that are held may take `most` bytes of memory.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>, most: u64) -> Poll<Result<usize, Full>> {
        if self.poll_write(cx).is_pending() && self.tail.len() >= EXTENT {
            return Poll::Pending;
        }
        let in_memory = self.bounds.memory as usize - self.head.len();
        let left = self.bounds.disk - self.on_disk() - self.tail.len() as u64;
        let on_disk = match left {
            0 => Err(Full::TooLarge),
            _ if self.is_refused || !self.disk.is_there() => Err(Full::NoDisk),
            left => Ok(usize::try_from(left).unwrap_or(usize::MAX).min(2 * EXTENT - self.tail.len())),
        };
        let room = match (in_memory, on_disk) {
            (0, on_disk) => on_disk?,
            (in_memory, on_disk) => in_memory + on_disk.unwrap_or_default(),
        };
        // Who has sent little gets little: clients cannot take memory with what they only announce.
        let used = self.memory();
        let room = room.min(usize::try_from(self.len()).unwrap_or(EXTENT).clamp(SMALL, EXTENT));
        Poll::Ready(if self.share.resize(used + room as u64, most) { Ok(room) } else { Err(Full::NoMemory) })
    }

    /// Ready when nothing is being written. Begins to write where there is an extent to write.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(writing) = &mut self.writing {
                match ready!(Pin::new(writing).poll(cx)) {
                    Ok(Ok((extent, mut buffer))) => {
                        self.extents.push(extent);
                        if self.tail.is_empty() {
                            self.tail = std::mem::take(&mut buffer);
                        }
                    }
                    Ok(Err(mut refused)) => {
                        refused.append(&mut self.tail);
                        (self.tail, self.is_refused) = (refused, true);
                    }
                    // The thread of the disk has gone, and the bytes with it: whoever reads them sees it.
                    Err(_) => (self.is_refused, self.is_lost) = (true, true),
                }
                self.writing = None;
            }
            if self.tail.len() < EXTENT || self.is_refused {
                return Poll::Ready(());
            }
            let behind = self.tail.split_off(EXTENT);
            let extent = std::mem::replace(&mut self.tail, behind);
            self.writing = Some(self.disk.write(extent, self.of));
        }
    }

    /// Takes no more bytes than there is room for.
    pub(crate) fn append(&mut self, data: &[u8]) {
        let in_memory = (self.bounds.memory as usize - self.head.len()).min(data.len());
        let (first, behind) = data.split_at(in_memory);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(behind);
    }

    /// Ready with the bytes that come next, at most so many; with none at the end. [`Self::advance`] says how many were used.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Result<&[u8], Unreadable>> {
        if self.at < self.head.len() as u64 {
            let rest = &self.head[self.at as usize..];
            return Poll::Ready(Ok(&rest[..rest.len().min(most)]));
        }
        let behind = self.at - self.head.len() as u64;
        let index = usize::try_from(behind / EXTENT as u64).map_err(|_| Unreadable)?;
        if index == self.extents.len() && self.writing.is_some() {
            ready!(self.poll_write(cx));
        }
        if self.is_lost {
            return Poll::Ready(Err(Unreadable));
        }
        if index < self.extents.len() {
            ready!(self.poll_load(cx, index))?;
            let from = (behind % EXTENT as u64) as usize;
            let rest = self.loaded.as_ref().map_or(&[][..], |(_, bytes)| &bytes[from..]);
            return Poll::Ready(Ok(&rest[..rest.len().min(most)]));
        }
        let rest = &self.tail[(behind - self.on_disk()) as usize..];
        Poll::Ready(Ok(&rest[..rest.len().min(most)]))
    }

    /// Ready when an extent is in memory.
    fn poll_load(&mut self, cx: &mut Context<'_>, index: usize) -> Poll<Result<(), Unreadable>> {
        while self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != index) {
            let buffer = self.loaded.take().map(|(_, buffer)| buffer).unwrap_or_default();
            let (asked, loading) =
                self.loading.get_or_insert_with(|| (index, self.extents[index].read(buffer)));
            let read = ready!(Pin::new(loading).poll(cx));
            let asked = *asked;
            self.loading = None;
            match read {
                Ok(Ok(bytes)) => self.loaded = Some((asked, bytes)),
                _ => return Poll::Ready(Err(Unreadable)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// So many of the bytes that come next were used.
    pub(crate) fn advance(&mut self, used: usize) {
        self.at += used as u64;
    }

    /// It is read from its beginning again.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
    }

    /// Forgets what it holds, all of which was read, and takes as much as in the beginning.
    pub(crate) fn empty(&mut self) {
        debug_assert!(self.is_read() && self.writing.is_none(), "nothing is lost");
        // Not only cleared: its share of the memory ends here.
        (self.head, self.tail) = (Vec::new(), Vec::new());
        self.extents.clear();
        (self.loaded, self.loading) = (None, None);
        (self.at, self.is_refused) = (0, false);
        self.share.resize(0, 0);
    }
}
