//! h2o with one thread, the anchor for HTTP/2. Debian's stable release has it and the development suite does not, so it comes
//! from a root folder of its own. Never touches /etc/h2o.

use std::path::Path;
use std::process::Command;

use fairway_lab_measure::Executable;

use super::peer::{Need, Peer, of_stable};
use crate::site::{Certificate, HOST, Site};

pub(super) const H2O: Peer = Peer {
    name: "h2o",
    without: &[
        (Need::Http2Upstream, "h2o 2.2 speaks only HTTP/1 with backends"),
        (Need::Http1, "compared for HTTP/2 only"),
        (Need::Connections, "compared for HTTP/2 only"),
        (Need::Datagrams, "compared for HTTP/2 only"),
    ],
    find: |binaries, release| of_stable(binaries, release, "h2o"),
    version: Executable::version,
    prepare,
};

fn prepare(binary: &Executable, site: &mut Site, certificate: &Certificate) -> anyhow::Result<Command> {
    let chain = site.write_secret("chain.pem", &certificate.chain)?;
    let key = site.write_secret("key.pem", &certificate.key)?;
    let text = configuration(site, &chain, &key);
    let path = site.write("h2o.conf", &text)?;
    let mut command = binary.command();
    command.args(["-m", "worker", "-c"]).arg(path);
    Ok(command)
}

/// It adds X-Forwarded-For and X-Forwarded-Proto; the other fields that peers add cannot be had of this release without
/// its Ruby, which would cost it more than they cost its peers.
fn configuration(site: &Site, chain: &Path, key: &Path) -> String {
    let Site { directory, http, https, backend, .. } = site;
    let (directory, chain, key) = (directory.display(), chain.display(), key.display());
    // As root it would become another user, who cannot read what is here.
    let user = if rustix::process::geteuid().is_root() { "user: root\n" } else { "" };
    format!(
        "num-threads: 1
{user}max-connections: 16384
error-log: {directory}/error.log
http1-request-timeout: 600
http2-idle-timeout: 600
proxy.preserve-host: ON
proxy.timeout.keepalive: 600000
proxy.timeout.io: 600000
listen:
  host: {}
  port: {}
listen:
  host: {}
  port: {}
  ssl:
    certificate-file: {chain}
    key-file: {key}
    minimum-version: TLSv1.3
    ocsp-update-interval: 0
hosts:
  \"{HOST}\":
    paths:
      \"/\":
        proxy.reverse.url: http://{backend}/
",
        http.ip(),
        http.port(),
        https.ip(),
        https.port()
    )
}
