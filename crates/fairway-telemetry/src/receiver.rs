//! Receives exchanges from workers and lines from the access log writer; neither ever waits.

use std::sync::Arc;
use std::time::SystemTime;

use fairway_proxy::TraceReceiver;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::counts::{Counts, DropReason};
use crate::logs::log_record;
use crate::signal::Signal;
use crate::spans::spans_of;
use crate::times::unix_nanos;

/// Buffers of lines that may be queued for the exporter thread, of about 32 KiB each.
const MAX_BUFFERS: usize = 64;

/// A source of traced exchanges.
pub(crate) trait ExchangeSource {
    /// The spans of the next exchanges, one list per exchange; `None` once there will be no more. Cancel-safe: nothing is lost if
    /// the future is dropped while it waits.
    async fn receive(&mut self) -> Option<Vec<Vec<Span>>>;
}

impl ExchangeSource for TraceReceiver {
    async fn receive(&mut self) -> Option<Vec<Vec<Span>>> {
        // Within this trait method, the inherent method of the same name takes precedence.
        let exchanges = Self::receive(self).await?;
        Some(exchanges.iter().map(spans_of).collect())
    }
}

/// Sends access log lines from the thread that writes them.
#[derive(Clone, Debug)]
pub struct LineSender {
    sender: mpsc::Sender<Vec<u8>>,
    counts: Arc<Counts>,
}

impl LineSender {
    /// Returns the receiving end as well.
    pub(crate) fn new(counts: Arc<Counts>) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel(MAX_BUFFERS);
        (Self { sender, counts }, receiver)
    }

    /// Sends complete lines, each with its line feed. Lines without room are dropped and counted.
    pub fn send(&self, lines: Vec<u8>) {
        if let Err(TrySendError::Full(lines) | TrySendError::Closed(lines)) = self.sender.try_send(lines) {
            let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
            self.counts.record_dropped(Signal::Logs, DropReason::QueueFull, count);
        }
    }
}

/// Converts complete lines to log records.
pub(crate) fn log_records(lines: &[u8]) -> impl Iterator<Item = LogRecord> {
    let observed = unix_nanos(SystemTime::now());
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(move |line| log_record(line, observed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_room_are_counted_one_by_one() {
        let counts = Arc::new(Counts::default());
        let (sender, receiver) = LineSender::new(Arc::clone(&counts));
        for _ in 0..MAX_BUFFERS {
            sender.send(b"a\n".to_vec());
        }
        assert_eq!(counts.dropped_items(Signal::Logs), 0);
        sender.send(b"a\nb\nc\n".to_vec());
        assert_eq!(counts.dropped_items(Signal::Logs), 3);
        drop(receiver);
        sender.send(b"a\n".to_vec());
        assert_eq!(counts.dropped_items(Signal::Logs), 4);
    }

    #[test]
    fn each_line_is_a_record() {
        assert_eq!(log_records(b"a\n{\"status\":200}\n\n").count(), 2);
    }
}
