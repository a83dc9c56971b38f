//! The directory source: manifests on disk -> changes of objects, at once and file by file.
//!
//! [`watch`] hears of events, [`pending`] decides when a touched file is worth reading, [`scan`] walks when events do not
//! tell enough, [`mod@file`] and [`tree`] compare what is there with what was, so that only what changed is passed on.
//! Never judges what an object means, and knows nobody who listens.

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

pub use tree::Tree;
pub use watch::{Directory, News, StartError};

/// Everything a directory holds, read once.
#[derive(Debug)]
pub struct Contents {
    /// Its objects.
    pub changes: Vec<Change>,
    /// What could not be read.
    pub diagnostics: Vec<Diagnostic>,
    /// The number of manifest files.
    pub files: usize,
}

/// Reads manifests that are in no file, under a name for diagnostics.
#[must_use]
pub fn read_text(name: &str, text: &str) -> Contents {
    let mut tree = Tree::new(Path::new(name));
    let changes = tree.read_text(Path::new(name), text);
    Contents { changes, diagnostics: tree.diagnostics(), files: tree.len() }
}

/// Reads a directory (or a single file) once, for commands that do not watch.
///
/// # Errors
/// It cannot be listed.
pub fn read(path: &Path) -> io::Result<Contents> {
    let mut tree = Tree::new(path);
    let changes = if path.is_file() { tree.read(&[path.to_path_buf()]) } else { tree.read_all()? };
    Ok(Contents { changes, diagnostics: tree.diagnostics(), files: tree.len() })
}
