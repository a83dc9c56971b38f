//! How far apart the two CPUs are right now: the time a cache line takes from one to the other and back. On a virtual
//! machine this changes when the host moves a virtual CPU, and half of what the kernel spends on a loopback request
//! is such transfers; blocks measured at different distances must not be compared. Never moves anything itself.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::pinning::Pin;

const TRIPS: u32 = 200;
/// Undisturbed series are rare while other work runs on the machine; a quiet one is done in a millisecond.
const LIMIT: Duration = Duration::from_millis(200);
const ENOUGH: u32 = 10;

/// Two CPUs of one core pass a line in 60 to 80 ns, two cores in 300 to 450 ns; nothing lies between.
const ONE_CORE_NS: f64 = 150.0;

/// Where the two CPUs were during a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Distance {
    /// On one physical core, or everything is pinned to one CPU.
    OneCore,
    TwoCores,
    /// Nothing is pinned, or no probe came through.
    Unknown,
}

impl Distance {
    pub(crate) fn of(pin: Pin, round_trip_ns: Option<f64>) -> Self {
        match round_trip_ns {
            _ if pin == Pin::Together => Self::OneCore,
            None => Self::Unknown,
            Some(ns) if ns < ONE_CORE_NS => Self::OneCore,
            Some(_) => Self::TwoCores,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::OneCore => "CPUs on one core",
            Self::TwoCores => "CPUs on two cores",
            Self::Unknown => "CPUs anywhere",
        }
    }
}

/// Nanoseconds for one round trip, the best of many short series, so that whoever else runs does not count.
/// `None` when nothing is pinned or no series was undisturbed.
pub(crate) fn round_trip_ns(pin: Pin) -> anyhow::Result<Option<f64>> {
    if pin != Pin::Apart {
        return Ok(None);
    }
    let (ball, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let best = std::thread::scope(|scope| {
        scope.spawn(|| pin.as_proxy().map(|()| answer(&ball, &over)));
        let best = call(&ball);
        over.store(true, Ordering::Release);
        best
    });
    Ok(best)
}

/// Even values wait for the other side, which makes them odd.
fn answer(ball: &AtomicU32, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let value = ball.load(Ordering::Acquire);
        if value % 2 == 1 {
            ball.store(value + 1, Ordering::Release);
        }
        std::hint::spin_loop();
    }
}

fn call(ball: &AtomicU32) -> Option<f64> {
    let begun = Instant::now();
    let mut best: Option<f64> = None;
    let mut value = 0;
    for _ in 0..ENOUGH {
        let series = Instant::now();
        for _ in 0..TRIPS {
            ball.store(value + 1, Ordering::Release);
            value += 2;
            while ball.load(Ordering::Acquire) != value {
                std::hint::spin_loop();
                if begun.elapsed() > LIMIT {
                    return best;
                }
            }
        }
        let each = series.elapsed().as_nanos() as f64 / f64::from(TRIPS);
        best = Some(best.map_or(each, |best| best.min(each)));
    }
    best
}
