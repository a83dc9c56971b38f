//! What of held bodies has no room in memory: one file of the process, without a name, that a thread of its own writes and reads. A slow
//! disk delays the exchanges that wait for it, and no others.
//!
//! The file consists of extents of one size, which are used again once they are free. Its bound is also the bound of what all bodies
//! have on disk, and the file takes one descriptor however many they are.

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

/// Bytes of an extent.
pub(crate) const EXTENT: usize = 16 * 1024;

/// The most extents that wait to be written: what a disk that stands still may take of memory, also for bodies whose exchanges are over.
const MOST_WAITING: u64 = 4096;

/// How often the log says that the disk fails.
const QUIET: Duration = Duration::from_secs(10);

/// The file, or none.
#[derive(Clone, Default)]
pub(crate) struct Disk(Option<Arc<Inner>>);

struct Inner {
    way: Way,
    /// Bytes of extents in use.
    used: AtomicU64,
    /// Extents that wait to be written.
    waiting: AtomicU64,
}

/// How jobs are done.
enum Way {
    Thread(mpsc::Sender<Job>),
    /// At once: beside a thread, the paused clock of a test would run on.
    #[cfg(test)]
    Inline(std::sync::Mutex<Extents>),
}

/// A part of the file, free again when this is dropped.
pub(super) struct Extent {
    number: u64,
    of: Of,
    inner: Arc<Inner>,
}

/// Whose body an extent is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Request,
    /// All of them together have at most half of the file: without it, they stream, and requests fail.
    Response,
}

/// What becomes of a piece that is written: where it is, and its buffer, empty; or the buffer as it was.
pub(super) type Written = Result<(Extent, Vec<u8>), Vec<u8>>;

/// What is read, in the buffer that was given.
pub(super) type Read = io::Result<Vec<u8>>;

enum Job {
    /// Exactly an extent.
    Write(Vec<u8>, Of, oneshot::Sender<Written>),
    Read(u64, Vec<u8>, oneshot::Sender<Read>),
    Free(u64, Of),
}

/// A job that is done, and whoever waits for it.
enum Done {
    Write(Written, oneshot::Sender<Written>),
    Read(Read, oneshot::Sender<Read>),
    Free,
}

/// Which extents there are.
struct Extents {
    file: File,
    /// How many there may be.
    most: u64,
    /// How many there are, free or not.
    made: u64,
    free: Vec<u64>,
    /// How many responses have.
    of_responses: u64,
    said: Option<Instant>,
}

impl Disk {
    /// A file in `directory` of at most so many bytes, and its thread.
    ///
    /// # Errors
    /// No file can be made there, or no thread be had.
    pub(crate) fn open(directory: &Path, most: u64) -> io::Result<Self> {
        let mut extents = Extents::new(directory, most)?;
        let (sender, jobs) = mpsc::channel();
        let inner =
            Arc::new(Inner { way: Way::Thread(sender), used: AtomicU64::new(0), waiting: AtomicU64::new(0) });
        // A strong reference would keep the channel open, and so the thread, for ever.
        let weak = Arc::downgrade(&inner);
        std::thread::Builder::new().name("disk".to_owned()).spawn(move || {
            while let Ok(job) = jobs.recv() {
                extents.run(job, &weak).tell();
            }
        })?;
        Ok(Self(Some(inner)))
    }

    /// The same without a thread.
    #[cfg(test)]
    pub(crate) fn inline(directory: &Path, most: u64) -> io::Result<Self> {
        let way = Way::Inline(std::sync::Mutex::new(Extents::new(directory, most)?));
        let inner = Inner { way, used: AtomicU64::new(0), waiting: AtomicU64::new(0) };
        Ok(Self(Some(Arc::new(inner))))
    }

    /// One whose thread has gone.
    #[cfg(test)]
    pub(super) fn gone() -> Self {
        let way = Way::Thread(mpsc::channel().0);
        Self(Some(Arc::new(Inner { way, used: AtomicU64::new(0), waiting: AtomicU64::new(0) })))
    }

    /// Blocks of 512 bytes that the file takes.
    #[cfg(test)]
    pub(super) fn blocks(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        match self.0.as_ref().map(|inner| &inner.way) {
            Some(Way::Inline(extents)) => {
                let extents = extents.lock().expect("nothing panics in here");
                extents.file.metadata().expect("a file").blocks()
            }
            _ => 0,
        }
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_some()
    }

