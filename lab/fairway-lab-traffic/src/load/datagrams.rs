//! Datagrams in a closed loop, on one thread: each session is a socket of its own that sends a datagram, waits for its echo and sends
//! the next one. An echo counts if it has the length and the number of what was sent last. One that does not come in time is lost,
//! and never sent again.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;

use super::poller::{Interest, Poller};
use super::worker::Between;

/// The number of a datagram, which it begins with.
const NUMBER: usize = size_of::<u64>();
/// How often it is looked for what is lost, and whether the owner wants something.
const LOOK: Duration = Duration::from_millis(1);

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub struct DatagramPlan {
    /// Where to.
    pub address: SocketAddr,
    /// Sessions at a time, each with one datagram on its way.
    pub sessions: usize,
    /// What a session is used for.
    pub reuse: SessionReuse,
    /// The length of a datagram, at least 8.
    pub bytes: usize,
    /// How long datagrams are sent.
    pub duration: Option<Duration>,
    /// How many are sent.
    pub datagrams: Option<u64>,
    /// When an echo counts as lost.
    pub timeout: Duration,
}

/// What a session is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionReuse {
    /// All its datagrams.
    Kept,
    /// One datagram: the next one comes from another port.
    Fresh,
}

/// What became of them.
#[derive(Debug)]
pub struct DatagramOutcome {
    /// Echoes that came.
    pub answered: u64,
    /// Datagrams without an echo.
    pub lost: u64,
    /// Echoes with another length.
    pub wrong: u64,
    /// Of those that came, microseconds.
    pub latency: Histogram<u64>,
    /// From the first datagram to the last echo.
    pub seconds: f64,
}

/// Datagrams that are being sent.
pub struct Datagrams {
    order: Arc<AtomicU8>,
    thread: JoinHandle<anyhow::Result<DatagramOutcome>>,
}

const OPEN: u8 = 0;
const BEGUN: u8 = 1;
const FINISHED: u8 = 2;
const RELEASED: u8 = 3;

impl Datagrams {
    /// Opens the sockets and sends nothing until [`Datagrams::begin`]. After the last echo they stay open until
    /// [`Datagrams::join`]. With `between` the thread never sleeps: it does that between its turns.
    ///
    /// # Errors
    /// Sockets cannot be opened.
    pub fn open(plan: DatagramPlan, between: Option<Between>) -> anyhow::Result<Self> {
        anyhow::ensure!(plan.bytes >= NUMBER, "a datagram has at least {NUMBER} bytes");
        let order = Arc::new(AtomicU8::new(OPEN));
        let (report, reports) = mpsc::channel();
        let of_thread = order.clone();
        let thread = std::thread::Builder::new().name("datagrams".into()).spawn(move || {
            let sender = Sender::new(plan, of_thread, between);
            _ = report.send(sender.as_ref().err().map(|error| format!("{error:#}")));
            sender?.run()
        });
        let thread = thread.context("start the thread of the generator")?;
        if let Some(error) = reports.recv().context("the thread of the generator is gone")? {
            anyhow::bail!(error);
        }
        Ok(Self { order, thread })
    }

    /// Begins.
    pub fn begin(&self) {
        self.order.store(BEGUN, Ordering::Release);
    }

    /// Whether all have ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.order.load(Ordering::Acquire) == FINISHED || self.thread.is_finished()
    }

    /// Waits for the end and closes the sockets.
    ///
    /// # Errors
    /// The thread could not go on.
    pub fn join(self) -> anyhow::Result<DatagramOutcome> {
        while !self.is_finished() {
            std::thread::sleep(LOOK);
        }
        self.order.store(RELEASED, Ordering::Release);
        self.thread.join().map_err(|_| anyhow::anyhow!("the thread of the generator panicked"))?
    }
}

/// A socket, and the datagram that is on its way.
struct Session {
    socket: UdpSocket,
    number: u64,
    sent: Option<Instant>,
}

