//! The parts of a configuration other than hosts and backends: addresses, workers, settings, TLS, the folder of files.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use fairway_lab_measure::results::Settings;

/// The frame of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The listening addresses.
    pub listen: Listen,
    /// Worker threads or processes; with [`Settings::Defaults`] in a cluster the proxy decides.
    pub workers: Option<u32>,
    /// Recommended settings or defaults.
    pub settings: Settings,
    /// Its configuration, sockets and temporary files.
    pub folder: PathBuf,
}

/// Addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// HTTPS.
    pub https: SocketAddr,
}

impl Frame {
    /// A file of its folder, as text.
    #[must_use]
    pub(crate) fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The folder of the configuration.
    #[must_use]
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::new(&self.folder).join(name)
    }

    /// Whether settings are the recommended ones.
    #[must_use]
    pub(crate) fn is_recommended(&self) -> bool {
        self.settings == Settings::Recommended
    }
}
