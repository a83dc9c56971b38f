//! The part of buffered bodies that does not fit in memory: one unnamed file of the process, which its own thread writes and
//! reads. A slow disk delays only the exchanges that wait for it.
//!
//! The file consists of extents of one size, which are reused once they are free. Its limit is the limit for all bodies on
//! disk, and it needs one file descriptor in total.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Once, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate};
use tokio::sync::oneshot;

/// The size of an extent, in bytes.
pub(crate) const EXTENT_BYTES: usize = 16 * 1024;

/// Extents that may wait to be written: bounds the memory that a stalled disk takes, also for bodies whose exchanges are over.
const MAX_WAITING_EXTENTS: u64 = 4096;

/// The minimum interval between log messages about disk failures.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The buffer file, if one is configured.
#[derive(Clone, Default)]
pub(crate) struct Disk(Option<Arc<Inner>>);

struct Inner {
    runner: JobRunner,
    /// Bytes of extents in use.
    used: AtomicU64,
    /// Extents that wait to be written.
    waiting: AtomicU64,
}

/// How jobs are run.
enum JobRunner {
    Thread(mpsc::Sender<Job>),
    /// At once: with a thread, the paused clock of a test would advance.
    #[cfg(test)]
    Inline(std::sync::Mutex<Extents>),
}

/// An extent of the file, freed when this is dropped.
pub(super) struct Extent {
    number: u64,
    body_kind: BodyKind,
    inner: Arc<Inner>,
}

/// The kind of body in an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Request,
    /// All of them together get at most half of the file: without room they stream, while requests fail.
    Response,
}

/// The result of a write: the extent and the emptied buffer, or the buffer unchanged.
pub(super) type WriteResult = Result<(Extent, Vec<u8>), Vec<u8>>;

/// The result of a read, in the buffer that was passed.
pub(super) type ReadResult = io::Result<Vec<u8>>;

enum Job {
    /// Data of exactly one extent.
    Write(Vec<u8>, BodyKind, oneshot::Sender<WriteResult>),
    Read(u64, Vec<u8>, oneshot::Sender<ReadResult>),
    Free(u64, BodyKind),
}

/// A finished job, and its waiting sender.
enum FinishedJob {
    Write(WriteResult, oneshot::Sender<WriteResult>),
    Read(ReadResult, oneshot::Sender<ReadResult>),
    Free,
}

/// The file and its extents.
struct Extents {
    file: File,
    /// The maximum number of extents.
    max_extents: u64,
    /// The number of extents allocated, free or not.
    allocated: u64,
    free: Vec<u64>,
    /// Extents in use by responses.
    response_extents: u64,
    last_logged: Option<Instant>,
}

impl Disk {
    /// Creates a file in `directory` of at most `max_bytes`, and its thread.
    ///
    /// # Errors
    /// The file cannot be created there, or the thread cannot be started.
    pub(crate) fn open(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        let mut extents = Extents::new(directory, max_bytes)?;
        let (sender, jobs) = mpsc::channel();
        let inner = Arc::new(Inner {
            runner: JobRunner::Thread(sender),
            used: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
        });
        // A strong reference would keep the channel open, and the thread running, forever.
        let weak = Arc::downgrade(&inner);
        std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            while let Ok(job) = jobs.recv() {
                extents.run(job, &weak).reply();
            }
        })?;
        Ok(Self(Some(inner)))
    }

    /// Creates the file without a thread.
    #[cfg(test)]
    pub(crate) fn inline(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        let runner = JobRunner::Inline(std::sync::Mutex::new(Extents::new(directory, max_bytes)?));
        let inner = Inner { runner, used: AtomicU64::new(0), waiting: AtomicU64::new(0) };
        Ok(Self(Some(Arc::new(inner))))
    }

    /// A disk whose thread has ended.
    #[cfg(test)]
    pub(super) fn with_gone_thread() -> Self {
        let runner = JobRunner::Thread(mpsc::channel().0);
        Self(Some(Arc::new(Inner { runner, used: AtomicU64::new(0), waiting: AtomicU64::new(0) })))
    }

    /// The blocks of 512 bytes that the file occupies.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        match self.0.as_ref().map(|inner| &inner.runner) {
            Some(JobRunner::Inline(extents)) => {
                let extents = extents.lock().expect("nothing panics in here");
                extents.file.metadata().expect("a file").blocks()
            }
            _ => 0,
        }
    }

    /// Whether a file is configured.
    pub(crate) fn is_available(&self) -> bool {
        self.0.is_some()
    }

    /// Logs once that no file is configured.
    pub(crate) fn log_missing() {
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            tracing::warn!(
                "a body to buffer does not fit in memory, and --buffer-dir is not set: such requests return 503"
            );
        });
    }

    /// The bytes of bodies in the file.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.used.load(Ordering::Relaxed))
    }

    /// Writes an extent. Without a disk or its thread, the receiver is closed without a result.
    pub(super) fn write(&self, data: Vec<u8>, kind: BodyKind) -> oneshot::Receiver<WriteResult> {
        debug_assert_eq!(data.len(), EXTENT_BYTES, "extents are written whole");
        let (reply, written) = oneshot::channel();
        if let Some(inner) = &self.0 {
            if inner.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING_EXTENTS {
                inner.submit(Job::Write(data, kind, reply));
            } else {
                inner.waiting.fetch_sub(1, Ordering::Relaxed);
                FinishedJob::Write(Err(data), reply).reply();
            }
        }
        written
    }
}

