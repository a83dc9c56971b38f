//! Paths of the programs and images of peers. Builds none of them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Folders for programs and images of peers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Artifacts {
    /// Cached between runs: binaries, wheels, built tools.
    pub cache: PathBuf,
    /// This run's own folder for image archives and configurations.
    pub folder: PathBuf,
    /// The checkout: `testbed/testbed`, `charts/`, the Go modules of peers.
    pub checkout: PathBuf,
    /// The release binary of Fairway.
    pub fairway: PathBuf,
    /// The image archive of Fairway (`make image`).
    pub fairway_archive: PathBuf,
    /// The name of the image in it.
    pub fairway_image: String,
    /// This program, which goes into images as the adapter.
    pub laboratory: PathBuf,
}

impl Artifacts {
    /// The command of the testbed, which also packs images.
    #[must_use]
    pub fn testbed(&self) -> PathBuf {
        self.checkout.join("testbed/testbed")
    }

    /// A folder below the cache.
    #[must_use]
    pub fn cache_folder(&self, name: &str) -> PathBuf {
        Path::new(&self.cache).join(name)
    }
}
