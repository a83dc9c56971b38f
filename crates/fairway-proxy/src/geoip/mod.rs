//! What databases of addresses (GeoIP) say of clients. The files are in MaxMind's format (MMDB), read into memory as a whole, verified,
//! and replaced for all workers when they change. A lookup takes no lock and allocates nothing on warm buffers; a request for which
//! nobody asks has none. The format is read by the crate `maxminddb`, and nowhere here.

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

use files::Files;
use shared::Shared;

pub use location::Location;
pub(crate) use shared::{DatabaseFigures, FileFigures};
pub(crate) use view::View;

/// The databases of the process, as their files have them now. The default has none.
#[derive(Clone, Debug, Default)]
pub struct GeoIp(Arc<Shared>);

impl GeoIp {
    /// Reads the files, and follows them on a thread of its own for as long as the result lives. A file that cannot be used is no
    /// error: a message says so, and it is read again when it changes.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn watch(paths: &[PathBuf]) -> std::io::Result<Self> {
        let geoip = Self::default();
        let mut files = Files::new(paths, &geoip.0);
        if !paths.is_empty() {
            files.look();
            thread::Builder::new().name("geoip".to_owned()).spawn(move || {
                while files.are_used() {
                    thread::sleep(files::INTERVAL);
                    files.look();
                }
            })?;
        }
        Ok(geoip)
    }

    /// What metrics say of each file.
    pub(crate) fn figures(&self) -> Vec<FileFigures> {
        self.0.figures()
    }

    /// A worker's view.
    pub(crate) fn view(&self) -> View {
        View::new(Arc::clone(&self.0))
    }
}
