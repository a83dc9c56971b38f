//! Forwards a proxy's standard error and finds lines that a driver waits for: nginx and Envoy log there when a change is in
//! use, and all proxies why they exit. Does not interpret lines.

use std::collections::VecDeque;
use std::io::Write;
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// The number of last lines included in the reason for an exit.
const MAX_REASON_LINES: usize = 5;
/// Timeout for reading the last lines after the exit.
const LAST_LINES_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines with a mark in order, and the last lines of all output.
pub(crate) struct Words {
    marked: mpsc::UnboundedReceiver<String>,
    last: Arc<Mutex<VecDeque<String>>>,
}

impl Words {
    /// Hears lines that have one of the marks in them.
    pub(crate) fn from_stderr(stderr: ChildStderr, marks: &'static [&'static str]) -> anyhow::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(stderr.into()).context("read what the proxy writes")?;
        let (tell, marked) = mpsc::unbounded_channel();
        let last = Arc::new(Mutex::new(VecDeque::with_capacity(MAX_REASON_LINES)));
        let keep = Arc::clone(&last);
        tokio::spawn(async move {
            let mut lines = BufReader::new(pipe).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // The log and the waiting driver may be gone.
                _ = writeln!(std::io::stderr(), "{line}");
                if marks.iter().any(|mark| line.contains(mark)) {
                    _ = tell.send(line.clone());
                }
                let mut last = keep.lock().unwrap_or_else(PoisonError::into_inner);
                if last.len() == MAX_REASON_LINES {
                    last.pop_front();
                }
                last.push_back(line);
            }
        });
        Ok(Self { marked, last })
    }

    /// The last lines of a proxy that has ended. A child of it may still hold its log open.
    pub(crate) async fn last(&mut self) -> String {
        let closed = async { while self.marked.recv().await.is_some() {} };
        _ = tokio::time::timeout(LAST_LINES_TIMEOUT, closed).await;
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_empty() { "none".to_owned() } else { Vec::from(last.clone()).join("; ") }
    }

    /// Discards earlier lines.
    pub(crate) fn forget(&mut self) {
        while self.marked.try_recv().is_ok() {}
    }

    /// Waits for a line with this in it.
    pub(crate) async fn wait_for_line(&mut self, mark: &str) -> anyhow::Result<String> {
        loop {
            let Some(line) = self.marked.recv().await else { return Err(self.closed_error().await) };
            if line.contains(mark) {
                return Ok(line);
            }
        }
    }

    /// Waits for a line with one of two marks in it: the second is a failure.
    pub(crate) async fn until_or(&mut self, mark: &str, failure: &str) -> anyhow::Result<()> {
        loop {
            let Some(line) = self.marked.recv().await else { return Err(self.closed_error().await) };
            anyhow::ensure!(!line.contains(failure), "{}", line.trim());
            if line.contains(mark) {
                return Ok(());
            }
        }
    }

    /// The error for a proxy that has closed its log.
    async fn closed_error(&mut self) -> anyhow::Error {
        anyhow::anyhow!("the proxy has closed its log; its last lines: {}", self.last().await)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn with_script_output(script: &str, test: impl AsyncFnOnce(Words)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut child =
                Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().expect("sh runs");
            let words = Words::from_stderr(child.stderr.take().unwrap(), &["start", "[emerg]"]).unwrap();
            test(words).await;
            child.wait().unwrap();
        });
    }

    #[test]
    fn lines_are_heard_in_their_order_and_others_are_not() {
        with_script_output("echo start one >&2; echo nothing >&2; echo start two >&2", async |mut words| {
            assert_eq!(words.wait_for_line("start").await.unwrap(), "start one");
            assert_eq!(words.wait_for_line("start").await.unwrap(), "start two");
            let error = words.wait_for_line("start").await.unwrap_err().to_string();
            assert!(error.ends_with("its last lines: start one; nothing; start two"), "{error}");
        });
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        with_script_output("for line in 1 2 3 4 5 6 7; do echo $line >&2; done", async |mut words| {
            assert_eq!(words.last().await, "3; 4; 5; 6; 7");
        });
    }

    #[test]
    fn a_failure_line_ends_the_wait_with_its_text() {
        with_script_output("echo '[emerg] unknown directive' >&2; echo start >&2", async |mut words| {
            let error = words.until_or("start", "[emerg]").await.unwrap_err();
            assert!(error.to_string().contains("unknown directive"), "{error}");
            words.until_or("start", "[emerg]").await.unwrap();
        });
    }
}
