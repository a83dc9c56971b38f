//! A proxy as a process of this machine. It has started when it serves.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use fairway_lab_measure::{Program, Waited};

use super::peer::LocalSite;

/// How long it may take until it serves.
const START: Duration = Duration::from_secs(30);

/// Starts a command, its output into the site's folder, and waits until it answers for the first host.
pub(super) fn start(command: &mut Command, site: &LocalSite) -> anyhow::Result<Program> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut program = Program::start(command, site.folder.join("proxy.log"))?;
    serving(&mut program, site).with_context(|| format!("start {name}"))?;
    Ok(program)
}

fn serving(program: &mut Program, site: &LocalSite) -> anyhow::Result<()> {
    let host = site.hosts.first().context("a site without hosts")?;
    let serves = || answers(site, host).unwrap_or(false) && TcpStream::connect(site.https).is_ok();
    let waited = program.wait_until(START, || Ok(serves()))?;
    let said = program.last_words(8, "; ");
    match waited {
        Waited::Done => Ok(()),
        Waited::Ended(status) => anyhow::bail!("it ended ({status}): {said}"),
        Waited::TooLong => anyhow::bail!("it does not serve {host} after {START:?}: {said}"),
    }
}

/// Whether a request for the host gets an answer that only a backend gives: neither 404 nor an error of the proxy.
fn answers(site: &LocalSite, host: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(site.http)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head.starts_with(b"HTTP/1.1 2"))
}
