//! Which CPU runs what. Apart means: the proxies on CPU 0, the generator and the backend on CPU 1, so that the
//! scheduler does not move them about in the middle of a block.

use rustix::thread::{CpuSet, sched_setaffinity};

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pin {
    /// Proxies on CPU 0, generator and backend on CPU 1.
    Apart,
    /// The scheduler decides.
    Off,
}

impl Pin {
    /// `Apart` needs two CPUs.
    pub(crate) fn possible(self) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if cpus < 2 { Self::Off } else { self }
    }

    /// Moves this thread, and the threads it will start, to the generator's CPU.
    pub(crate) fn as_generator(self) -> anyhow::Result<()> {
        self.to(1)
    }

    /// Moves this thread to the proxies' CPU, so that a process started now inherits it.
    pub(crate) fn as_proxy(self) -> anyhow::Result<()> {
        self.to(0)
    }

    fn to(self, cpu: usize) -> anyhow::Result<()> {
        if self == Self::Apart {
            let mut set = CpuSet::new();
            set.set(cpu);
            sched_setaffinity(None, &set)?;
        }
        Ok(())
    }
}
