//! Reads and writes `results.json`. Writes go through a temporary file and a rename, so that a full disk leaves the
//! previous file intact.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::results::condense::{self, condense_results};
use crate::results::results_file::{Results, SCHEMA};

/// The name of the file in a run's folder.
pub const RESULTS: &str = "results.json";
/// The same, condensed and compressed.
const KEPT: &str = "results.json.gz";
/// The log of raw histograms next to it (HdrHistogram's interval log). It is not published.
pub const HISTOGRAMS: &str = "histograms.hlog";

/// Writes the results of a run into its folder.
///
/// # Errors
/// The folder cannot be written, e.g. because the disk is full.
pub fn write(folder: &Path, results: &Results) -> anyhow::Result<()> {
    let text = serde_json::to_vec(results).context("turn the results into JSON")?;
    replace(folder, RESULTS, &text)?;
    Ok(())
}

/// Writes `results.json.gz` into a folder: the results [`condense_results`], with rounded figures, for a repository to keep. The
/// place of the file is returned.
///
/// # Errors
/// The folder cannot be written, e.g. because the disk is full.
pub fn write_kept(folder: &Path, results: Results) -> anyhow::Result<PathBuf> {
    let text = condense::text(&condense_results(results)).context("turn the results into JSON")?;
    // No name and no time: the same results are the same file.
    let mut compressed = GzEncoder::new(Vec::new(), Compression::best());
    compressed.write_all(&text).context("compress the results")?;
    replace(folder, KEPT, &compressed.finish().context("compress the results")?)
}

fn replace(folder: &Path, name: &str, text: &[u8]) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    let mut beside = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("write {}: the folder cannot be written", path.display()))?;
    beside.write_all(text).with_context(|| format!("write {}", path.display()))?;
    // Results are for everybody; a temporary file is for its owner alone.
    let readable = Permissions::from_mode(0o644);
    beside.as_file().set_permissions(readable).with_context(|| format!("write {}", path.display()))?;
    beside.persist(&path).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

/// Reads the results of a run from its folder: `results.json`, or `results.json.gz` if there is no such file.
///
/// # Errors
/// No file, no JSON, or a schema that this program does not know.
pub fn read(folder: &Path) -> anyhow::Result<Results> {
    let path = folder.join(RESULTS);
    let text =
        read_kept(&path).with_context(|| format!("read {}: is this the folder of a run?", path.display()))?;
    let results: Results =
        serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()))?;
    anyhow::ensure!(
        results.schema == SCHEMA,
        "{} has schema {}; this program reads schema {SCHEMA}",
        path.display(),
        results.schema
    );
    Ok(results)
}

/// The bytes of a file that may be kept compressed: those of `place`, or what `place.gz` expands to if there is no such
/// file.
///
/// # Errors
/// There is neither, or it cannot be read.
pub fn read_kept(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut compressed = path.as_os_str().to_owned();
    compressed.push(".gz");
    let compressed = Path::new(&compressed);
    if path.exists() || !compressed.exists() {
        return fs::read(path).with_context(|| format!("read {}", path.display()));
    }
    let file = fs::File::open(compressed).with_context(|| format!("read {}", compressed.display()))?;
    let mut plain = Vec::new();
    GzDecoder::new(file)
        .read_to_end(&mut plain)
        .with_context(|| format!("decompress {}", compressed.display()))?;
    Ok(plain)
}
