//! A proxy that was started here: how it is started, when it is ready, and how it ends. Ends only what it started, by
//! process id, and ends it on every way out.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::accounting::family;
use crate::backend::Body;
use crate::interrupt::{self, wait_until};
use crate::load::{Generator, Plan};
use crate::pinning::Pin;
use crate::site::{HOST, Site};

const READY_WITHIN: Duration = Duration::from_secs(20);
const GONE_WITHIN: Duration = Duration::from_secs(3);

pub(crate) struct Running {
    pub(crate) site: Site,
    /// The process that was started and its descendants, once it is ready.
    pub(crate) processes: Vec<u32>,
    pub(crate) pin: Pin,
    child: Child,
}

impl Running {
    /// Starts `command` and waits until an answer comes back through it.
    pub(crate) fn start(mut command: Command, site: Site, pin: Pin) -> anyhow::Result<Self> {
        let log = File::create(site.directory.join("log"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        pin.as_proxy()?;
        let spawned = command.spawn();
        pin.as_generator()?;
        let child = spawned.context("cannot be started")?;
        let mut running = Self { site, processes: vec![child.id()], pin, child };
        running.await_answer()?;
        running.processes = family(running.child.id());
        Ok(running)
    }

    fn await_answer(&mut self) -> anyhow::Result<()> {
        let plan = Plan {
            address: self.site.http,
            host: HOST,
            tls: None,
            connections: 1,
            body: Body::Kilobyte,
            once: false,
            backing: self.site.backing.clone(),
        };
        let mut probe = Generator::new(plan)?;
        let mut ended = false;
        let answered = wait_until(READY_WITHIN, || {
            ended = !matches!(self.child.try_wait(), Ok(None));
            ended || probe.visit_each().is_ok_and(|tally| tally.requests == 1)
        })?;
        anyhow::ensure!(answered && !ended, "did not become ready; its last words: {}", self.last_words());
        Ok(())
    }

    /// Why it no longer runs; `None` while it does.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            ended => Some(format!("the proxy has ended ({ended:?}): {}", self.last_words())),
        }
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.site.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Asks it to end, insists after three seconds.
    pub(crate) fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        let descendants = family(self.child.id());
        send(self.child.id(), Signal::TERM);
        let asked = std::time::Instant::now();
        while asked.elapsed() < GONE_WITHIN && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            descendants.iter().for_each(|process| send(*process, Signal::KILL));
            self.child.wait().map_or_else(|error| eprintln!("a proxy could not be ended: {error}"), drop);
        }
    }
}

impl Drop for Running {
    /// The net under errors and panics; the ordinary way is `stop`.
    fn drop(&mut self) {
        self.end();
    }
}

fn send(process: u32, signal: Signal) {
    let sent = i32::try_from(process).ok().and_then(Pid::from_raw).map(|pid| kill_process(pid, signal));
    if let Some(Err(error)) = sent
        && error != rustix::io::Errno::SRCH
    {
        eprintln!("process {process} cannot be signalled: {error}");
    }
}

/// A pause that a signal cuts short.
pub(crate) fn settle(pause: Duration) -> anyhow::Result<()> {
    interrupt::check()?;
    std::thread::sleep(pause);
    Ok(())
}
