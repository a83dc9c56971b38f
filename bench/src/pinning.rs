//! Which CPUs run what. Apart means: the proxies on the first CPUs, as many as each has workers, the generator and the
//! backend on the next one, so that the scheduler does not move them about in the middle of a block.

use std::ops::Range;

use fairway_lab_measure::{Distance, distance, pin_thread, round_trip_ns};

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pin {
    /// Proxies on the first CPUs, generator and backend on the next.
    Apart,
    /// Everything on CPU 0: no cache line ever travels, and the kernel's share is as small as it gets.
    Together,
    /// The scheduler decides.
    Off,
}

/// The placement of each proxy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub(crate) struct Placement {
    pub(crate) pin: Pin,
    /// Worker threads or processes of each proxy.
    pub(crate) workers: usize,
}

impl Placement {
    /// The placement possible here: apart needs one CPU more than there are workers.
    pub(crate) fn possible(self) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let pin = match self.pin {
            Pin::Apart if cpus > self.workers => Pin::Apart,
            Pin::Apart if self.workers > 1 => Pin::Off,
            Pin::Apart => Pin::Together,
            pin => pin,
        };
        Self { pin, ..self }
    }

    /// Moves this thread, and the threads it will start, to the generator's CPU.
    pub(crate) fn as_generator(self) -> anyhow::Result<()> {
        self.pin_to(if self.pin == Pin::Apart { self.workers..self.workers + 1 } else { 0..1 })
    }

    /// Moves this thread to the proxies' CPUs, so that a process started now inherits them.
    pub(crate) fn as_proxy(self) -> anyhow::Result<()> {
        self.pin_to(if self.pin == Pin::Apart { 0..self.workers } else { 0..1 })
    }

    fn pin_to(self, cpus: Range<usize>) -> anyhow::Result<()> {
        if self.pin == Pin::Off { Ok(()) } else { pin_thread(cpus) }
    }

    /// The current round trip between the generator's CPU and a proxy's, in nanoseconds; `None` if they share a CPU
    /// or the probe failed.
    pub(crate) fn probe(self) -> Option<f64> {
        if self.pin == Pin::Apart { round_trip_ns(self.workers, 0) } else { None }
    }

    /// The distance of the two CPUs, from the result of [`Placement::probe`].
    pub(crate) fn distance(self, round_trip_ns: Option<f64>) -> Distance {
        if self.pin == Pin::Together { Distance::OneCore } else { distance(round_trip_ns) }
    }
}
