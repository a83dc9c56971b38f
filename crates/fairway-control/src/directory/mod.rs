//! The directory source: manifest files -> changes of objects, without delay and file by file.
//!
//! [`watch`] receives events, [`pending`] decides when a touched file is read, [`scan`] walks the directory when events are not
//! enough, [`mod@file`] and [`tree`] compare with the previous state, so that only differences are reported. Nothing here
//! interprets an object.

pub mod file;
pub mod names;
pub mod pending;
pub mod scan;
pub mod tree;
pub mod watch;

use std::io;
use std::path::Path;

use fairway_objects::diagnostic::Diagnostic;
use fairway_objects::resources::Change;

pub use tree::ManifestTree;
pub use watch::{DirectoryUpdate, StartError, WatchedDirectory};

/// The content of a directory, read once.
#[derive(Debug)]
pub struct DirectoryContents {
    /// Its objects.
    pub changes: Vec<Change>,
    /// What could not be read.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of manifest files.
    pub files: usize,
}

/// Reads manifests that are in no file; `name` is used in diagnostics.
#[must_use]
pub fn read_text(name: &str, text: &str) -> DirectoryContents {
    let mut tree = ManifestTree::new(Path::new(name));
    let changes = tree.read_text(Path::new(name), text);
    DirectoryContents { changes, diagnostics: tree.diagnostics(), files: tree.len() }
}

/// Reads a directory or a single file once, for commands that do not watch.
///
/// # Errors
/// The directory cannot be listed.
pub fn read(path: &Path) -> io::Result<DirectoryContents> {
    let mut tree = ManifestTree::new(path);
    let changes = if path.is_file() { tree.read(&[path.to_path_buf()]) } else { tree.read_all()? };
    Ok(DirectoryContents { changes, diagnostics: tree.diagnostics(), files: tree.len() })
}
