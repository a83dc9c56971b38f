//! Concurrent connects of which the first to complete is used (docs/design/0018-hedged-connects.md). The caller
//! decides what may enter and what happens to the losers.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::clock::Instant;
use tokio::time::Sleep;

/// A connect in progress.
pub(crate) type Connecting<S, E> = Pin<Box<dyn Future<Output = Result<S, E>>>>;

/// A race of connects. `T` is the caller's data of each.
pub(crate) struct Race<T, S, E> {
    racers: Vec<Racer<T, S, E>>,
    /// Fires when the latest connect is slow; `None` if nothing may race it.
    late_timer: Option<Pin<Box<Sleep>>>,
}

/// One connect of a race.
pub(crate) struct Racer<T, S, E> {
    /// Data of the caller.
    pub token: T,
    /// The connect.
    pub connecting: Connecting<S, E>,
    /// Start time.
    pub started_at: Instant,
}

/// An event of a race.
pub(crate) enum Event<T, S, E> {
    /// The first connect to complete, and how long it took.
    Connected(T, S, Duration),
    /// A connect failed and left the race.
    Failed(T, E),
    /// The latest connect is slow.
    Late,
}

impl<T, S, E> Default for Race<T, S, E> {
    fn default() -> Self {
        Self { racers: Vec::new(), late_timer: None }
    }
}

impl<T, S, E> Race<T, S, E> {
    /// Adds a connect, which counts as late after `late_after`, or never.
    pub(crate) fn enter(&mut self, token: T, connecting: Connecting<S, E>, late_after: Option<Duration>) {
        self.racers.push(Racer { token, connecting, started_at: Instant::now() });
        self.set_late_timer(late_after);
    }

    /// Sets when the latest connect counts as late, from now.
    pub(crate) fn set_late_timer(&mut self, late_after: Option<Duration>) {
        self.late_timer = late_after.map(|delay| Box::pin(tokio::time::sleep(delay)));
    }

    /// Waits for the next event. Must not be called without a connect.
    pub(crate) async fn event(&mut self) -> Event<T, S, E> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event<T, S, E>> {
        for which in 0..self.racers.len() {
            if let Poll::Ready(result) = self.racers[which].connecting.as_mut().poll(cx) {
                let Racer { token, started_at, .. } = self.racers.swap_remove(which);
                return Poll::Ready(match result {
                    Ok(stream) => Event::Connected(token, stream, started_at.elapsed()),
                    Err(error) => Event::Failed(token, error),
                });
            }
        }
        let Some(late) = &mut self.late_timer else { return Poll::Pending };
        late.as_mut().poll(cx).map(|()| {
            self.late_timer = None;
            Event::Late
        })
    }

    /// Connects in progress.
    #[must_use]
    pub(crate) fn racers(&self) -> &[Racer<T, S, E>] {
        &self.racers
    }

    /// Removes the first connect for which `which` holds.
    pub(crate) fn take(&mut self, is_wanted: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.racers.iter().position(|racer| is_wanted(&racer.token))?;
        Some(self.racers.swap_remove(at).token)
    }

    /// Ends the race; returns the connects still in progress.
    pub(crate) fn into_racers(self) -> Vec<Racer<T, S, E>> {
        self.racers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(milliseconds: u64, result: Result<&'static str, ()>) -> Connecting<&'static str, ()> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            result
        })
    }

    /// Event as text, and its time.
    async fn next(race: &mut Race<u8, &'static str, ()>, start: Instant) -> (String, u128) {
        let event = match race.event().await {
            Event::Connected(token, stream, took) => format!("{token} {stream} {}", took.as_millis()),
            Event::Failed(token, ()) => format!("{token} failed"),
            Event::Late => "late".to_owned(),
        };
        (event, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_to_complete_wins_and_the_others_are_returned() {
        let (mut race, start) = (Race::default(), Instant::now());
        race.enter(1, after(1_000, Ok("slow")), Some(Duration::from_millis(250)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 250));
        race.enter(2, after(100, Ok("fast")), None);
        assert_eq!(next(&mut race, start).await, ("2 fast 100".to_owned(), 350));
        let tokens: Vec<_> = race.into_racers().into_iter().map(|racer| racer.token).collect();
        assert_eq!(tokens, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_connects_leave_and_each_timer_fires_once() {
        let (mut race, start) = (Race::default(), Instant::now());
        race.enter(1, after(500, Err(())), Some(Duration::from_millis(100)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 100));
        race.set_late_timer(Some(Duration::from_millis(25)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 125));
        assert_eq!(next(&mut race, start).await, ("1 failed".to_owned(), 500));
        assert!(race.racers().is_empty());
        race.enter(2, after(10, Ok("x")), None);
        assert_eq!((race.take(|token| *token == 3), race.take(|token| *token == 2)), (None, Some(2)));
    }
}