impl Inner {
    fn submit(self: &Arc<Self>, job: Job) {
        match &self.runner {
            // Without the thread, the receiver sees a closed channel.
            JobRunner::Thread(jobs) => _ = jobs.send(job),
            #[cfg(test)]
            JobRunner::Inline(extents) => {
                let done = extents.lock().expect("nothing panics in here").run(job, &Arc::downgrade(self));
                done.reply();
            }
        }
    }
}

impl Extent {
    /// Reads the extent into a buffer of any length.
    pub(super) fn read(&self, into: Vec<u8>) -> oneshot::Receiver<ReadResult> {
        let (reply, read) = oneshot::channel();
        self.inner.submit(Job::Read(self.number, into, reply));
        read
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.inner.used.fetch_sub(EXTENT_BYTES as u64, Ordering::Relaxed);
        // Queued after all earlier jobs of this extent.
        self.inner.submit(Job::Free(self.number, self.body_kind));
    }
}

impl FinishedJob {
    fn reply(self) {
        // The receiver may be gone; an extent that it does not take is freed.
        match self {
            Self::Write(written, reply) => _ = reply.send(written),
            Self::Read(read, reply) => _ = reply.send(read),
            Self::Free => {}
        }
    }
}

impl Extents {
    fn new(directory: &Path, max_bytes: u64) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        let max_extents = max_bytes / EXTENT_BYTES as u64;
        Ok(Self { file, max_extents, allocated: 0, free: Vec::new(), response_extents: 0, last_logged: None })
    }

    fn run(&mut self, job: Job, inner: &Weak<Inner>) -> FinishedJob {
        match job {
            Job::Write(data, kind, reply) => {
                let Some(inner) = inner.upgrade() else { return FinishedJob::Write(Err(data), reply) };
                inner.waiting.fetch_sub(1, Ordering::Relaxed);
                // The receiver may be gone.
                let written = if reply.is_closed() { Err(data) } else { self.write(data, kind, inner) };
                FinishedJob::Write(written, reply)
            }
            Job::Read(number, mut into, reply) => {
                into.resize(EXTENT_BYTES, 0);
                let read = self.file.read_exact_at(&mut into, number * EXTENT_BYTES as u64);
                FinishedJob::Read(read.map(|()| into).inspect_err(|error| self.log_failure(error)), reply)
            }
            Job::Free(number, kind) => {
                self.punch_hole(number);
                self.free.push(number);
                self.response_extents -= u64::from(kind == BodyKind::Response);
                if self.free.len() as u64 == self.allocated {
                    self.truncate_file();
                }
                FinishedJob::Free
            }
        }
    }

    fn write(&mut self, mut data: Vec<u8>, kind: BodyKind, inner: Arc<Inner>) -> WriteResult {
        if kind == BodyKind::Response && self.response_extents >= self.max_extents / 2 {
            return Err(data);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.allocated < self.max_extents => {
                self.allocated += 1;
                self.allocated - 1
            }
            None => return Err(data),
        };
        if let Err(error) = self.file.write_all_at(&data, number * EXTENT_BYTES as u64) {
            self.log_failure(&error);
            self.free.push(number);
            return Err(data);
        }
        data.clear();
        self.response_extents += u64::from(kind == BodyKind::Response);
        inner.used.fetch_add(EXTENT_BYTES as u64, Ordering::Relaxed);
        Ok((Extent { number, body_kind: kind, inner }, data))
    }

    /// Frees the space of an extent: unwritten pages are dropped, and they leave the page cache, where they would count as
    /// memory of the process's cgroup.
    fn punch_hole(&self, number: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Not every file system supports this; there the space is freed when the file is empty.
        let _ = fallocate(&self.file, flags, number * EXTENT_BYTES as u64, EXTENT_BYTES as u64);
    }

    /// Truncates the file when no extent is in use.
    fn truncate_file(&mut self) {
        match self.file.set_len(0) {
            Ok(()) => (self.allocated, self.free) = (0, Vec::new()),
            Err(error) => self.log_failure(&error),
        }
    }

    fn log_failure(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.last_logged.is_none_or(|logged| now.duration_since(logged) >= LOG_INTERVAL) {
            self.last_logged = Some(now);
            tracing::warn!(%error, "the buffer file in --buffer-dir failed: requests that need it return 503");
        }
    }
}
