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

impl Pin {
    /// What is possible of it: apart needs two CPUs.
    pub(crate) fn possible(self) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self == Self::Apart && cpus == 1 { Self::Together } else { self }
    }

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
