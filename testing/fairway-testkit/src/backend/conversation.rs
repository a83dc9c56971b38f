//! One connection of a backend from accept to end: follows its script or answers its requests, and records what came.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::record::{ConnectionState, Fate, Record, RecordedRequest};
use super::script::{Answer, Handler, Step};
use crate::stream::Stream;
use crate::wire::{self, Framing, Malformed};

/// What to do on a connection.
pub(super) enum Part {
    Script(Vec<Step>),
    Http(Handler),
}

/// How a conversation wants its connection to end.
enum Ending {
    Close,
    Reset,
    Vanish,
}

/// A connection with everything its conversation needs.
pub(super) struct Conversation {
    pub(super) stream: Stream,
    pub(super) number: usize,
    pub(super) record: Arc<Record>,
    pub(super) gate: Arc<Semaphore>,
    /// What came and no step has claimed yet.
    pub(super) pending: Vec<u8>,
}

impl Conversation {
    /// Runs until the part is over, the other side leaves, or the test decides.
    pub(super) async fn run(mut self, part: Part, mut fate: watch::Receiver<Fate>) {
        let decided = async {
            match fate.wait_for(|fate| *fate != Fate::Live).await.map(|fate| *fate) {
                Ok(Fate::Reset) => Ending::Reset,
                Ok(Fate::Vanish) => Ending::Vanish,
                // An error means that the backend itself is gone.
                Ok(Fate::Close | Fate::Live) | Err(_) => Ending::Close,
            }
        };
        let outcome = tokio::select! {
            biased;
            ending = decided => Ok(ending),
            outcome = self.play(part) => outcome,
        };
        let state = match &outcome {
            Err(error) if is_failure(error) => ConnectionState::Failed(error.to_string()),
            Ok(Ending::Reset) => match self.stream.reset_when_dropped() {
                Ok(()) => ConnectionState::Ended,
                Err(error) => ConnectionState::Failed(format!("no reset: {error}")),
            },
            Ok(Ending::Vanish) => match self.stream.vanish() {
                Ok(()) => {
                    self.record.became(self.number, ConnectionState::Vanished);
                    // The backend is gone, which ends it too.
                    let _ = fate.wait_for(|fate| *fate != Fate::Vanish).await;
                    ConnectionState::Ended
                }
                Err(error) => ConnectionState::Failed(format!("it did not vanish: {error}")),
            },
            Ok(Ending::Close) | Err(_) => ConnectionState::Ended,
        };
        let (record, number) = (self.record, self.number);
        drop(self.stream);
        record.became(number, state);
    }

    async fn play(&mut self, part: Part) -> io::Result<Ending> {
        match part {
            Part::Script(steps) => self.follow(&steps).await,
            Part::Http(handler) => self.answer_all(&handler).await,
        }
    }

    async fn follow(&mut self, steps: &[Step]) -> io::Result<Ending> {
        let mut position = 0;
        while let Some(step) = steps.get(position) {
            position += 1;
            match step {
                Step::ReadHead => self.read_head().await.map(|head| drop(self.claim(head.length)))?,
                Step::ReadRequest => self.read_request().await.map(drop)?,
                Step::ReadBody(count) => self.read_exactly(*count).await.map(drop)?,
                Step::Expect(bytes) => self.expect(bytes).await?,
                Step::Send(bytes) => self.stream.write(bytes).await?,
                Step::Wait => self.wait().await?,
                Step::Pause(time) => tokio::time::sleep(*time).await,
                Step::HalfClose => self.stream.half_close().await?,
                Step::Close => return self.close().await,
                Step::Reset => return Ok(Ending::Reset),
                Step::Repeat => position = 0,
            }
        }
        self.read_to_end().await
    }

