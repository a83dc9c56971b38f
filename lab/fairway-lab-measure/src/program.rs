//! A measured program as a local process: its output goes to a log, and dropping it stops it with all its descendants. Does
//! not decide what runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};

use crate::process::{born, family};

/// Timeout for the exit before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// A program that was started here.
pub struct Program {
    child: Child,
    log: PathBuf,
}

/// The result of waiting for a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExitWait {
    /// The condition holds.
    Done,
    /// The program ended with this status.
    Ended(String),
    /// The time was over.
    TooLong,
}

impl Program {
    /// Starts a command with its output going to `log`.
    ///
    /// # Errors
    /// It cannot be started, or the log cannot be written.
    pub fn start(command: &mut Command, log: PathBuf) -> anyhow::Result<Self> {
        let program = command.get_program().to_string_lossy().into_owned();
        let file = fs::File::create(&log).with_context(|| format!("make {}", log.display()))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("start {program}"))?;
        Ok(Self { child, log })
    }

    /// The process and all that it has started, itself first.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        family(self.child.id())
    }

    /// Its exit status; `None` while it runs.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(status.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Polls `done`.
    ///
    /// # Errors
    /// The error with which `done` ends the wait.
    pub fn wait_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut() -> anyhow::Result<bool>,
    ) -> anyhow::Result<ExitWait> {
        let started = Instant::now();
        loop {
            if let Some(how) = self.ended() {
                return Ok(ExitWait::Ended(how));
            }
            if done()? {
                return Ok(ExitWait::Done);
            }
            if started.elapsed() >= limit {
                return Ok(ExitWait::TooLong);
            }
            sleep(EXIT_POLL_INTERVAL);
        }
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_words(&self, lines: usize, separator: &str) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let all: Vec<_> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join(separator)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let all: Vec<_> = self.pids().into_iter().map(|pid| (pid, born(pid))).collect();
        signal(self.child.id(), Signal::TERM);
        let started = Instant::now();
        while self.ended().is_none() && started.elapsed() < STOP_TIMEOUT {
            sleep(EXIT_POLL_INTERVAL);
        }
        // Workers may outlive their master.
        for (pid, _) in all.into_iter().filter(|(pid, then)| then.is_some() && born(*pid) == *then) {
            signal(pid, Signal::KILL);
        }
        _ = self.child.wait();
    }
}

fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // It may already have exited, which is the goal.
        _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(script: &str) -> (Program, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("sh");
        let program = Program::start(command.args(["-c", script]), folder.path().join("log"));
        (program.expect("sh runs"), folder)
    }

    #[test]
    fn an_end_is_noticed_and_its_last_words_are_known() {
        let (mut program, _folder) = started("echo one; echo two >&2; echo three; exit 3");
        let waited = program.wait_until(Duration::from_secs(20), || Ok(false)).expect("nothing fails");
        assert_eq!(waited, ExitWait::Ended("exit status: 3".to_owned()));
        assert_eq!(program.last_words(2, "; "), "two; three");
    }

    #[test]
    fn a_program_ends_with_its_child_processes() {
        let (mut program, folder) = started("sleep 600 & echo there; wait");
        let words = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        let waited = program.wait_until(Duration::from_secs(20), || Ok(words().contains("there")));
        assert_eq!(waited.expect("nothing fails"), ExitWait::Done);
        let all = program.pids();
        assert_eq!(all.len(), 2, "{all:?}");
        drop(program);
        let gone = |pid: &u32| !fs::exists(format!("/proc/{pid}")).unwrap_or(true);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !all.iter().all(gone) {
            assert!(Instant::now() < deadline, "{all:?}");
            sleep(EXIT_POLL_INTERVAL);
        }
    }
}
