//! The files of databases: read when the process starts and again when they change. A file that is torn, or cannot be read, leaves
//! the database that was read before in use.

use std::fs::{self, File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fairway_model::GeoKind;

use super::database::Database;
use super::shared::{DatabaseFigures, Databases, FileFigures, Shared};

/// How often the files are looked at.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);

/// The most bytes that a file may have.
const MAX_BYTES: u64 = 512 << 20;

/// The files.
pub(super) struct Files {
    all: Vec<Watched>,
    to: Weak<Shared>,
    /// What workers may still use: it is freed here and not by one of them.
    retired: Vec<Arc<Databases>>,
}

struct Watched {
    path: PathBuf,
    refused: u64,
    /// As it was when it was looked at last.
    seen: Option<Stamp>,
    /// As it was when it was read last; none before that.
    tried: Option<Option<Stamp>>,
    database: Option<Arc<Database>>,
}

/// What changes whenever a file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }
}

impl Files {
    pub(super) fn new(paths: &[PathBuf], to: &Arc<Shared>) -> Self {
        let watched = |path: &PathBuf| Watched {
            path: path.clone(),
            refused: 0,
            seen: None,
            tried: None,
            database: None,
        };
        Self { all: paths.iter().map(watched).collect(), to: Arc::downgrade(to), retired: Vec::new() }
    }

    /// Whether somebody may still use what is read.
    pub(super) fn are_used(&self) -> bool {
        self.to.strong_count() > 0
    }

    /// Reads the files that have changed and are no longer being written, which is what two looks in a row see; the first time all.
    pub(super) fn look(&mut self) {
        let mut has_changed = false;
        for index in 0..self.all.len() {
            has_changed |= self.look_at(index);
        }
        if has_changed {
            self.replace();
        }
        self.retired.retain(|old| Arc::strong_count(old) > 1);
    }

    /// Whether it was read again.
    fn look_at(&mut self, index: usize) -> bool {
        let file = &mut self.all[index];
        let stamp = fs::metadata(&file.path).ok().map(|it| Stamp::of(&it));
        let is_settled = file.tried.is_none() || file.seen == stamp;
        file.seen = stamp;
        if file.tried == Some(stamp) || !is_settled {
            return false;
        }
        file.tried = Some(stamp);
        let read = read(&file.path).and_then(|database| match self.other(index, database.kind()) {
            Some(other) => Err(format!("is of the same kind as {}, and one is enough", other.display())),
            None => Ok(Arc::new(database)),
        });
        let file = &mut self.all[index];
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
                        "the GeoIP database {path} {why}; the one that was built at {} stays in use",
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
    fn other(&self, index: usize, kind: GeoKind) -> Option<&Path> {
        let has = |file: &Watched| file.database.as_ref().is_some_and(|it| it.kind() == kind);
        let others = self.all.iter().enumerate().filter(|(at, file)| *at != index && has(file));
        others.map(|(_, file)| &*file.path).next()
    }

    fn replace(&mut self) {
        let Some(shared) = self.to.upgrade() else { return };
        let of = |kind| {
            self.all.iter().filter_map(|file| file.database.as_ref()).find(|it| it.kind() == kind).cloned()
        };
        let databases = Databases { places: of(GeoKind::Places), networks: of(GeoKind::Networks) };
        let figures = self.all.iter().map(Watched::figures).collect();
        self.retired.push(shared.replace(databases, figures));
    }
}

impl Watched {
    fn figures(&self) -> FileFigures {
        let database = self.database.as_ref().map(|it| DatabaseFigures {
            type_name: it.type_name().into(),
            built: it.built(),
            bytes: it.bytes() as u64,
        });
        FileFigures { path: self.path.to_string_lossy().into(), refused: self.refused, database }
    }
}

/// Reads a file as a whole; the error is a sentence without its subject.
fn read(path: &Path) -> Result<Database, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let is_file = fs::metadata(path).map_err(failed)?.is_file();
    if !is_file {
        return Err("is no file".to_owned());
    }
    let mut file = File::open(path).map_err(failed)?;
    let before = Stamp::of(&file.metadata().map_err(failed)?);
    if before.bytes > MAX_BYTES {
        return Err(format!("has {} bytes, and may have {MAX_BYTES}", before.bytes));
    }
    let room = usize::try_from(before.bytes).unwrap_or(usize::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(room).map_err(|_| "has no room in memory".to_owned())?;
    file.by_ref().take(before.bytes + 1).read_to_end(&mut bytes).map_err(failed)?;
    let after = Stamp::of(&file.metadata().map_err(failed)?);
    if bytes.len() as u64 != before.bytes || after != before {
        return Err("changed while it was read".to_owned());
    }
    Database::read(bytes)
}
