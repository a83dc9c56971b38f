//! One buffered body.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fairway_model::BodyBuffer;
use tokio::sync::oneshot;

use super::disk::{BodyKind, Disk, EXTENT_BYTES, Extent, ReadResult, WriteResult};
use crate::memory_share::MemoryReservation;

/// The room for a body that has just begun.
const MIN_ROOM_BYTES: usize = 4096;

/// A body, or the part received so far: its beginning in memory, then extents on disk, then the data for the next extent.
///
/// It can be read while it grows, and again from its beginning.
pub(crate) struct Store {
    bounds: BodyBuffer,
    body_kind: BodyKind,
    disk: Disk,
    /// Its share of the worker's memory.
    share: MemoryReservation,
    head: Vec<u8>,
    extents: Vec<Extent>,
    writing: Option<oneshot::Receiver<WriteResult>>,
    tail: Vec<u8>,
    /// Whether the disk refused a write; it is not tried again.
    disk_refused: bool,
    /// Whether bytes are lost.
    is_lost: bool,
    /// The number of bytes read.
    read_position: u64,
    /// The extent that was last read from disk: its index and bytes.
    loaded: Option<(usize, Vec<u8>)>,
    loading: Option<(usize, oneshot::Receiver<ReadResult>)>,
}

/// Why a store takes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// The body has reached its maximum size.
    TooLarge,
    /// There is no disk, or it is full or failing.
    NoDisk,
    /// All stores together have reached their memory limit.
    NoMemory,
}

