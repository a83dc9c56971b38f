//! What a pod prints, line by line.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use futures_util::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::time::timeout;

use super::error::{Attempt, PodError};
use super::found::FairwayPod;

/// A longer line comes in pieces. A line of the access log is at most a little longer than 256 KiB.
const MAX_LINE: u64 = 1 << 20;

/// How long the API server may take to begin.
const BEGIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Which lines are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogRange {
    /// Those that come from now on as well.
    pub follow: bool,
    /// How many of the last lines there are; all where there is nothing.
    pub tail: Option<u32>,
}

/// The lines of a pod.
pub struct LogLines {
    reader: Pin<Box<dyn AsyncBufRead + Send>>,
}

/// What the container of Fairway in `pod` has printed, on standard output and standard error.
///
/// # Errors
/// The API server does not permit it, or does not have it.
pub async fn read_log(client: &Client, pod: &FairwayPod, range: LogRange) -> Result<LogLines, PodError> {
    let FairwayPod { namespace, name, container, .. } = pod;
    let attempt = || Attempt {
        action: format!("reading the log of the pod {namespace}/{name}"),
        needs: format!("the verb get on pods/log in the namespace {namespace}"),
    };
    let params = LogParams {
        container: Some(container.clone()),
        follow: range.follow,
        tail_lines: range.tail.map(i64::from),
        ..LogParams::default()
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match timeout(BEGIN_TIMEOUT, pods.log_stream(name, &params)).await {
        Ok(Ok(reader)) => Ok(LogLines { reader: Box::pin(reader) }),
        Ok(Err(error)) => Err(attempt().failure(&error)),
        Err(_) => Err(attempt().timed_out()),
    }
}

impl LogLines {
    /// The next line, without its end; `None` after the last one.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> io::Result<Option<String>> {
        let mut line = Vec::new();
        let count = (&mut self.reader).take(MAX_LINE).read_until(b'\n', &mut line).await?;
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
    async fn lines_end_where_they_end_and_long_ones_come_in_pieces() {
        let long = "x".repeat(usize::try_from(MAX_LINE).unwrap() + 1);
        let text = format!("one\n\n{long}\nlast");
        let mut lines = LogLines { reader: Box::pin(Cursor::new(text.into_bytes())) };
        let mut lengths = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            lengths.push(line.len());
        }
        assert_eq!(lengths, [3, 0, long.len() - 1, 1, 4]);
    }
}
