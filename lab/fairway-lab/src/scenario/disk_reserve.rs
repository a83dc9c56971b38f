//! Disk space reserved for the end of a run, so that a disk that fills up does not cost the results.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// As much as results and report of a long run take together.
const RESERVED_BYTES: usize = 32 << 20;
const NAME: &str = ".room-for-the-report";

/// Whether an error says that the disk is full.
pub(super) fn is_full(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    let causes = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    causes.map(std::io::Error::kind).any(|kind| matches!(kind, StorageFull | QuotaExceeded))
}

/// A file that is as large as results and report will be, until they are written.
pub(super) struct DiskReserve {
    path: PathBuf,
}

impl DiskReserve {
    /// Reserves the space.
    ///
    /// # Errors
    /// The disk has less free space than that.
    pub(super) fn keep(folder: &Path) -> anyhow::Result<Self> {
        // On an error, the drop removes the file.
        let reserve = Self { path: folder.join(NAME) };
        reserve.fill().with_context(|| {
            format!(
                "the folder of the results, {}, has no room for them: {} MB are wanted before anything is measured",
                folder.display(),
                RESERVED_BYTES >> 20
            )
        })?;
        Ok(reserve)
    }

    fn fill(&self) -> std::io::Result<()> {
        let mut file = fs::File::create(&self.path)?;
        let chunk = vec![0; 1 << 20];
        for _ in 0..RESERVED_BYTES / chunk.len() {
            file.write_all(&chunk)?;
        }
        Ok(())
    }
}

impl Drop for DiskReserve {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(%error, place = %self.path.display(), "a file that kept room on the disk stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_until_it_is_given_back() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let reserve = DiskReserve::keep(folder.path()).expect("there is room for the test");
        let path = folder.path().join(NAME);
        assert_eq!(fs::metadata(&path).expect("the file").len(), RESERVED_BYTES as u64);
        drop(reserve);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let error = DiskReserve::keep(Path::new("/proc/self")).err().expect("nothing can be written there");
        let error = format!("{error:#}");
        assert!(error.contains("/proc/self, has no room for them: 32 MB"), "{error}");
    }
}
