//! When requests are due. A thread tells the time: timers of the runtime, and epoll below them, have whole
//! milliseconds, so requests a whole number of milliseconds apart would all be late by the same part of two, and by
//! another one in the next phase. Two phases could not be compared.

use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Numbers from 0 on at `rate` a second for `time`, each told when it is due. The thread ends with the last one, or
/// soon after the receiver.
pub(super) fn due_times(rate: f64, time: Duration) -> UnboundedReceiver<(u64, Instant)> {
    let (sender, receiver) = unbounded_channel();
    let tell = move || {
        let began = Instant::now();
        for number in 0..(rate * time.as_secs_f64()) as u64 {
            let due = began + Duration::from_secs_f64(number as f64 / rate);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if sender.send((number, due)).is_err() {
                break;
            }
        }
    };
    std::thread::Builder::new().name("due times".to_owned()).spawn(tell).expect("a thread starts");
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn everything_is_due_at_its_time_to_the_microsecond_and_never_told_before() {
        let mut due_times = due_times(3_000.0, Duration::from_millis(20));
        let mut all = Vec::new();
        while let Some((number, due)) = due_times.recv().await {
            assert!(due <= Instant::now(), "number {number}");
            all.push((number, due));
        }
        assert_eq!(all.len(), 60);
        let first = all[0].1;
        for (place, (number, due)) in all.iter().enumerate() {
            let expected = Duration::from_secs_f64(place as f64 / 3_000.0);
            assert_eq!((*number, *due - first), (place as u64, expected));
        }
    }
}
