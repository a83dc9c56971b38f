//! Where exchanges and lines come in: from workers and from the writer of the access log, neither of which ever waits.

use std::sync::Arc;
use std::time::SystemTime;

use fairway_proxy::TraceReceiver;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::counts::{Counts, Dropped};
use crate::logs::record;
use crate::signal::Signal;
use crate::spans::spans_of;
use crate::times::nanos;

/// Buffers of lines that may wait for the exporter's thread, of about 32 KiB each.
const MAX_BUFFERS: usize = 64;

/// Where traced exchanges come from.
pub(crate) trait Exchanges {
    /// The spans of the next exchanges, those of each together; `None` when none will come any more. Nothing is lost when the call is
    /// dropped while it waits.
    async fn receive(&mut self) -> Option<Vec<Vec<Span>>>;
}

impl Exchanges for TraceReceiver {
    async fn receive(&mut self) -> Option<Vec<Vec<Span>>> {
        // Within a trait method of the same name the inherent one comes first.
        let exchanges = Self::receive(self).await?;
        Some(exchanges.iter().map(spans_of).collect())
    }
}

/// Takes lines of the access log from the thread that writes them.
#[derive(Clone, Debug)]
pub struct LineSender {
    sender: mpsc::Sender<Vec<u8>>,
    counts: Arc<Counts>,
}

impl LineSender {
    /// With the end where the lines come out.
    pub(crate) fn new(counts: Arc<Counts>) -> (Self, mpsc::Receiver<Vec<u8>>) {
        let (sender, receiver) = mpsc::channel(MAX_BUFFERS);
        (Self { sender, counts }, receiver)
    }

    /// Takes whole lines, each with its line feed. What there is no room for is dropped and counted.
    pub fn send(&self, lines: Vec<u8>) {
        if let Err(TrySendError::Full(lines) | TrySendError::Closed(lines)) = self.sender.try_send(lines) {
            let count = memchr::memchr_iter(b'\n', &lines).count() as u64;
            self.counts.dropped(Signal::Logs, Dropped::QueueFull, count);
        }
    }
}

/// The log records of whole lines.
pub(crate) fn records(lines: &[u8]) -> impl Iterator<Item = LogRecord> {
    let observed = nanos(SystemTime::now());
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(move |line| record(line, observed))
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
        assert_eq!(counts.dropped_so_far(Signal::Logs), 0);
        sender.send(b"a\nb\nc\n".to_vec());
        assert_eq!(counts.dropped_so_far(Signal::Logs), 3);
        drop(receiver);
        sender.send(b"a\n".to_vec());
        assert_eq!(counts.dropped_so_far(Signal::Logs), 4);
    }

    #[test]
    fn each_line_is_a_record() {
        assert_eq!(records(b"a\n{\"status\":200}\n\n").count(), 2);
    }
}
