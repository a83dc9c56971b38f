//! The floor: the forwarder of `src/bin/floor.rs`, built next to this program.

use std::process::Command;

use fairway_lab_measure::Executable;

use super::peer::{Need, Peer};
use crate::site::{Certificate, Site};

pub(super) const FLOOR: Peer = Peer {
    name: "floor",
    without: &[
        (Need::Tls, "speaks no TLS"),
        (Need::Http2, "speaks no HTTP/2"),
        (Need::Http3, "speaks no HTTP/3"),
        (Need::Datagrams, "forwards no UDP"),
        (Need::Edits, "edits nothing"),
        (Need::Tokens, "verifies nothing"),
        (Need::Defaults, "has no settings"),
    ],
    find: |binaries, _| {
        anyhow::ensure!(binaries.floor.is_file(), "the binary `floor` is not built beside this one");
        Ok(Executable::of_system(binaries.floor.clone()))
    },
    version: |_| Ok(format!("floor {}", env!("CARGO_PKG_VERSION"))),
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, _: &Certificate) -> anyhow::Result<Command> {
    let mut command = binary.command();
    command.arg("--listen").arg(site.http.to_string()).arg("--upstream").arg(site.backend.to_string());
    Ok(command)
}