struct Sender {
    plan: DatagramPlan,
    order: Arc<AtomicU8>,
    between: Option<Between>,
    poller: Poller,
    sessions: Vec<Session>,
    begun: Instant,
    /// Datagrams that were sent.
    started: u64,
    under_way: usize,
    datagram: Vec<u8>,
    outcome: DatagramOutcome,
}

impl Sender {
    fn new(plan: DatagramPlan, order: Arc<AtomicU8>, between: Option<Between>) -> anyhow::Result<Self> {
        let poller = Poller::new()?;
        let mut sessions = Vec::with_capacity(plan.sessions);
        for token in 0..plan.sessions {
            sessions.push(Session::open(plan.address, &poller, token, 0)?);
        }
        let outcome =
            DatagramOutcome { answered: 0, lost: 0, wrong: 0, latency: Histogram::new(3)?, seconds: 0.0 };
        let datagram = vec![b'x'; plan.bytes];
        let begun = Instant::now();
        Ok(Self {
            plan,
            order,
            between,
            poller,
            sessions,
            begun,
            started: 0,
            under_way: 0,
            datagram,
            outcome,
        })
    }

    fn run(mut self) -> anyhow::Result<DatagramOutcome> {
        while self.order.load(Ordering::Acquire) == OPEN {
            self.idle()?;
        }
        self.begun = Instant::now();
        for token in 0..self.sessions.len() {
            self.send(token)?;
        }
        let (mut happened, mut buffer, mut looked) = (Vec::new(), vec![0; 64 * 1024], self.begun);
        while self.under_way > 0 {
            let longest = if self.between.is_some() { 0 } else { 10_000_000 };
            self.poller.wait(Some(longest), &mut happened)?;
            for event in happened.drain(..) {
                self.receive(event.token as usize, &mut buffer)?;
            }
            let now = Instant::now();
            if now - looked >= LOOK * 10 {
                looked = now;
                self.give_up(now)?;
            }
            if let Some(between) = &mut self.between {
                between()?;
            }
        }
        self.outcome.seconds = self.begun.elapsed().as_secs_f64();
        self.order.store(FINISHED, Ordering::Release);
        while self.order.load(Ordering::Acquire) == FINISHED {
            self.idle()?;
        }
        Ok(self.outcome)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        match &mut self.between {
            Some(between) => between(),
            None => {
                std::thread::sleep(LOOK);
                Ok(())
            }
        }
    }

    /// Whether nothing more is sent.
    fn is_over(&self) -> bool {
        self.plan.datagrams.is_some_and(|most| self.started >= most)
            || self.plan.duration.is_some_and(|longest| self.begun.elapsed() >= longest)
    }

    fn send(&mut self, token: usize) -> anyhow::Result<()> {
        if self.is_over() {
            return Ok(());
        }
        self.started += 1;
        let session = &mut self.sessions[token];
        session.number = self.started;
        self.datagram[..NUMBER].copy_from_slice(&session.number.to_be_bytes());
        session.sent = Some(Instant::now());
        self.under_way += 1;
        match session.socket.send(&self.datagram) {
            Ok(_) => Ok(()),
            // It is lost, as it may be anywhere; the socket says so because an earlier one came to a closed port.
            Err(error) if is_of_the_network(&error) => Ok(()),
            Err(error) => Err(error).context("send a datagram"),
        }
    }

    /// Takes what came to a session, and goes on with the next datagram.
    fn receive(&mut self, token: usize, buffer: &mut [u8]) -> anyhow::Result<()> {
        loop {
            let session = &self.sessions[token];
            let count = match session.socket.recv(buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if is_of_the_network(&error) => return self.ended(token, None),
                Err(error) => return Err(error).context("receive a datagram"),
            };
            let Some(sent) = session.sent else { continue };
            if count != self.plan.bytes {
                self.outcome.wrong += 1;
                return self.ended(token, None);
            }
            if buffer[..NUMBER] == session.number.to_be_bytes() {
                return self.ended(token, Some(sent.elapsed()));
            }
            // The echo of one that was given up.
        }
    }

