//! What a proxy writes to standard error, as it writes it: passed on, and lines that say what somebody waits for are heard.
//! nginx and Envoy say there when a change is in use. Never understands a line.

use std::io::Write;
use std::process::ChildStderr;

use anyhow::Context;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Lines with a mark, in order.
pub(super) struct Words {
    marked: mpsc::UnboundedReceiver<String>,
}

impl Words {
    /// Hears lines that have one of the marks in them.
    pub(super) fn of(stderr: ChildStderr, marks: &'static [&'static str]) -> anyhow::Result<Self> {
        let pipe = pipe::Receiver::from_owned_fd(stderr.into()).context("read what the proxy writes")?;
        let (tell, marked) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(pipe).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                // Whoever kept the log may be gone, and so may whoever waits for a word.
                _ = writeln!(std::io::stderr(), "{line}");
                if marks.iter().any(|mark| line.contains(mark)) {
                    _ = tell.send(line);
                }
            }
        });
        Ok(Self { marked })
    }

    /// Forgets what was heard before something was asked for.
    pub(super) fn forget(&mut self) {
        while self.marked.try_recv().is_ok() {}
    }

    /// Waits for a line with this in it.
    pub(super) async fn until(&mut self, mark: &str) -> anyhow::Result<String> {
        loop {
            let line = self.marked.recv().await.context("the proxy has closed its log")?;
            if line.contains(mark) {
                return Ok(line);
            }
        }
    }

    /// Waits for a line with one of two marks in it: the second is a failure.
    pub(super) async fn until_or(&mut self, mark: &str, failure: &str) -> anyhow::Result<()> {
        loop {
            let line = self.marked.recv().await.context("the proxy has closed its log")?;
            anyhow::ensure!(!line.contains(failure), "{}", line.trim());
            if line.contains(mark) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn heard(script: &str, test: impl AsyncFnOnce(Words)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut child =
                Command::new("sh").args(["-c", script]).stderr(Stdio::piped()).spawn().expect("sh runs");
            let words = Words::of(child.stderr.take().unwrap(), &["start", "[emerg]"]).unwrap();
            test(words).await;
            child.wait().unwrap();
        });
    }

    #[test]
    fn lines_are_heard_in_their_order_and_others_are_not() {
        heard("echo start one >&2; echo nothing >&2; echo start two >&2", async |mut words| {
            assert_eq!(words.until("start").await.unwrap(), "start one");
            assert_eq!(words.until("start").await.unwrap(), "start two");
            assert!(words.until("start").await.is_err(), "it has ended");
        });
    }

    #[test]
    fn a_failure_ends_the_waiting_with_what_it_said() {
        heard("echo '[emerg] unknown directive' >&2; echo start >&2", async |mut words| {
            let error = words.until_or("start", "[emerg]").await.unwrap_err();
            assert!(error.to_string().contains("unknown directive"), "{error}");
            words.until_or("start", "[emerg]").await.unwrap();
        });
    }
}
