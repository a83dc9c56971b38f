//! The pace of a flood's threads, so that the proxy spends as much CPU as wanted and no more: their shared state, and a
//! thread that watches the proxy from outside. It is a separate thread, so that reading delays no client's request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::passwords::verifies;
use super::socket_memory::{Port, socket_memory};
use super::usage::cpu_of_threads;

/// Rounds per second before the cost of a round is first measured.
const FIRST_RATE: f64 = 200.0;
/// Sleeping for less is not worth a system call: it adds up.
const SHORTEST_SLEEP: Duration = Duration::from_micros(200);
/// A thread further behind does not catch up.
const LARGEST_DEBT: Duration = Duration::from_millis(20);
const LONGEST_INTERVAL: Duration = Duration::from_secs(1);

/// Controls the threads of a flood: when they stop, how fast they work, what they count.
pub(super) struct Control {
    over: AtomicBool,
    opened: AtomicU64,
    rounds: AtomicU64,
    threads: f64,
    /// Nanoseconds between two rounds of a thread.
    interval: AtomicU64,
}

impl Control {
    pub(super) fn new(threads: usize) -> Self {
        let threads = threads as f64;
        let first = Duration::from_secs_f64(threads / FIRST_RATE);
        Self {
            over: AtomicBool::new(false),
            opened: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            threads,
            interval: AtomicU64::new(first.as_nanos() as u64),
        }
    }

    /// Whether the work is over.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Ends the work.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Counts a started connection.
    pub(super) fn count_opened(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }

    /// Connections started so far.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Rounds so far.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }

    /// Counts `count` rounds.
    pub(super) fn count_rounds(&self, count: u64) {
        self.rounds.fetch_add(count, Ordering::Relaxed);
    }

    /// The rounds of a thread that are due in `time`.
    pub(super) fn due_in(&self, time: Duration) -> f64 {
        time.as_nanos() as f64 / self.interval.load(Ordering::Relaxed).max(1) as f64
    }

    /// Counts a round of a thread and sleeps until its next one is due.
    pub(super) fn wait_for_round(&self, due: &mut Instant) {
        self.count_rounds(1);
        let interval = Duration::from_nanos(self.interval.load(Ordering::Relaxed));
        let now = Instant::now();
        *due = (*due + interval).max(now.checked_sub(LARGEST_DEBT).unwrap_or(now));
        let ahead = due.saturating_duration_since(now);
        if ahead >= SHORTEST_SLEEP {
            std::thread::sleep(ahead.min(LONGEST_INTERVAL));
        }
    }

    /// Sets the pace at which rounds that cost the proxy `each` use `cores` CPU seconds per second.
    pub(super) fn set_pace(&self, each: Duration, cores: f64) {
        let interval = each.mul_f64(self.threads / cores.max(0.001)).min(LONGEST_INTERVAL);
        self.interval.store(interval.as_nanos() as u64, Ordering::Relaxed);
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The kernel walks all of its sockets for this query.
const LOOKS_PER_SOCKETS: u32 = 5;
/// The weight of earlier measurements relative to the latest, within a measurement or a longer step of the work.
const SMOOTHING_FACTOR: f64 = 0.8;

/// The CPU that a flood may make the proxy spend.
pub(super) struct Allowance {
    /// Whose pace is set.
    pub(super) control: Arc<Control>,
    /// CPU seconds per second, without the threads that verify passwords.
    pub(super) cores: f64,
    /// The proxy's CPU use for everything else.
    pub(super) others: f64,
    /// The period of the work: something that happens once per second cannot be measured in half a second.
    pub(super) step: Duration,
}

/// The running thread; it ends with this value.
pub(super) struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Watch {
    /// Watches `process`, whose sockets have `ports`.
    pub(super) fn start(process: u32, ports: Vec<Port>, allowance: Allowance) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&over);
        let body = move || watch(process, &ports, allowance, &theirs);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(body);
        Self { over, thread: Some(thread.expect("a thread starts")) }
    }

    /// Stops it; returns the peak memory of the proxy's sockets, 0 if the kernel does not report it.
    pub(super) fn end(mut self) -> u64 {
        self.stop()
    }

    fn stop(&mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or(0)
    }
}

impl Drop for Watch {
    // A proof that is dropped in its middle leaves no thread behind.
    fn drop(&mut self) {
        self.stop();
    }
}

/// Peak memory of sockets, in bytes.
fn watch(process: u32, ports: &[Port], allowance: Allowance, over: &AtomicBool) -> u64 {
    let mut pace_control = PaceControl::new(process, allowance);
    let (mut looks, mut most) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(POLL_INTERVAL);
        pace_control.look(process);
        if looks % LOOKS_PER_SOCKETS == 0 {
            most = most.max(ports.iter().map(|port| socket_memory(*port).unwrap_or(0)).sum());
        }
        looks += 1;
    }
    most
}

/// Measures the cost of a round for the proxy, and sets the pace accordingly.
struct PaceControl {
    allowance: Allowance,
    last: Look,
    /// CPU seconds, the older the lighter.
    cpu_seconds: f64,
    /// Rounds, the older the lighter.
    rounds: f64,
    /// The remaining weight at the next measurement.
    memory: f64,
}

/// One measurement of the proxy.
struct Look {
    at: Instant,
    cpu: Duration,
    rounds: u64,
}

impl PaceControl {
    fn new(process: u32, allowance: Allowance) -> Self {
        let rounds = allowance.control.rounds();
        let last = Look { at: Instant::now(), cpu: paced_cpu(process), rounds };
        let looks = allowance.step.div_duration_f64(POLL_INTERVAL).max(1.0);
        let memory = SMOOTHING_FACTOR.powf(looks.recip());
        Self { allowance, last, cpu_seconds: 0.0, rounds: 0.0, memory }
    }

    fn look(&mut self, process: u32) {
        let Allowance { control, cores, others, .. } = &self.allowance;
        let now = Look { at: Instant::now(), cpu: paced_cpu(process), rounds: control.rounds() };
        let (time, cpu) = (now.at - self.last.at, now.cpu.saturating_sub(self.last.cpu));
        // A negative value in one measurement offsets an excess in another.
        let own_cpu = cpu.as_secs_f64() - others * time.as_secs_f64();
        self.cpu_seconds = self.cpu_seconds * self.memory + own_cpu;
        self.rounds = self.rounds * self.memory + (now.rounds - self.last.rounds) as f64;
        self.last = now;
        if self.rounds >= 1.0 {
            let each = (self.cpu_seconds / self.rounds).max(0.0);
            control.set_pace(Duration::from_secs_f64(each), *cores);
        }
    }
}

/// CPU time of the proxy that depends on the pace. The threads that verify passwords have a queue: slowing the attackers
/// does not relieve them for seconds, and their number limits their CPU time.
fn paced_cpu(process: u32) -> Duration {
    cpu_of_threads(process, |thread| !verifies(thread))
}
