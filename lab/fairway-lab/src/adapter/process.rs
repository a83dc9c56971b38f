//! A child process that is the proxy: started, signalled and waited for by its number.

use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::adapter::stderr_lines::Words;

/// Timeout for the exit of a proxy that does not serve.
const ABOUT_TO_END: Duration = Duration::from_secs(1);

/// The process of a proxy. Dropped, it is killed.
pub(crate) struct Process {
    child: Child,
    name: String,
}

impl Process {
    /// Starts a program as described by a command.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let name = Path::new(command.get_program()).display().to_string();
        let child = command.spawn().with_context(|| format!("start {name}"))?;
        Ok(Self { child, name })
    }

    /// Takes the pipe of standard error, if the command has one; only once.
    pub(crate) fn stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Sends the process a signal.
    ///
    /// # Errors
    /// The process has ended.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("send a signal to {}", self.name))
    }

    /// Waits for the exit and describes it.
    pub(crate) async fn wait_for_exit(&mut self) -> String {
        match self.exit().await {
            Ok(status) => format!("{} ended: {status}", self.name),
            Err(error) => format!("{} cannot be waited for: {error}", self.name),
        }
    }

    /// Waits for what a running proxy does, or for its end: one that has died will not do it.
    ///
    /// # Errors
    /// The error of the work, or that the process has exited, with its last lines.
    pub(crate) async fn alive<T>(
        &mut self,
        words: &mut Words,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let end = tokio::select! {
            // Work completed by a proxy that exits at the same time counts.
            biased;
            done = work => match done {
                Ok(done) => return Ok(done),
                // It may have failed because the proxy is about to end.
                Err(error) => match tokio::time::timeout(ABOUT_TO_END, self.wait_for_exit()).await {
                    Ok(end) => end,
                    Err(_) => return Err(error),
                },
            },
            end = self.wait_for_exit() => end,
        };
        anyhow::bail!("{end}; its last lines: {}", words.last().await)
    }

    /// Waits for the exit; kills the process after the timeout.
    ///
    /// # Errors
    /// It can neither be waited for nor killed.
    pub(crate) async fn end_within(&mut self, limit: Duration) -> anyhow::Result<()> {
        if tokio::time::timeout(limit, self.exit()).await.is_err() {
            tracing::warn!(program = self.name, "still there after {limit:?}, so it is killed");
            self.child.kill().with_context(|| format!("kill {}", self.name))?;
        }
        Ok(())
    }

    /// Reaps every child, not only this one.
    async fn exit(&mut self) -> std::io::Result<ExitStatus> {
        let mut children = signal(SignalKind::child())?;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            children.recv().await;
        }
    }
}

impl Drop for Process {
    /// The proxy ends with its parent process.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) && self.child.kill().is_ok() {
            _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    fn waits() -> Process {
        Process::spawn(Command::new("sleep").arg("600")).unwrap()
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn an_exit_is_noticed_with_its_status() {
        run(async {
            let mut process = waits();
            process.signal(Signal::TERM).unwrap();
            let end = process.wait_for_exit().await;
            assert!(end.contains("sleep ended") && end.contains("signal: 15"), "{end}");
        });
    }

    #[test]
    fn a_proxy_that_dies_during_a_wait_is_reported_with_its_last_lines() {
        run(async {
            let mut command = Command::new("sh");
            command.args(["-c", "echo one >&2; echo 'no such directive: frnt-end' >&2; exit 3"]);
            let mut process = Process::spawn(command.stderr(Stdio::piped())).unwrap();
            let mut words = Words::from_stderr(process.stderr().unwrap(), &[]).unwrap();
            let never = std::future::pending::<anyhow::Result<()>>();
            let limit = Duration::from_secs(30);
            let waited = tokio::time::timeout(limit, process.alive(&mut words, never)).await;
            let error = waited.expect("it is noticed").unwrap_err().to_string();
            assert!(error.contains("sh ended: exit status: 3"), "{error}");
            assert!(error.ends_with("one; no such directive: frnt-end"), "{error}");
        });
    }

    #[test]
    fn work_that_fails_with_the_proxy_reports_its_exit() {
        run(async {
            let mut command = Command::new("sh");
            command.args(["-c", "echo 'address already in use' >&2; exit 1"]);
            let mut process = Process::spawn(command.stderr(Stdio::piped())).unwrap();
            let mut words = Words::from_stderr(process.stderr().unwrap(), &[]).unwrap();
            let refused = async { anyhow::bail!("connection refused") };
            let error = process.alive::<()>(&mut words, refused).await.unwrap_err().to_string();
            assert!(error.contains("exit status: 1") && error.ends_with("address already in use"), "{error}");
        });
    }

    #[test]
    fn work_of_a_proxy_that_lives_is_waited_for() {
        run(async {
            let mut command = Command::new("sleep");
            let mut process = Process::spawn(command.arg("600").stderr(Stdio::piped())).unwrap();
            let mut words = Words::from_stderr(process.stderr().unwrap(), &[]).unwrap();
            let work = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(7)
            };
            assert_eq!(process.alive(&mut words, work).await.unwrap(), 7);
        });
    }

    #[test]
    fn a_process_that_does_not_end_in_time_is_killed() {
        run(async {
            let mut process = waits();
            process.end_within(Duration::ZERO).await.unwrap();
            assert!(process.wait_for_exit().await.contains("signal: 9"));
        });
    }

    #[test]
    fn no_process_outlives_who_started_it() {
        run(async {
            let process = waits();
            let status = format!("/proc/{}/status", process.child.id());
            assert!(std::fs::exists(&status).unwrap());
            drop(process);
            assert!(!std::fs::exists(&status).unwrap());
        });
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Process::spawn(&mut Command::new("no-such-proxy")).err().unwrap();
        assert!(error.to_string().contains("no-such-proxy"), "{error}");
    }
}