    /// Says once in the log that there is none.
    pub(crate) fn miss() {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            tracing::warn!(
                "a body that is to be held has no room in memory, and there is no --buffer-dir: such requests are answered 503"
            );
        });
    }

    /// Bytes that bodies have on it.
    pub(crate) fn used(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.used.load(Ordering::Relaxed))
    }

    /// Writes an extent. Without a disk, or once its thread is gone, nobody answers.
    pub(super) fn write(&self, data: Vec<u8>, of: Of) -> oneshot::Receiver<Written> {
        debug_assert_eq!(data.len(), EXTENT, "extents are written whole");
        let (reply, written) = oneshot::channel();
        if let Some(inner) = &self.0 {
            if inner.waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING {
                inner.begin(Job::Write(data, of, reply));
            } else {
                inner.waiting.fetch_sub(1, Ordering::Relaxed);
                Done::Write(Err(data), reply).tell();
            }
        }
        written
    }
}

impl Inner {
    fn begin(self: &Arc<Self>, job: Job) {
        match &self.way {
            // Without a thread, whoever waits sees that nobody answers.
            Way::Thread(jobs) => _ = jobs.send(job),
            #[cfg(test)]
            Way::Inline(extents) => {
                let done = extents.lock().expect("nothing panics in here").run(job, &Arc::downgrade(self));
                done.tell();
            }
        }
    }
}

impl Extent {
    /// Reads it into a buffer of any length.
    pub(super) fn read(&self, into: Vec<u8>) -> oneshot::Receiver<Read> {
        let (reply, read) = oneshot::channel();
        self.inner.begin(Job::Read(self.number, into, reply));
        read
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.inner.used.fetch_sub(EXTENT as u64, Ordering::Relaxed);
        // Behind all that was begun with it.
        self.inner.begin(Job::Free(self.number, self.of));
    }
}

impl Done {
    fn tell(self) {
        // Whoever asked may have left; an extent that nobody takes is free again.
        match self {
            Self::Write(written, reply) => _ = reply.send(written),
            Self::Read(read, reply) => _ = reply.send(read),
            Self::Free => {}
        }
    }
}

impl Extents {
    fn new(directory: &Path, most: u64) -> io::Result<Self> {
        let file = tempfile::tempfile_in(directory)?;
        let most = most / EXTENT as u64;
        Ok(Self { file, most, made: 0, free: Vec::new(), of_responses: 0, said: None })
    }

    fn run(&mut self, job: Job, inner: &Weak<Inner>) -> Done {
        match job {
            Job::Write(data, of, reply) => {
                let Some(inner) = inner.upgrade() else { return Done::Write(Err(data), reply) };
                inner.waiting.fetch_sub(1, Ordering::Relaxed);
                // Whoever asked may have left meanwhile.
                let written = if reply.is_closed() { Err(data) } else { self.write(data, of, inner) };
                Done::Write(written, reply)
            }
            Job::Read(number, mut into, reply) => {
                into.resize(EXTENT, 0);
                let read = self.file.read_exact_at(&mut into, number * EXTENT as u64);
                Done::Read(read.map(|()| into).inspect_err(|error| self.complain(error)), reply)
            }
            Job::Free(number, of) => {
                self.punch(number);
                self.free.push(number);
                self.of_responses -= u64::from(of == Of::Response);
                if self.free.len() as u64 == self.made {
                    self.give_back();
                }
                Done::Free
            }
        }
    }

    fn write(&mut self, mut data: Vec<u8>, of: Of, inner: Arc<Inner>) -> Written {
        if of == Of::Response && self.of_responses >= self.most / 2 {
            return Err(data);
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.made < self.most => {
                self.made += 1;
                self.made - 1
            }
            None => return Err(data),
        };
        if let Err(error) = self.file.write_all_at(&data, number * EXTENT as u64) {
            self.complain(&error);
            self.free.push(number);
            return Err(data);
        }
        data.clear();
        self.of_responses += u64::from(of == Of::Response);
        inner.used.fetch_add(EXTENT as u64, Ordering::Relaxed);
        Ok((Extent { number, of, inner }, data))
    }

    /// Nobody needs the bytes of an extent: they take no space, are not written if they were not yet, and are no more in the page
    /// cache, where they would count as memory of the process's cgroup.
    fn punch(&self, number: u64) {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Not every file system can; there they go when nobody has anything in the file.
        let _ = fallocate(&self.file, flags, number * EXTENT as u64, EXTENT as u64);
    }

    /// Nobody has anything in the file: it takes no space.
    fn give_back(&mut self) {
        match self.file.set_len(0) {
            Ok(()) => (self.made, self.free) = (0, Vec::new()),
            Err(error) => self.complain(&error),
        }
    }

    fn complain(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.said.is_none_or(|said| now.duration_since(said) >= QUIET) {
            self.said = Some(now);
            tracing::warn!(%error, "the file of --buffer-dir fails: requests that need it are answered 503");
        }
    }
}