    /// What was on its way has ended: after so long with an echo, or without one.
    fn ended(&mut self, token: usize, after: Option<Duration>) -> anyhow::Result<()> {
        if self.sessions[token].sent.take().is_none() {
            return Ok(());
        }
        self.under_way -= 1;
        match after {
            Some(after) => {
                self.outcome.answered += 1;
                let micros = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
                self.outcome.latency.saturating_record(micros.max(1));
            }
            None => self.outcome.lost += 1,
        }
        if self.plan.reuse == SessionReuse::Fresh && !self.is_over() {
            let number = self.sessions[token].number;
            self.sessions[token] = Session::open(self.plan.address, &self.poller, token, number)?;
        }
        self.send(token)
    }

    fn give_up(&mut self, now: Instant) -> anyhow::Result<()> {
        for token in 0..self.sessions.len() {
            let sent = self.sessions[token].sent;
            if sent.is_some_and(|sent| now.saturating_duration_since(sent) >= self.plan.timeout) {
                self.ended(token, None)?;
            }
        }
        Ok(())
    }
}

impl Session {
    fn open(to: SocketAddr, poller: &Poller, token: usize, number: u64) -> anyhow::Result<Self> {
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let open = || -> io::Result<UdpSocket> {
            let socket = UdpSocket::bind(any)?;
            socket.connect(to)?;
            socket.set_nonblocking(true)?;
            poller.add(&socket, token as u64, Interest::Read)?;
            Ok(socket)
        };
        Ok(Self { socket: open().context("open a socket for datagrams")?, number, sent: None })
    }
}

/// Whether a datagram was lost on its way: nobody was at its address, or there was no room.
fn is_of_the_network(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::WouldBlock
            | ErrorKind::HostUnreachable
            | ErrorKind::NetworkUnreachable
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers every datagram with what `answer` makes of its number and its bytes, until nothing comes any more.
    fn echo(answer: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> SocketAddr {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let address = socket.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while let Ok((count, from)) = socket.recv_from(&mut buffer) {
                let number = u64::from_be_bytes(buffer[..NUMBER].try_into().unwrap());
                if let Some(answer) = answer(number, &buffer[..count]) {
                    socket.send_to(&answer, from).unwrap();
                }
            }
        });
        address
    }

    fn sent(address: SocketAddr, reuse: SessionReuse) -> DatagramOutcome {
        let plan = DatagramPlan {
            address,
            sessions: 4,
            reuse,
            bytes: 100,
            duration: None,
            datagrams: Some(200),
            timeout: Duration::from_millis(200),
        };
        let datagrams = Datagrams::open(plan, None).unwrap();
        datagrams.begin();
        datagrams.join().unwrap()
    }

    #[test]
    fn every_echo_of_the_right_length_and_number_counts() {
        let address = echo(|_, bytes| Some(bytes.to_vec()));
        for reuse in [SessionReuse::Kept, SessionReuse::Fresh] {
            let outcome = sent(address, reuse);
            assert_eq!((outcome.answered, outcome.lost, outcome.wrong), (200, 0, 0), "{reuse:?}");
            assert_eq!(outcome.latency.len(), 200);
        }
    }

    #[test]
    fn what_is_lost_or_cut_is_counted_and_the_others_go_on() {
        let address = echo(|number, bytes| match number {
            50 => None,
            60 => Some(bytes[..50].to_vec()),
            _ => Some(bytes.to_vec()),
        });
        let outcome = sent(address, SessionReuse::Kept);
        assert_eq!((outcome.answered, outcome.lost, outcome.wrong), (198, 2, 1));
    }

    #[test]
    fn a_closed_port_answers_nothing() {
        let closed = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let outcome = sent(closed, SessionReuse::Kept);
        assert_eq!((outcome.answered, outcome.lost), (0, 200));
    }
}
