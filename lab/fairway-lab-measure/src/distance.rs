//! The current distance of two CPUs: the time a cache line takes from one to the other and back. On a virtual machine it
//! changes when the host moves a virtual CPU, and half of the kernel's cost of a loopback request is such transfers; blocks
//! measured at different distances must not be compared. Moves nothing itself.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::pinning::pin_thread;
use crate::results::Distance;

const ROUND_TRIPS_PER_SERIES: u32 = 200;
/// Undisturbed series are rare while other work runs on the machine; a quiet one is done in a millisecond.
const LIMIT: Duration = Duration::from_millis(200);
const QUIET_SERIES: u32 = 10;

/// Two CPUs of one core pass a line in 60 to 80 ns, two cores in 300 to 450 ns; nothing lies between.
const ONE_CORE_NS: f64 = 150.0;

/// The distance indicated by a round trip.
#[must_use]
pub fn distance(round_trip_ns: Option<f64>) -> Distance {
    match round_trip_ns {
        None => Distance::Unknown,
        Some(ns) if ns < ONE_CORE_NS => Distance::OneCore,
        Some(_) => Distance::TwoCores,
    }
}

/// The distance of the CPUs during a block, from a probe before and one after it; an error if it changed.
///
/// # Errors
/// A sentence.
pub fn during(before: Distance, after: Distance) -> Result<Distance, String> {
    match (before, after) {
        (Distance::Unknown, known) | (known, Distance::Unknown) => Ok(known),
        (before, after) if before == after => Ok(before),
        _ => Err("the host moved a CPU".to_owned()),
    }
}

/// Nanoseconds for one round trip between two CPUs, the best of many short series, so that other work does not count.
/// `None` if every series was disturbed or a CPU may not be used.
#[must_use]
pub fn round_trip_ns(one_cpu: usize, other_cpu: usize) -> Option<f64> {
    let (ball, over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| pin_thread(other_cpu..other_cpu + 1).map(|()| respond(&ball, &over)));
        let best = scope
            .spawn(|| pin_thread(one_cpu..one_cpu + 1).ok().and_then(|()| call(&ball)))
            .join()
            .ok()
            .flatten();
        over.store(true, Ordering::Release);
        best
    })
}

/// Even values wait for the other side, which makes them odd.
fn respond(ball: &AtomicU32, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let value = ball.load(Ordering::Acquire);
        if value % 2 == 1 {
            ball.store(value + 1, Ordering::Release);
        }
        std::hint::spin_loop();
    }
}

fn call(ball: &AtomicU32) -> Option<f64> {
    let started = Instant::now();
    let mut best: Option<f64> = None;
    let mut value = 0;
    for _ in 0..QUIET_SERIES {
        let series = Instant::now();
        for _ in 0..ROUND_TRIPS_PER_SERIES {
            ball.store(value + 1, Ordering::Release);
            value += 2;
            while ball.load(Ordering::Acquire) != value {
                std::hint::spin_loop();
                if started.elapsed() > LIMIT {
                    return best;
                }
            }
        }
        let each = series.elapsed().as_nanos() as f64 / f64::from(ROUND_TRIPS_PER_SERIES);
        best = Some(best.map_or(each, |best| best.min(each)));
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_shows_the_distance_of_cpus() {
        assert_eq!(
            [None, Some(70.0), Some(400.0)].map(distance),
            [Distance::Unknown, Distance::OneCore, Distance::TwoCores]
        );
        // A CPU that does not exist never responds.
        assert!(round_trip_ns(0, usize::MAX / 2).is_none());
    }
}
