//! Writes the files that proxies read, through a temporary file and a rename, so that no partial file is read.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context;

use crate::adapter::desired::DesiredState;
use crate::adapter::frame::Frame;

/// Writes a file that only its owner can read.
///
/// # Errors
/// The folder cannot be created, or the file cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().context("a file without a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let beside = path.with_extension("next");
    let mut options = fs::OpenOptions::new();
    let written = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&beside, path));
    written.with_context(|| format!("write {}", path.display()))
}

/// Writes a file unless it has this text already.
pub(crate) fn write_changed(path: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(path).is_ok_and(|present| present == text) {
        return Ok(());
    }
    write(path, text)
}

/// Writes each certificate as `NAME.crt`, its key as `NAME.key`, and both as `NAME.pem`.
pub(crate) fn certificates(frame: &Frame, desired: &DesiredState) -> anyhow::Result<()> {
    for (name, certificate) in &desired.certificates {
        write_changed(&frame.path(&format!("{name}.crt")), &certificate.chain)?;
        write_changed(&frame.path(&format!("{name}.key")), &certificate.key)?;
        write_changed(
            &frame.path(&format!("{name}.pem")),
            &format!("{}{}", certificate.chain, certificate.key),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/routes.json");
        write(&path, "one").unwrap();
        let first = fs::metadata(&path).unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o600);
        write(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        // The rename replaces the file; a reader that has the old one open reads it to its end.
        assert_ne!(fs::metadata(&path).unwrap().ino(), first.ino());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_would_not_change_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes.json");
        write_changed(&path, "one").unwrap();
        let first = fs::metadata(&path).unwrap().ino();
        write_changed(&path, "one").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().ino(), first);
        write_changed(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
    }
}
