//! A thread that writes lines to standard output, so that no worker waits for slow readers.

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

/// Maximum buffers in the queue; beyond it workers drop theirs.
const WAITING: usize = 256;

/// Sends buffers to the writer.
#[derive(Clone, Debug)]
pub struct OutputSender(Option<SyncSender<Vec<u8>>>);

/// The writer thread.
#[derive(Debug)]
pub struct OutputThread(JoinHandle<()>);

/// Receives a copy of every buffer once it is written. Called on the writer's thread; must not block.
#[derive(Clone)]
pub struct OutputCopies(Arc<dyn Fn(Vec<u8>) + Send + Sync>);

impl OutputCopies {
    /// Passes copies to `reader`.
    #[must_use]
    pub fn to(reader: impl Fn(Vec<u8>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(reader))
    }
}

impl fmt::Debug for OutputCopies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputCopies").finish_non_exhaustive()
    }
}

impl OutputSender {
    /// For a process that writes nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(None)
    }

    /// Sends to another channel.
    #[must_use]
    pub fn to(sender: SyncSender<Vec<u8>>) -> Self {
        Self(Some(sender))
    }

    /// Queues a buffer.
    ///
    /// # Errors
    /// Returns the buffer if the writer is behind or gone.
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
    /// Starts it under this name. It ends when the last sender is dropped and everything is written.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub fn start(name: &str, copies: Option<OutputCopies>) -> io::Result<(Self, OutputSender)> {
        let (sender, receiver) = sync_channel(WAITING);
        let write = move || write_all(&receiver, io::stdout().lock(), copies.as_ref());
        let thread = std::thread::Builder::new().name(name.into()).spawn(write)?;
        Ok((Self(thread), OutputSender(Some(sender))))
    }

    /// Waits until everything is written.
    pub fn join(self) {
        // It cannot panic; if it did, there is no log left to say so.
        let _ = self.0.join();
    }
}

fn write_all(receiver: &Receiver<Vec<u8>>, out: impl Write, copies: Option<&OutputCopies>) {
    let mut out = Some(out);
    while let Ok(lines) = receiver.recv() {
        // Whoever closed standard output wants no log there; the proxy continues.
        out = out.and_then(|mut out| out.write_all(&lines).and_then(|()| out.flush()).is_ok().then_some(out));
        match copies {
            Some(OutputCopies(reader)) => reader(lines),
            None if out.is_none() => return,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A closed output.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(out: impl Write) -> String {
        let (sender, receiver) = sync_channel(2);
        let copied = Arc::new(Mutex::new(Vec::new()));
        let reader = Arc::clone(&copied);
        let copies = OutputCopies::to(move |lines| reader.lock().unwrap().extend_from_slice(&lines));
        for lines in ["a\n", "b\n"] {
            sender.send(lines.as_bytes().to_vec()).unwrap();
        }
        drop(sender);
        write_all(&receiver, out, Some(&copies));
        String::from_utf8(copied.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn copies_are_written_in_order_and_continue_after_a_closed_output() {
        let mut out = Vec::new();
        assert_eq!(written(&mut out), "a\nb\n");
        assert_eq!(out, b"a\nb\n");
        assert_eq!(written(Closed), "a\nb\n");
    }
}
