//! Writes the result to a file or to standard output.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `text` to `file`, or to standard output if it is `None`.
pub(super) fn write(file: Option<&Path>, text: &str) -> Result<()> {
    match file {
        Some(path) => std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display())),
        None => Ok(io::stdout().lock().write_all(text.as_bytes())?),
    }
}
