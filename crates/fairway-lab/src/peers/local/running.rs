//! A proxy as a process of this machine. It is ended, with its workers, when it is dropped at the latest.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use super::LocalSite;

/// How long it may take until it serves.
const START: Duration = Duration::from_secs(30);
/// How long it may take to end before it is killed.
const END: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// A proxy that runs.
pub struct LocalProxy {
    child: Child,
    log: PathBuf,
    http: SocketAddr,
    https: SocketAddr,
}

impl LocalProxy {
    /// Starts a command, its output into the site's folder, and waits until it answers for the first host.
    pub(super) fn start(command: &mut Command, site: &LocalSite) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let log = site.folder.join("proxy.log");
        let file = fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        let mut proxy = Self { child, log, http: site.http, https: site.https };
        proxy.serving(site).with_context(|| format!("start {program}"))?;
        Ok(proxy)
    }

    /// The process and all that it has started, itself first.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        let mut all = vec![self.child.id()];
        let mut next = 0;
        while next < all.len() {
            all.extend(children(all[next]));
            next += 1;
        }
        all
    }

    /// Where it listens: plain HTTP, and HTTPS.
    #[must_use]
    pub fn address(&self) -> (SocketAddr, SocketAddr) {
        (self.http, self.https)
    }

    /// Ends it.
    pub fn stop(self) {
        drop(self);
    }

    fn serving(&mut self, site: &LocalSite) -> anyhow::Result<()> {
        let host = site.hosts.first().context("a site without hosts")?;
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                anyhow::bail!("it ended ({status}): {}", tail(&self.log));
            }
            if answers(site.http, host).unwrap_or(false) && TcpStream::connect(site.https).is_ok() {
                return Ok(());
            }
            anyhow::ensure!(
                begun.elapsed() < START,
                "it does not serve {host} after {START:?}: {}",
                tail(&self.log)
            );
            sleep(LOOK);
        }
    }
}

impl Drop for LocalProxy {
    fn drop(&mut self) {
        let all = self.pids();
        signal(self.child.id(), Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < END {
            if !matches!(self.child.try_wait(), Ok(None)) {
                break;
            }
            sleep(LOOK);
        }
        // Workers outlive a master that was killed; those that ended are no children of anyone any more.
        for pid in all.into_iter().skip(1).filter(|pid| is_orphan(*pid)) {
            signal(pid, Signal::KILL);
        }
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            _ = self.child.wait();
        }
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile, which is what was asked for.
        _ = kill_process(pid, signal);
    }
}

/// A worker whose master is gone has another parent: the first process, or whoever collects orphans here.
fn is_orphan(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == "1"))
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |thread: PathBuf| fs::read_to_string(thread.join("children")).unwrap_or_default();
    let texts = threads.flatten().map(|thread| of(thread.path()));
    texts
        .flat_map(|text| text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Whether a request for the host gets an answer that only a backend gives: neither 404 nor an error of the proxy.
fn answers(address: SocketAddr, host: &str) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(head.starts_with(b"HTTP/1.1 2"))
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(8)..].join("; ")
}
