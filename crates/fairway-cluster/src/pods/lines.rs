//! The log of a pod, line by line.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::discovery::FairwayPod;
use super::error::{PodError, PodOperation};

/// Longer lines are split. An access log line has little more than 256 KiB at most.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Timeout of the API server for opening the log.
const LOG_OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Which lines to read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRange {
    /// Whether to keep reading new lines.
    pub follow: bool,
    /// How many of the last lines; all if `None`.
    pub tail: Option<u32>,
}

/// The log lines of a pod.
pub struct LogLines {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
}

/// The log of the Fairway container in `pod`, standard output and standard error.
///
/// # Errors
/// The API server forbids it, or has no log.
pub async fn read_log(client: &Client, pod: &FairwayPod, range: LogRange) -> Result<LogLines, PodError> {
    let FairwayPod { namespace, name, container, .. } = pod;
    let attempt = || PodOperation {
        action: format!("reading the log of the pod {namespace}/{name}"),
        requirement: format!("the verb get on pods/log in the namespace {namespace}"),
    };
    let params = LogParams {
        container: Some(container.clone()),
        follow: range.follow,
        tail_lines: range.tail.map(i64::from),
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match timeout(LOG_OPEN_TIMEOUT, pods.log_stream(name, &params)).await {
        Ok(Ok(reader)) => Ok(LogLines { reader: Box::pin(reader) }),
        Ok(Err(error)) => Err(attempt().failure(&error)),
        Err(_) => Err(attempt().timed_out()),
    }
}

impl LogLines {
    /// The next line without its line feed; `None` after the last one.
    ///
    /// # Errors
    /// The connection failed.
    pub async fn next_line(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let count = (&mut self.reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await?;
        if count == 0 {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Ok(Some(String::from_utf8_lossy(&line).into_owned()))
    }
}

impl std::fmt::Debug for LogLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogLines").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::io::Cursor;

    use super::*;

    #[tokio::test]
    async fn lines_are_split_at_line_feeds_and_long_lines_into_parts() {
        let long = "x".repeat(usize::try_from(MAX_LINE_BYTES).unwrap() + 1);
        let text = format!("one\n\n{long}\nlast");
        let mut lines = LogLines { reader: Box::pin(Cursor::new(text.into_bytes())) };
        let mut lengths = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [3, 0, long.len() - 1, 1, 4]);
    }
}
