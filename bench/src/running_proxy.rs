//! A proxy that was started here: how it is started, and when it is ready. It is ended when it is dropped.

use std::process::Command;
use std::time::Duration;

use fairway_lab_measure::{ExitWait, Program};

use crate::body::Body;
use crate::interrupt;
use crate::load::{Ask, has_fields, send};
use crate::pinning::Placement;
use crate::scenario::{Load, Scenario};
use crate::site::{ANSWER_FIELDS, Site};

const READY_WITHIN: Duration = Duration::from_secs(20);
/// Timeout of one readiness attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct RunningProxy {
    pub(crate) site: Site,
    /// The process that was started and its descendants, once it is ready.
    pub(crate) processes: Vec<u32>,
    pub(crate) placement: Placement,
    program: Program,
}

impl RunningProxy {
    /// Starts `command` and waits for a response through it.
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
        // The backend serves its health check only at exactly that path, so the proxy must have edited the path.
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
            let is_answered = send(&ask, ATTEMPT_TIMEOUT).is_ok_and(|tally| tally.requests == 1);
            Ok(is_answered && has_fields(&ask, fields, ATTEMPT_TIMEOUT).unwrap_or(false))
        })?;
        anyhow::ensure!(
            waited == ExitWait::Done,
            "did not become ready; its last words: {}",
            self.last_words()
        );
        Ok(())
    }

    /// Why it stopped; `None` while it runs.
    pub(crate) fn obituary(&mut self) -> Option<String> {
        let how = self.program.ended()?;
        Some(format!("the proxy has ended ({how}): {}", self.last_words()))
    }

    fn last_words(&self) -> String {
        self.program.last_words(5, " | ")
    }
}

/// A pause that a signal cuts short.
pub(crate) fn sleep_after_check(pause: Duration) -> anyhow::Result<()> {
    interrupt::check()?;
    std::thread::sleep(pause);
    Ok(())
}
