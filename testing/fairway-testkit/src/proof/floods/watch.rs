//! A thread that watches the proxy from outside: what its sockets hold, and whether attackers make it spend more CPU
//! than they may. A thread of its own, so that its looks delay no client's request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::control::Control;
use super::passwords::verifies;
use super::socket_memory::{Port, socket_memory};
use super::usage::cpu_of_threads;

const LOOK: Duration = Duration::from_millis(50);
/// The kernel goes over all of its sockets for it.
const LOOKS_PER_SOCKETS: u32 = 5;
/// How much of what was seen before counts beside what was seen last, in a look or in a step of the work that is
/// longer.
const MEMORY: f64 = 0.8;

/// The CPU that a flood may make the proxy spend.
pub(super) struct Allowance {
    /// Whose pace is set.
    pub(super) control: Arc<Control>,
    /// Seconds of CPU a second, without those of threads that verify passwords.
    pub(super) cores: f64,
    /// What the proxy spends on everything else.
    pub(super) others: f64,
    /// How long it takes until work repeats: what happens once a second cannot be learnt from half a second.
    pub(super) step: Duration,
}

/// The running thread; it ends with this value.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// The most that sockets held; nothing while the kernel did not tell.
    sockets: AtomicU64,
}

impl Watch {
    /// Watches `process`, whose sockets have `ports`.
    pub(super) fn start(process: u32, ports: Vec<Port>, allowance: Option<Allowance>) -> Self {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let body = move || watch(process, &ports, allowance, &theirs);
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(body);
        Self { shared, thread: Some(thread.expect("a thread starts")) }
    }

    /// Ends it; gives the most that the proxy's sockets held at a time, 0 where the kernel does not tell.
    pub(super) fn end(mut self) -> u64 {
        self.stop();
        self.shared.sockets.load(Ordering::Relaxed)
    }

    fn stop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Watch {
    // A proof that is dropped in its middle leaves no thread behind.
    fn drop(&mut self) {
        self.stop();
    }
}

fn watch(process: u32, ports: &[Port], allowance: Option<Allowance>, shared: &Shared) {
    let mut pace_control = allowance.map(|allowance| PaceControl::new(process, allowance));
    let mut looks = 0;
    while !shared.over.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        if let Some(pace_control) = &mut pace_control {
            pace_control.look(process);
        }
        if looks % LOOKS_PER_SOCKETS == 0 {
            let held = ports.iter().map(|port| socket_memory(*port).unwrap_or(0)).sum();
            shared.sockets.fetch_max(held, Ordering::Relaxed);
        }
        looks += 1;
    }
}

/// Learns what a round costs the proxy, and sets the pace by it.
struct PaceControl {
    allowance: Allowance,
    last: Look,
    /// CPU seconds, the older the lighter.
    cpu_seconds: f64,
    /// Rounds, the older the lighter.
    rounds: f64,
    /// What is left of it at the next look.
    memory: f64,
}

/// What one look at the proxy found.
struct Look {
    at: Instant,
    cpu: Duration,
    rounds: u64,
}

impl PaceControl {
    fn new(process: u32, allowance: Allowance) -> Self {
        let rounds = allowance.control.rounds();
        let last = Look { at: Instant::now(), cpu: paced_cpu(process), rounds };
        let memory = memory_of_a_look(allowance.step);
        Self { allowance, last, cpu_seconds: 0.0, rounds: 0.0, memory }
    }

    fn look(&mut self, process: u32) {
        let Allowance { control, cores, others, .. } = &self.allowance;
        let now = Look { at: Instant::now(), cpu: paced_cpu(process), rounds: control.rounds() };
        let (time, cpu) = (now.at - self.last.at, now.cpu.saturating_sub(self.last.cpu));
        // Less than nothing in one look makes up for too much in another.
        let own = cpu.as_secs_f64() - others * time.as_secs_f64();
        self.cpu_seconds = self.cpu_seconds * self.memory + own;
        self.rounds = self.rounds * self.memory + (now.rounds - self.last.rounds) as f64;
        self.last = now;
        if self.rounds >= 1.0 {
            let each = (self.cpu_seconds / self.rounds).max(0.0);
            control.aim(Duration::from_secs_f64(each), *cores);
        }
    }
}

/// CPU time of the proxy that follows the pace. Its threads that verify passwords have a queue: slower attackers do not
/// spare them anything for seconds, and their number limits what they spend.
fn paced_cpu(process: u32) -> Duration {
    cpu_of_threads(process, |thread| !verifies(thread))
}

/// What is left after a look of what was seen before, where work repeats after `step`.
fn memory_of_a_look(step: Duration) -> f64 {
    let looks = step.div_duration_f64(LOOK).max(1.0);
    MEMORY.powf(looks.recip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_work_is_remembered_for_as_long_as_a_look_is_where_there_are_no_steps() {
        for step in [Duration::ZERO, LOOK / 2, LOOK] {
            assert!((memory_of_a_look(step) - MEMORY).abs() < 1e-9, "{step:?}");
        }
        let looks = 20;
        assert!((memory_of_a_look(LOOK * looks).powi(looks as i32) - MEMORY).abs() < 1e-9);
    }
}
