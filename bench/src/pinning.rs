//! Which CPU runs what. Apart means: the proxies on CPU 0, the generator and the backend on CPU 1, so that the
//! scheduler does not move them about in the middle of a block.

use fairway_lab_measure::{Distance, distance, pin_thread, round_trip_ns};

const PROXY: usize = 0;
const GENERATOR: usize = 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pin {
    /// Proxies on CPU 0, generator and backend on CPU 1.
    Apart,
    /// Everything on CPU 0: no cache line ever travels, and the kernel's share is as small as it gets.
    Together,
    /// The scheduler decides.
    Off,
}

/// What the generator and the backend do when nothing is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Idle {
    /// Look again at once: a proxy never pays for waking them.
    Spin,
    /// Sleep: a proxy that finds their CPU asleep pays for the interrupt that wakes it.
    Sleep,
}

/// Where proxy and generator run, and what waits how.
#[derive(Clone, Copy)]
pub(crate) struct Conditions {
    pub(crate) pin: Pin,
    pub(crate) idle: Idle,
}

/// What is possible of what is asked for: apart needs two CPUs, and whoever spins must not share one.
pub(crate) fn possible(pin: Pin, idle: Idle) -> Conditions {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    match pin {
        Pin::Apart if cpus > 1 => Conditions { pin, idle },
        Pin::Apart | Pin::Together => Conditions { pin: Pin::Together, idle: Idle::Sleep },
        Pin::Off => Conditions { pin, idle },
    }
}

impl Pin {
    /// Moves this thread, and the threads it will start, to the generator's CPU.
    pub(crate) fn as_generator(self) -> anyhow::Result<()> {
        self.to(if self == Self::Apart { GENERATOR } else { PROXY })
    }

    /// Moves this thread to the proxies' CPU, so that a process started now inherits it.
    pub(crate) fn as_proxy(self) -> anyhow::Result<()> {
        self.to(PROXY)
    }

    fn to(self, cpu: usize) -> anyhow::Result<()> {
        if self == Self::Off { Ok(()) } else { pin_thread(cpu) }
    }

    /// Nanoseconds from one CPU to the other and back, now; nothing where there are no two, or no probe came through.
    pub(crate) fn probe(self) -> Option<f64> {
        if self == Self::Apart { round_trip_ns(GENERATOR, PROXY) } else { None }
    }

    /// Where the two are, by what [`Pin::probe`] said.
    pub(crate) fn distance(self, round_trip_ns: Option<f64>) -> Distance {
        if self == Self::Together { Distance::OneCore } else { distance(round_trip_ns) }
    }
}
