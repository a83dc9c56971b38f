//! The bounded channel for sampled exchanges from the workers to the exporter. Workers never wait for it.

use tokio::sync::mpsc;

use super::exchange::TracedExchange;

/// The end of the workers.
#[derive(Clone, Debug)]
pub struct TraceSender(mpsc::Sender<Vec<TracedExchange>>);

/// The end of the exporter.
#[derive(Debug)]
pub struct TraceReceiver(mpsc::Receiver<Vec<TracedExchange>>);

/// A channel with room for `batches` batches, at least one. A batch has at most 64 exchanges.
#[must_use]
pub fn channel(batches: usize) -> (TraceSender, TraceReceiver) {
    let (sender, receiver) = mpsc::channel(batches.max(1));
    (TraceSender(sender), TraceReceiver(receiver))
}

impl TraceSender {
    /// Sends a batch.
    ///
    /// # Errors
    /// The number of exchanges lost because the channel is full or the exporter is gone.
    pub(super) fn send(&self, batch: Vec<TracedExchange>) -> Result<(), usize> {
        self.0.try_send(batch).map_err(|refused| refused.into_inner().len())
    }
}

impl TraceReceiver {
    /// The next batch; `None` once every worker has ended and all batches were received.
    pub async fn receive(&mut self) -> Option<Vec<TracedExchange>> {
        self.0.recv().await
    }
}
