//! Connects that race each other: the first to complete is used (docs/design/0018-hedged-connects.md). Who may enter, and what
//! becomes of those that lose, is decided above.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use fairway_net::clock::Instant;
use tokio::time::Sleep;

/// A connect under way.
pub(crate) type Connecting<S, E> = Pin<Box<dyn Future<Output = Result<S, E>>>>;

/// A race. `T` is what the caller knows of a racer.
pub(crate) struct Race<T, S, E> {
    racers: Vec<Racer<T, S, E>>,
    /// When the youngest racer is late; none where nothing may race it.
    late: Option<Pin<Box<Sleep>>>,
}

/// One connect of a race.
pub(crate) struct Racer<T, S, E> {
    /// What the caller knows of it.
    pub token: T,
    /// The connect.
    pub connecting: Connecting<S, E>,
    /// When it began.
    pub began: Instant,
}

/// What happened in a race.
pub(crate) enum Event<T, S, E> {
    /// This one was first, after this time.
    Connected(T, S, Duration),
    /// This one failed and is out.
    Failed(T, E),
    /// The youngest is late.
    Late,
}

impl<T, S, E> Default for Race<T, S, E> {
    fn default() -> Self {
        Self { racers: Vec::new(), late: None }
    }
}

impl<T, S, E> Race<T, S, E> {
    /// Another connect. It is late after `patience`; never where there is none.
    pub(crate) fn enter(&mut self, token: T, connecting: Connecting<S, E>, patience: Option<Duration>) {
        self.racers.push(Racer { token, connecting, began: Instant::now() });
        self.look_after(patience);
    }

    /// The youngest is late after this time, from now.
    pub(crate) fn look_after(&mut self, patience: Option<Duration>) {
        self.late = patience.map(|patience| Box::pin(tokio::time::sleep(patience)));
    }

    /// What happens next. Not to be asked of a race without a connect.
    pub(crate) async fn event(&mut self) -> Event<T, S, E> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event<T, S, E>> {
        for which in 0..self.racers.len() {
            if let Poll::Ready(result) = self.racers[which].connecting.as_mut().poll(cx) {
                let Racer { token, began, .. } = self.racers.swap_remove(which);
                return Poll::Ready(match result {
                    Ok(stream) => Event::Connected(token, stream, began.elapsed()),
                    Err(error) => Event::Failed(token, error),
                });
            }
        }
        let Some(late) = &mut self.late else { return Poll::Pending };
        late.as_mut().poll(cx).map(|()| {
            self.late = None;
            Event::Late
        })
    }

    /// Those that are under way.
    #[must_use]
    pub(crate) fn racers(&self) -> &[Racer<T, S, E>] {
        &self.racers
    }

    /// Takes out the first one of which `which` is so.
    pub(crate) fn take(&mut self, which: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.racers.iter().position(|racer| which(&racer.token))?;
        Some(self.racers.swap_remove(at).token)
    }

    /// The race is over: those that are still under way.
    pub(crate) fn leave(self) -> Vec<Racer<T, S, E>> {
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

    /// In words, and when.
    async fn next(race: &mut Race<u8, &'static str, ()>, start: Instant) -> (String, u128) {
        let event = match race.event().await {
            Event::Connected(token, stream, took) => format!("{token} {stream} {}", took.as_millis()),
            Event::Failed(token, ()) => format!("{token} failed"),
            Event::Late => "late".to_owned(),
        };
        (event, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_to_complete_wins_and_the_others_are_left() {
        let (mut race, start) = (Race::default(), Instant::now());
        race.enter(1, after(1_000, Ok("slow")), Some(Duration::from_millis(250)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 250));
        race.enter(2, after(100, Ok("fast")), None);
        assert_eq!(next(&mut race, start).await, ("2 fast 100".to_owned(), 350));
        let left: Vec<_> = race.leave().into_iter().map(|racer| racer.token).collect();
        assert_eq!(left, [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_fails_is_out_and_lateness_is_said_once_for_each_time_that_was_set() {
        let (mut race, start) = (Race::default(), Instant::now());
        race.enter(1, after(500, Err(())), Some(Duration::from_millis(100)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 100));
        race.look_after(Some(Duration::from_millis(25)));
        assert_eq!(next(&mut race, start).await, ("late".to_owned(), 125));
        assert_eq!(next(&mut race, start).await, ("1 failed".to_owned(), 500));
        assert!(race.racers().is_empty());
        race.enter(2, after(10, Ok("x")), None);
        assert_eq!((race.take(|token| *token == 3), race.take(|token| *token == 2)), (None, Some(2)));
    }
}