/// Buffered data cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Store {
    /// Creates an empty store with an empty share.
    pub(crate) fn new(kind: BodyKind, bounds: BodyBuffer, disk: Disk, share: MemoryReservation) -> Self {
        Self {
            bounds,
            body_kind: kind,
            disk,
            share,
            head: Vec::new(),
            extents: Vec::new(),
            writing: None,
            tail: Vec::new(),
            disk_refused: false,
            is_lost: false,
            read_position: 0,
            loaded: None,
            loading: None,
        }
    }

    /// The bytes in the store.
    pub(crate) fn len(&self) -> u64 {
        (self.head.len() + self.tail.len()) as u64 + self.on_disk()
    }

    /// Bytes that are on disk or being written.
    fn on_disk(&self) -> u64 {
        ((self.extents.len() + usize::from(self.writing.is_some())) * EXTENT_BYTES) as u64
    }

    /// Whether everything was read; false if bytes are lost.
    pub(crate) fn is_read(&self) -> bool {
        !self.is_lost && self.read_position == self.len()
    }

    /// Whether an extent is being read from disk.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.is_some()
    }

    /// Whether there is a disk.
    pub(crate) fn has_disk(&self) -> bool {
        self.disk.is_available()
    }

    /// Whether it takes nothing until the disk has written an extent.
    pub(crate) fn waits_for_disk(&self) -> bool {
        self.writing.is_some() && self.tail.len() >= EXTENT_BYTES
    }

    /// The bytes of memory in use.
    fn memory(&self) -> u64 {
        let extents = usize::from(self.writing.is_some())
            + usize::from(self.loaded.is_some() || self.loading.is_some());
        (self.head.len() + self.tail.len() + extents * EXTENT_BYTES) as u64
    }

    /// Ready with the number of bytes that it takes now, at least 1. `max_memory_bytes` is the limit for all stores together.
    pub(crate) fn poll_room(
        &mut self,
        cx: &mut Context<'_>,
        max_memory_bytes: u64,
    ) -> Poll<Result<usize, Full>> {
        if self.poll_write(cx).is_pending() && self.tail.len() >= EXTENT_BYTES {
            return Poll::Pending;
        }
        let in_memory = self.bounds.memory as usize - self.head.len();
        let available = self.bounds.disk - self.on_disk() - self.tail.len() as u64;
        let on_disk = match available {
            0 => Err(Full::TooLarge),
            _ if self.disk_refused || !self.disk.is_available() => Err(Full::NoDisk),
            left => Ok(usize::try_from(left).unwrap_or(usize::MAX).min(2 * EXTENT_BYTES - self.tail.len())),
        };
        let room = match (in_memory, on_disk) {
            (0, on_disk) => on_disk?,
            (in_memory, on_disk) => in_memory + on_disk.unwrap_or_default(),
        };
        // Room grows with what was received: clients cannot reserve memory by only announcing a body.
        let used = self.memory();
        let room =
            room.min(usize::try_from(self.len()).unwrap_or(EXTENT_BYTES).clamp(MIN_ROOM_BYTES, EXTENT_BYTES));
        Poll::Ready(if self.share.resize(used + room as u64, max_memory_bytes) {
            Ok(room)
        } else {
            Err(Full::NoMemory)
        })
    }

    /// Ready when nothing is being written. Starts a write when an extent is full.
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
                        (self.tail, self.disk_refused) = (refused, true);
                    }
                    // The disk thread has ended and the bytes are lost; reading them fails.
                    Err(_) => (self.disk_refused, self.is_lost) = (true, true),
                }
                self.writing = None;
            }
            if self.tail.len() < EXTENT_BYTES || self.disk_refused {
                return Poll::Ready(());
            }
            let behind = self.tail.split_off(EXTENT_BYTES);
            let extent = std::mem::replace(&mut self.tail, behind);
            self.writing = Some(self.disk.write(extent, self.body_kind));
        }
    }

    /// Appends data, at most what [`Self::poll_room`] returned.
    pub(crate) fn append(&mut self, data: &[u8]) {
        let in_memory = (self.bounds.memory as usize - self.head.len()).min(data.len());
        let (first, behind) = data.split_at(in_memory);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(behind);
    }

    /// Ready with the next bytes, at most `max_bytes`; empty at the end. [`Self::advance`] consumes them.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        max_bytes: usize,
    ) -> Poll<Result<&[u8], Unreadable>> {
        if self.read_position < self.head.len() as u64 {
            let rest = &self.head[self.read_position as usize..];
            return Poll::Ready(Ok(&rest[..rest.len().min(max_bytes)]));
        }
        let behind = self.read_position - self.head.len() as u64;
        let index = usize::try_from(behind / EXTENT_BYTES as u64).map_err(|_| Unreadable)?;
        if index == self.extents.len() && self.writing.is_some() {
            ready!(self.poll_write(cx));
        }
        if self.is_lost {
            return Poll::Ready(Err(Unreadable));
        }
        if index < self.extents.len() {
            ready!(self.poll_load(cx, index))?;
            let from = (behind % EXTENT_BYTES as u64) as usize;
            let rest = self.loaded.as_ref().map_or(&[][..], |(_, bytes)| &bytes[from..]);
            return Poll::Ready(Ok(&rest[..rest.len().min(max_bytes)]));
        }
        let rest = &self.tail[(behind - self.on_disk()) as usize..];
        Poll::Ready(Ok(&rest[..rest.len().min(max_bytes)]))
    }

    /// Ready when the extent is in memory.
    fn poll_load(&mut self, cx: &mut Context<'_>, index: usize) -> Poll<Result<(), Unreadable>> {
        while self.loaded.as_ref().is_none_or(|(loaded, _)| *loaded != index) {
            let buffer = self.loaded.take().map(|(_, buffer)| buffer).unwrap_or_default();
            let (asked, loading) =
                self.loading.get_or_insert_with(|| (index, self.extents[index].read(buffer)));
            let read = ready!(Pin::new(loading).poll(cx));
            let needed = *asked;
            self.loading = None;
            match read {
                Ok(Ok(bytes)) => self.loaded = Some((needed, bytes)),
                _ => return Poll::Ready(Err(Unreadable)),
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Consumes bytes that were read.
    pub(crate) fn advance(&mut self, used: usize) {
        self.read_position += used as u64;
    }

    /// Starts reading from the beginning again.
    pub(crate) fn rewind(&mut self) {
        self.read_position = 0;
    }

    /// Discards the content, all of which was read, so that the store has its full room again.
    pub(crate) fn empty(&mut self) {
        debug_assert!(self.is_read() && self.writing.is_none(), "nothing is lost");
        // Freed, not only cleared: its share of the memory ends here.
        (self.head, self.tail) = (Vec::new(), Vec::new());
        self.extents.clear();
        (self.loaded, self.loading) = (None, None);
        (self.read_position, self.disk_refused) = (0, false);
        self.share.resize(0, 0);
    }
}
