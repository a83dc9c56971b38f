//! Database files, read at the start of the process and again when they change. A truncated or unreadable file
//! leaves the previous database in use.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fairway_model::GeoKind;

use super::database::Database;
use super::shared::{DatabaseFigures, Databases, FileFigures, SharedDatabases};

/// Interval at which the files are checked.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// File size limit in bytes.
const MAX_FILE_BYTES: u64 = 512 << 20;

/// The watched files.
pub(super) struct DatabaseFiles {
    files: Vec<WatchedFile>,
    shared: Weak<SharedDatabases>,
    /// Replaced databases that workers may still use: freed here, not by a worker.
    retired: Vec<Arc<Databases>>,
}

struct WatchedFile {
    path: PathBuf,
    refused: u64,
    /// State at the last check.
    last_seen: Option<FileStamp>,
    /// State at the last read; `None` before the first.
    last_read: Option<Option<FileStamp>>,
    database: Option<Arc<Database>>,
}

/// Identifies the state of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn from_metadata(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl DatabaseFiles {
    pub(super) fn new(paths: &[PathBuf], to: &Arc<SharedDatabases>) -> Self {
        let watched = |path: &PathBuf| WatchedFile {
            path: path.clone(),
            refused: 0,
            last_seen: None,
            last_read: None,
            database: None,
        };
        Self { files: paths.iter().map(watched).collect(), shared: Arc::downgrade(to), retired: Vec::new() }
    }

    /// Whether the databases are still in use.
    pub(super) fn are_used(&self) -> bool {
        self.shared.strong_count() > 0
    }

    /// Reads changed files once they are no longer being written, that is, unchanged between two checks; the
    /// first time reads all.
    pub(super) fn reload_changed(&mut self) {
        let mut has_changed = false;
        for index in 0..self.files.len() {
            has_changed |= self.reload_if_changed(index);
        }
        if has_changed {
            self.publish();
        }
        self.retired.retain(|old| Arc::strong_count(old) > 1);
    }

    /// Reads a file if it changed; returns whether it did.
    fn reload_if_changed(&mut self, index: usize) -> bool {
        let file = &mut self.files[index];
        let stamp = fs::metadata(&file.path).ok().map(|it| FileStamp::from_metadata(&it));
        let is_settled = file.last_read.is_none() || file.last_seen == stamp;
        file.last_seen = stamp;
        if file.last_read == Some(stamp) || !is_settled {
            return false;
        }
        file.last_read = Some(stamp);
        let read = read_database(&file.path).and_then(|database| {
            match self.other_file_of_kind(index, database.kind()) {
                Some(other) => Err(format!("is of the same kind as {}, which is in use", other.display())),
                None => Ok(Arc::new(database)),
            }
        });
        let file = &mut self.files[index];
        let path = file.path.display();
        match read {
            Ok(database) => {
                let (type_name, built) = (database.type_name(), database.built());
                tracing::info!(%path, type_name, built, bytes = database.bytes(), "a GeoIP database is in use");
                file.database = Some(database);
            }
            Err(why) => {
                file.refused += 1;
                match &file.database {
                    Some(old) => tracing::warn!(
                        "the GeoIP database {path} {why}; the database built at {} stays in use",
                        old.built()
                    ),
                    None => tracing::warn!(
                        "the GeoIP database {path} {why}; without it, rules that allow what it knows allow nobody, rules that \
                         deny deny everybody, and headers and logs lack its values"
                    ),
                }
            }
        }
        true
    }

    /// Another file with a database of this kind.
    fn other_file_of_kind(&self, index: usize, kind: GeoKind) -> Option<&Path> {
        let has = |file: &WatchedFile| file.database.as_ref().is_some_and(|it| it.kind() == kind);
        let others = self.files.iter().enumerate().filter(|(at, file)| *at != index && has(file));
        others.map(|(_, file)| &*file.path).next()
    }

    fn publish(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        let database_of = |kind| {
            self.files.iter().filter_map(|file| file.database.as_ref()).find(|it| it.kind() == kind).cloned()
        };
        let databases =
            Databases { places: database_of(GeoKind::Places), networks: database_of(GeoKind::Networks) };
        let figures = self.files.iter().map(WatchedFile::figures).collect();
        self.retired.push(shared.replace(databases, figures));
    }
}

impl WatchedFile {
    fn figures(&self) -> FileFigures {
        let database = self.database.as_ref().map(|it| DatabaseFigures {
            type_name: it.type_name().into(),
            built: it.built(),
            bytes: it.bytes() as u64,
        });
        FileFigures { path: self.path.to_string_lossy().into(), refused: self.refused, database }
    }
}

/// Reads a whole file; the error is a predicate for the file.
fn read_database(path: &Path) -> Result<Database, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let is_file = fs::metadata(path).map_err(failed)?.is_file();
    if !is_file {
        return Err("is not a regular file".to_owned());
    }
    let mut file = File::open(path).map_err(failed)?;
    let before = FileStamp::from_metadata(&file.metadata().map_err(failed)?);
    if before.bytes > MAX_FILE_BYTES {
        return Err(format!("has {} bytes; the limit is {MAX_FILE_BYTES}", before.bytes));
    }
    let room = usize::try_from(before.bytes).unwrap_or(usize::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| "does not fit into memory".to_owned())?;
    file.by_ref().take(before.bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    let after = FileStamp::from_metadata(&file.metadata().map_err(failed)?);
    if bytes.len() as u64 != before.bytes || after != before {
        return Err("changed while it was read".to_owned());
    }
    Database::read(bytes)
}
