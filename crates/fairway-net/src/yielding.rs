//! Lets a task with more work yield to others.

use std::pin::pin;
use std::task::Context;

/// Wakes the task after all that is ready has run, including socket events. A task that wakes itself instead is polled
/// up to 61 times (tokio's `LocalSet`) before its thread checks sockets.
pub fn go_on_later(cx: &mut Context<'_>) {
    // The first poll passes the waker to the scheduler, which keeps it until it has checked sockets. It is never ready
    // then.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;
    use std::task::Poll;

    use tokio::net::UnixStream;
    use tokio::runtime::Builder;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// How often a task with endless work is polled until another one learns that its socket is readable.
    fn turns_before_a_socket_is_seen(work: fn(&mut Context<'_>)) -> u32 {
        let runtime = Builder::new_current_thread().enable_io().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let turns = Rc::new(Cell::new(0));
            let counted = Rc::clone(&turns);
            spawn_local(poll_fn(move |cx| {
                counted.set(counted.get() + 1);
                work(cx);
                Poll::<()>::Pending
            }));
            let (ours, theirs) = UnixStream::pair().unwrap();
            theirs.writable().await.unwrap();
            assert_eq!(theirs.try_write(b"x").unwrap(), 1);
            let before = turns.get();
            ours.readable().await.unwrap();
            turns.get() - before
        })
    }

    #[test]
    fn sockets_are_looked_at_between_the_turns_of_a_task() {
        let later = turns_before_a_socket_is_seen(go_on_later);
        let at_once = turns_before_a_socket_is_seen(|cx| cx.waker().wake_by_ref());
        assert!(later <= 3, "{later} turns");
        assert!(at_once > 30, "{at_once} turns: there is nothing to test");
    }
}
