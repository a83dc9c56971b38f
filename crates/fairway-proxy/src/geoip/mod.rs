//! GeoIP databases. Files in MaxMind's format (MMDB) are read into memory, verified, and replaced for all
//! workers when they change. A lookup takes no lock and allocates nothing on warm buffers; requests that do not
//! use GeoIP have no lookup. The crate `maxminddb` reads the format.

mod database;
mod files;
mod location;
mod shared;
#[cfg(test)]
mod tests;
mod view;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use files::DatabaseFiles;
use shared::SharedDatabases;

pub use location::Location;
pub(crate) use shared::{DatabaseFigures, FileFigures};
pub(crate) use view::GeoIpView;

/// The GeoIP databases of the process. The default has none.
#[derive(Clone, Debug, Default)]
pub struct GeoIp(Arc<SharedDatabases>);

impl GeoIp {
    /// Reads the files and watches them on its own thread while the result lives. An unusable file is no error:
    /// it is logged, and read again when it changes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn watch(paths: &[PathBuf]) -> std::io::Result<Self> {
        let geoip = Self::default();
        let mut files = DatabaseFiles::new(paths, &geoip.0);
        if !paths.is_empty() {
            files.reload_changed();
            thread::Builder::new().name("geoip".to_owned()).spawn(move || {
                while files.are_used() {
                    thread::sleep(files::POLL_INTERVAL);
                    files.reload_changed();
                }
            })?;
        }
        Ok(geoip)
    }

    /// Numbers of each file for metrics.
    pub(crate) fn figures(&self) -> Vec<FileFigures> {
        self.0.figures()
    }

    /// The view of a worker.
    pub(crate) fn view(&self) -> GeoIpView {
        GeoIpView::new(Arc::clone(&self.0))
    }
}
