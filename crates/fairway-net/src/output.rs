//! The thread that writes lines to standard output, so that no worker waits for whoever reads them.

use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Buffers that may wait; beyond them workers drop theirs.
const WAITING: usize = 256;

/// Where workers hand their buffers over.
#[derive(Clone, Debug)]
pub struct OutputSender(Option<SyncSender<Vec<u8>>>);

/// The writer.
#[derive(Debug)]
pub struct OutputThread(JoinHandle<()>);

impl OutputSender {
    /// For a process that writes none.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// To another reader.
    #[must_use]
    pub fn to(sender: SyncSender<Vec<u8>>) -> Self {
        Self(Some(sender))
    }

    /// Hands a buffer over.
    ///
    /// # Errors
    /// With the buffer, when the writer is behind or gone.
    pub fn send(&self, lines: Vec<u8>) -> Result<(), Vec<u8>> {
        match &self.0 {
            None => Ok(()),
            Some(sender) => sender.try_send(lines).map_err(|refused| match refused {
                TrySendError::Full(lines) | TrySendError::Disconnected(lines) => lines,
            }),
        }
    }
}

impl OutputThread {
    /// Starts it under this name. It ends when the last sender is gone and all is written.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(name: &str) -> std::io::Result<(Self, OutputSender)> {
        let (sender, receiver) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || write_all(&receiver))?;
        Ok((Self(thread), OutputSender(Some(sender))))
    }

    /// Waits for the last line.
    pub fn join(self) {
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
