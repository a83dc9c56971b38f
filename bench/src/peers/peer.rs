//! The interface of peers: how one is found, its version read, and its configuration prepared.

use std::path::{Path, PathBuf};
use std::process::Command;

use fairway_lab_measure::{Executable, Release};

use crate::site::{Certificate, Site};

/// The folders of binaries that no package puts on the path.
pub(crate) struct Binaries {
    pub(crate) fairway: PathBuf,
    pub(crate) floor: PathBuf,
    pub(crate) cache: PathBuf,
    /// The laboratory's cache, with the root folders of peers.
    pub(crate) current: PathBuf,
}

/// A proxy. `prepare` writes its configuration and returns the command that runs it in the foreground.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Features it lacks, and the reason shown instead of a row.
    pub(crate) without: &'static [(Need, &'static str)],
    pub(crate) find: fn(&Binaries, &Release) -> anyhow::Result<Executable>,
    pub(crate) version: fn(&Executable) -> anyhow::Result<String>,
    pub(crate) prepare: fn(&Executable, &mut Site, &Certificate) -> anyhow::Result<Command>,
}

/// A feature that a scenario may need and not every peer has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    Tls,
    Http2,
    /// HTTP/3, with the QUIC that it needs.
    Http3,
    /// Another path for the backend, and more fields for the client.
    Edits,
    /// Tokens that are verified.
    Tokens,
    /// A form without the settings that make peers alike.
    Defaults,
    /// Connections that are forwarded as they come.
    Connections,
    /// Datagrams.
    Datagrams,
}

/// Of peers that are compared where requests are, and have no tokens.
pub(super) const REQUESTS_ALONE: [(Need, &str); 3] =
    [(Need::Connections, ONLY_REQUESTS), (Need::Datagrams, ONLY_REQUESTS), (Need::Tokens, NO_TOKENS)];

pub(super) const NO_TOKENS: &str = "tokens are compared with Envoy";

pub(super) const ONLY_REQUESTS: &str = "TCP and UDP are compared with nginx and HAProxy";

impl Peer {
    /// Why it has no row where this feature is needed, if so.
    pub(crate) fn lacks(&self, needs: &[Need]) -> Option<&'static str> {
        self.without.iter().find(|(need, _)| needs.contains(need)).map(|(_, why)| *why)
    }
}

/// The first line that a command prints, on whichever stream.
pub(super) fn first_line(binary: &Executable, argument: &str) -> anyhow::Result<String> {
    let output = binary.command().arg(argument).output()?;
    let binary = binary.path();
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no version");
    Ok(line.replace(&binary.display().to_string(), &file_name(binary)))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// A program of a Debian package.
pub(super) fn packaged(binaries: &Binaries, release: &Release, name: &str) -> anyhow::Result<Executable> {
    release.find(&binaries.current, name, || of_system(name))
}

/// The system's program is on the path, or where Debian puts servers, which is not on every user's path.
fn of_system(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| anyhow::anyhow!("{name} is not installed (Debian: apt-get install {name})"))
}
