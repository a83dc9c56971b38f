//! A proxy that was started here: how it is started, and when it is ready. It is ended when it is dropped.

use std::process::Command;
use std::time::Duration;

use fairway_lab_measure::{Program, Waited};

use crate::body::Body;
use crate::interrupt;
use crate::load::{Ask, has_fields, send};
use crate::pinning::Placement;
use crate::scenario::{Load, Scenario};
use crate::site::{ANSWER_FIELDS, Site};

const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long one attempt may take to find out.
const ATTEMPT: Duration = Duration::from_secs(5);

pub(crate) struct Running {
    pub(crate) site: Site,
    /// The process that was started and its descendants, once it is ready.
    pub(crate) processes: Vec<u32>,
    pub(crate) placement: Placement,
    program: Program,
}

impl Running {
    /// Starts `command` and waits until an answer comes back through it.
    pub(crate) fn start(mut command: Command, site: Site, placement: Placement) -> anyhow::Result<Self> {
        placement.as_proxy()?;
        let started = Program::start(&mut command, site.directory.join("log"));
        placement.as_generator()?;
        let mut running = Self { site, processes: Vec::new(), placement, program: started? };
        running.await_answer()?;
        running.processes = running.program.pids();
        Ok(running)
    }

    fn await_answer(&mut self) -> anyhow::Result<()> {
        let Scenario { tls, body, .. } = self.site.scenario;
        // The backend says how it is only where it is asked for that alone: the proxy must have edited the path.
        let is_edited = self.site.scenario.is_edited();
        let body = if is_edited { Body::Health } else { body };
        let fields: &[(&str, &str)] = if is_edited { &ANSWER_FIELDS } else { &[] };
        let ask = Ask {
            address: if tls.is_some() { self.site.https } else { self.site.http },
            scenario: Scenario { load: Load::Idle, connections: 1, body, ..self.site.scenario },
            announces_length: self.site.announces_length,
        };
        let waited = self.program.wait_until(READY_WITHIN, || {
            interrupt::check()?;
            let is_answered = send(&ask, ATTEMPT).is_ok_and(|tally| tally.requests == 1);
            Ok(is_answered && has_fields(&ask, fields, ATTEMPT).unwrap_or(false))
        })?;
        anyhow::ensure!(
            waited == Waited::Done,
            "did not become ready; its last words: {}",
            self.last_words()
        );
        Ok(())
    }

    /// Why it no longer runs; `None` while it does.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        let how = self.program.ended()?;
        Some(format!("the proxy has ended ({how}): {}", self.last_words()))
    }

    fn last_words(&self) -> String {
        self.program.last_words(5, " | ")
    }
}

/// A pause that a signal cuts short.
pub(crate) fn settle(pause: Duration) -> anyhow::Result<()> {
    interrupt::check()?;
    std::thread::sleep(pause);
    Ok(())
}
