//! One connection to a backend: requests in, responses out, in order. Keeps no bodies.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;

use super::h2c::ResponseTemplate;
use super::options::{Options, Reaction};
use super::recorder::Ids;
use super::request::Request;
use super::respond::{Head, Identity, WantedResponse};
use crate::http1::{Content, Progress};

/// Largest request head, bytes.
const HEAD_LIMIT: usize = 64 * 1024;
/// Bodies are cut from this.
const PIECE: usize = 64 * 1024;
static CONTENT: [u8; PIECE] = [b'x'; PIECE];

/// State shared by all connections of a thread.
pub(super) struct Site {
    pub(super) options: Arc<Options>,
    pub(super) identity: Identity,
    pub(super) ids: Option<Arc<Ids>>,
    /// The response to every HTTP/2 request.
    pub(super) response: Option<ResponseTemplate>,
    /// Whether responses are held back.
    pub(super) is_held: watch::Receiver<bool>,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// With a FIN, or the client is gone.
    Orderly,
    /// It must be reset.
    Reset,
}

/// Serves until either side ends it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, site: Rc<Site>) -> Ending {
    let (mut input, mut output) = (Vec::with_capacity(4_096), Vec::with_capacity(4_096));
    let mut random = fastrand::Rng::new();
    loop {
        let request = match Request::read(&input) {
            Ok(Some(request)) => request,
            Ok(None) if input.len() < HEAD_LIMIT => match stream.read_buf(&mut input).await {
                Ok(0) | Err(_) => return Ending::Orderly,
                Ok(_) => continue,
            },
            Ok(None) | Err(_) => {
                output.clear();
                site.identity.head(&mut output, &Head { status: 400, size: 0, id: None, close: true });
                // The client may be gone.
                _ = stream.write_all(&output).await;
                return Ending::Orderly;
            }
        };
        let is_closing = request.close;
        let reaction = site.decide(&request, &mut random);
        if reaction.is_delayed
            && !site.options.delay.is_zero()
            && let Err(error) = sleep(site.options.delay).await
        {
            tracing::warn!("an answer was not delayed: {error}");
        }
        if *site.is_held.borrow() {
            // Fails only if the server has stopped.
            _ = site.is_held.clone().wait_for(|is_held| !is_held).await;
        }
        output.clear();
        let is_head = request.method == b"HEAD";
        let size = site.compose(&request, &reaction, is_closing, &mut output);
        let used = request.length;
        let (content, expects) = (request.content, request.expects_continue);
        input.drain(..used);
        if drain_content(&mut stream, &mut input, content, expects).await.is_err() {
            return Ending::Orderly;
        }
        if reaction.fault == Reaction::Reset {
            return Ending::Reset;
        }
        let cut = if reaction.fault == Reaction::Truncate { size / 2 } else { size };
        let sent = if is_head { 0 } else { cut };
        if send(&mut stream, &mut output, sent).await.is_err() || is_closing || cut < size {
            _ = stream.shutdown().await;
            return Ending::Orderly;
        }
    }
}

/// The decision about a request.
struct Decision {
    wanted_response: WantedResponse,
    fault: Reaction,
    is_delayed: bool,
}

impl Site {
    fn decide(&self, request: &Request<'_>, random: &mut fastrand::Rng) -> Decision {
        let response = WantedResponse::from_target(request.target, self.options.size);
        if !matches!(response, WantedResponse::Bytes(_)) {
            // Health checks are not part of the load.
            return Decision { wanted_response: response, fault: Reaction::Answer(200), is_delayed: false };
        }
        if let (Some(id), Some(ids)) = (request.id, &self.ids) {
            ids.record_id(id);
        }
        Decision { wanted_response: response, fault: self.options.faults.reaction(random), is_delayed: true }
    }

    /// Writes the head and any text body; returns the number of body bytes still to send.
    fn compose(&self, request: &Request<'_>, decision: &Decision, close: bool, out: &mut Vec<u8>) -> u64 {
        let Reaction::Answer(status) = decision.fault else {
            let WantedResponse::Bytes(size) = decision.wanted_response else { return 0 };
            let size = size.max(2);
            self.identity.head(out, &Head { status: 200, size, id: request.id, close });
            return size;
        };
        match decision.wanted_response {
            WantedResponse::Bytes(_) if matches!(status, 204 | 304) => {
                self.identity.head(out, &Head { status, size: 0, id: request.id, close });
                0
            }
            WantedResponse::Bytes(size) => {
                self.identity.head(out, &Head { status, size, id: request.id, close });
                size
            }
            WantedResponse::Health => self.text(out, b"ok\n", close),
        }
    }

    fn text(&self, out: &mut Vec<u8>, text: &[u8], close: bool) -> u64 {
        self.identity.head(out, &Head { status: 200, size: text.len() as u64, id: None, close });
        out.extend_from_slice(text);
        0
    }
}

/// Sleeps precisely. tokio rounds sleeps up to the next millisecond, and a backend that responds on ticks makes generators
/// that send on ticks look slow.
async fn sleep(delay: Duration) -> std::io::Result<()> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec {
        it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
        it_value: Timespec { tv_sec: delay.as_secs() as i64, tv_nsec: i64::from(delay.subsec_nanos()) },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    // tokio registers only pipes by descriptor; a timerfd is awaited the same way.
    Receiver::from_owned_fd_unchecked(timer)?.readable().await
}

/// Reads a request body to its end.
async fn drain_content<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    input: &mut Vec<u8>,
    mut content: Content,
    expects_continue: bool,
) -> std::io::Result<()> {
    let mut is_asked = !expects_continue;
    loop {
        match content.feed(input).map_err(std::io::Error::other)? {
            Progress::Done(used) => {
                input.drain(..used);
                return Ok(());
            }
            Progress::More => input.clear(),
        }
        if !is_asked {
            is_asked = true;
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        if stream.read_buf(input).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Writes a head and this many body bytes; in one write if they are few.
async fn send<S: AsyncWrite + Unpin>(stream: &mut S, output: &mut Vec<u8>, size: u64) -> std::io::Result<()> {
    let mut bytes_left = size;
    let first = bytes_left.min(PIECE as u64 / 2);
    output.extend_from_slice(&CONTENT[..first as usize]);
    bytes_left -= first;
    stream.write_all(output).await?;
    while bytes_left > 0 {
        let chunk = bytes_left.min(PIECE as u64);
        stream.write_all(&CONTENT[..chunk as usize]).await?;
        bytes_left -= chunk;
    }
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_delay_ends_when_it_should_and_not_at_a_tick() {
        let delay = Duration::from_micros(2_100);
        // On a busy machine some sleeps are longer, but with ticks of a millisecond all would be.
        loop {
            let started = Instant::now();
            sleep(delay).await.unwrap();
            assert!(started.elapsed() >= delay);
            if started.elapsed() < Duration::from_micros(2_900) {
                return;
            }
        }
    }
}