    async fn answer_all(&mut self, handler: &Handler) -> io::Result<Ending> {
        loop {
            if self.pending.is_empty() && self.fill().await? == 0 {
                return Ok(Ending::Close);
            }
            let request = self.read_request().await?;
            match handler(&request) {
                Answer::Bytes(bytes) => self.stream.write(&bytes).await?,
                Answer::Held(bytes) => {
                    self.wait().await?;
                    self.stream.write(&bytes).await?;
                }
                Answer::ThenClose(bytes) => {
                    self.stream.write(&bytes).await?;
                    return self.close().await;
                }
                Answer::ThenReset(bytes) => {
                    self.stream.write(&bytes).await?;
                    return Ok(Ending::Reset);
                }
                Answer::Silence => return self.read_to_end().await,
            }
        }
    }

    async fn close(&mut self) -> io::Result<Ending> {
        self.stream.half_close().await?;
        Ok(Ending::Close)
    }

    async fn wait(&mut self) -> io::Result<()> {
        self.record.became(self.number, ConnectionState::Waiting);
        self.gate.acquire().await.map_err(io::Error::other)?.forget();
        self.record.became(self.number, ConnectionState::Open);
        Ok(())
    }

    async fn expect(&mut self, wanted: &[u8]) -> io::Result<()> {
        let got = self.read_exactly(wanted.len()).await?;
        if got == wanted {
            return Ok(());
        }
        let (wanted, got) = (String::from_utf8_lossy(wanted), String::from_utf8_lossy(&got));
        Err(Malformed(format!("expected {wanted:?}, got {got:?}")).into())
    }

    async fn read_head(&mut self) -> io::Result<wire::Head> {
        loop {
            if let Some(head) = wire::head(&self.pending)? {
                return Ok(head);
            }
            self.more().await?;
        }
    }

    async fn read_request(&mut self) -> io::Result<RecordedRequest> {
        let head = self.read_head().await?;
        drop(self.claim(head.length));
        let (method, target, version) = request_line(&head.start)?;
        let (body, trailers) = match wire::framing(&head.fields)? {
            None | Some(Framing::None | Framing::Close) => (Vec::new(), Vec::new()),
            Some(Framing::Length(length)) => (self.read_exactly(length).await?, Vec::new()),
            Some(Framing::Chunked) => self.read_chunked().await?,
        };
        let connection = self.number;
        let request =
            RecordedRequest { connection, method, target, version, headers: head.fields, body, trailers };
        self.record.requested(request.clone());
        Ok(request)
    }

    async fn read_chunked(&mut self) -> io::Result<(Vec<u8>, wire::Fields)> {
        loop {
            if let Some(body) = wire::chunked(&self.pending)? {
                drop(self.claim(body.length));
                return Ok((body.content, body.trailers));
            }
            self.more().await?;
        }
    }

    async fn read_exactly(&mut self, count: usize) -> io::Result<Vec<u8>> {
        while self.pending.len() < count {
            self.more().await?;
        }
        Ok(self.claim(count))
    }

    async fn read_to_end(&mut self) -> io::Result<Ending> {
        while self.fill().await? > 0 {}
        Ok(Ending::Close)
    }

    fn claim(&mut self, count: usize) -> Vec<u8> {
        self.pending.drain(..count).collect()
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.fill().await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    async fn fill(&mut self) -> io::Result<usize> {
        let before = self.pending.len();
        self.pending.reserve(16 * 1024);
        let count = self.stream.read(&mut self.pending).await?;
        self.record.received(self.number, &self.pending[before..]);
        Ok(count)
    }
}

/// A client that leaves is no failure of the script; what it sent may be.
fn is_failure(error: &io::Error) -> bool {
    error.kind() == ErrorKind::InvalidData
}

fn request_line(line: &str) -> Result<(String, String, String), Malformed> {
    match line.split(' ').collect::<Vec<_>>().as_slice() {
        [method, target, version @ ("HTTP/1.1" | "HTTP/1.0")] if !method.is_empty() && !target.is_empty() => {
            Ok(((*method).to_owned(), (*target).to_owned(), (*version).to_owned()))
        }
        _ => Err(Malformed(format!("request line {line:?}"))),
    }
}
