//! One connection of a backend: runs its script or answers its requests, and records everything.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::record::{ConnectionState, Ending, Record, RecordedRequest};
use super::script::{BackendResponse, Behaviour, ScriptStep};
use crate::stream::Input;
use crate::wire::{self, ChunkedBody, Framing, Malformed};

/// A connection with everything its conversation needs.
pub(super) struct Conversation {
    pub(super) input: Input,
    pub(super) number: usize,
    pub(super) record: Arc<Record>,
    pub(super) gate: Arc<Semaphore>,
}

impl Conversation {
    /// Runs until the behaviour is over, the other side leaves, or the test decides.
    pub(super) async fn run(mut self, behaviour: &Behaviour, mut fate: watch::Receiver<Option<Ending>>) {
        let decided = async {
            // Fails only if the backend was dropped.
            fate.wait_for(Option::is_some).await.ok().and_then(|ending| *ending).unwrap_or(Ending::Close)
        };
        let outcome = tokio::select! {
            biased;
            ending = decided => Ok(ending),
            outcome = self.play(behaviour) => outcome,
        };
        let state = match &outcome {
            Err(error) if is_failure(error) => ConnectionState::Failed(error.to_string()),
            Ok(Ending::Reset) => match self.input.stream.reset_when_dropped() {
                Ok(()) => ConnectionState::Ended,
                Err(error) => ConnectionState::Failed(format!("no reset: {error}")),
            },
            Ok(Ending::Vanish) => match self.input.stream.vanish() {
                Ok(()) => {
                    self.record.set_state(self.number, ConnectionState::Vanished);
                    // The backend was dropped, which also ends the connection.
                    let _ = fate.wait_for(|fate| *fate != Some(Ending::Vanish)).await;
                    ConnectionState::Ended
                }
                Err(error) => ConnectionState::Failed(format!("it did not vanish: {error}")),
            },
            Ok(Ending::Close) | Err(_) => ConnectionState::Ended,
        };
        let (record, number) = (self.record, self.number);
        drop(self.input);
        record.set_state(number, state);
    }

    async fn play(&mut self, behaviour: &Behaviour) -> io::Result<Ending> {
        match behaviour {
            Behaviour::Scripts(scripts) => {
                let script = scripts.get(self.number).or(scripts.last());
                self.run_script(script.map_or(&[], Vec::as_slice)).await
            }
            Behaviour::Http(handler) => self.answer_all(&**handler).await,
        }
    }

    async fn run_script(&mut self, steps: &[ScriptStep]) -> io::Result<Ending> {
        let mut position = 0;
        while let Some(step) = steps.get(position) {
            position += 1;
            match step {
                ScriptStep::ReadHead => self.input.head().await.map(drop)?,
                ScriptStep::ReadRequest => self.read_request().await.map(drop)?,
                ScriptStep::ReadBody(count) => self.input.exactly(*count).await.map(drop)?,
                ScriptStep::Expect(bytes) => self.expect(bytes).await?,
                ScriptStep::Send(bytes) => self.input.stream.write(bytes).await?,
                ScriptStep::Wait => self.wait().await?,
                ScriptStep::Pause(time) => tokio::time::sleep(*time).await,
                ScriptStep::HalfClose => self.input.stream.half_close().await?,
                ScriptStep::Close => return self.close().await,
                ScriptStep::Reset => return Ok(Ending::Reset),
                ScriptStep::Repeat => position = 0,
            }
        }
        self.read_to_end().await
    }

    async fn answer_all(
        &mut self,
        handler: &(dyn Fn(&RecordedRequest) -> BackendResponse + Send + Sync),
    ) -> io::Result<Ending> {
        loop {
            if self.input.pending.is_empty() && self.input.fill("a request").await? == 0 {
                return Ok(Ending::Close);
            }
            let request = self.read_request().await?;
            match handler(&request) {
                BackendResponse::Bytes(bytes) => self.input.stream.write(&bytes).await?,
                BackendResponse::Held(bytes) => {
                    self.wait().await?;
                    self.input.stream.write(&bytes).await?;
                }
                BackendResponse::ThenClose(bytes) => {
                    self.input.stream.write(&bytes).await?;
                    return self.close().await;
                }
                BackendResponse::ThenReset(bytes) => {
                    self.input.stream.write(&bytes).await?;
                    return Ok(Ending::Reset);
                }
                BackendResponse::Silence => return self.read_to_end().await,
            }
        }
    }

    async fn close(&mut self) -> io::Result<Ending> {
        self.input.stream.half_close().await?;
        Ok(Ending::Close)
    }

    async fn wait(&mut self) -> io::Result<()> {
        self.record.set_state(self.number, ConnectionState::Waiting);
        self.gate.acquire().await.map_err(io::Error::other)?.forget();
        self.record.set_state(self.number, ConnectionState::Open);
        Ok(())
    }

    async fn expect(&mut self, expected: &[u8]) -> io::Result<()> {
        let got = self.input.exactly(expected.len()).await?;
        if got == expected {
            return Ok(());
        }
        let (wanted, got) = (String::from_utf8_lossy(expected), String::from_utf8_lossy(&got));
        Err(Malformed(format!("expected {wanted:?}, got {got:?}")).into())
    }

    async fn read_request(&mut self) -> io::Result<RecordedRequest> {
        let head = self.input.head().await?;
        let (method, target, version) = request_line(&head.start)?;
        let framing = wire::framing(&head.fields)?.unwrap_or(Framing::None);
        let ChunkedBody { content: body, trailers, .. } = self.input.body(framing).await?;
        let connection = self.number;
        let request =
            RecordedRequest { connection, method, target, version, headers: head.fields, body, trailers };
        self.record.record_request(request.clone());
        Ok(request)
    }

    async fn read_to_end(&mut self) -> io::Result<Ending> {
        self.input.read_to_end().await?;
        Ok(Ending::Close)
    }
}

/// A disconnecting client does not fail the script, but data it sent may.
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
