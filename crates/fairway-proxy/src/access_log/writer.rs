//! The thread that writes log buffers to standard output.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Buffers that may wait; beyond them workers drop theirs.
const WAITING: usize = 256;

/// Where workers hand their buffers over.
#[derive(Clone)]
pub(crate) struct LogSender(Option<SyncSender<Vec<u8>>>);

/// The writer.
pub(crate) struct LogThread(JoinHandle<()>);

impl LogSender {
    /// For a process without an access log.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// To a reader of the test's own.
    #[cfg(test)]
    pub(crate) fn to(sender: SyncSender<Vec<u8>>) -> Self {
        Self(Some(sender))
    }

    /// Hands a buffer over, or back when the writer is behind or gone.
    pub(crate) fn send(&self, lines: Vec<u8>) -> Result<(), Vec<u8>> {
        match &self.0 {
            None => Ok(()),
            Some(sender) => sender.try_send(lines).map_err(|refused| match refused {
                TrySendError::Full(lines) | TrySendError::Disconnected(lines) => lines,
            }),
        }
    }
}

impl LogThread {
    /// Starts it. It ends when the last sender is gone and all is written.
    pub(crate) fn start() -> std::io::Result<(Self, LogSender)> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread =
            std::thread::Builder::new().name("access-log".into()).spawn(move || write_all(&receiver))?;
        Ok((Self(thread), LogSender(Some(sender))))
    }

    /// Waits for the last line.
    pub(crate) fn join(self) {
        // It cannot panic; if it did there is no log left to say so.
        let _ = self.0.join();
    }
}

fn write_all(receiver: &Receiver<Vec<u8>>) {
    let mut out = std::io::stdout().lock();
    while let Ok(lines) = receiver.recv() {
        // Whoever closed our standard output wants no log; the proxy goes on.
        if out.write_all(&lines).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
