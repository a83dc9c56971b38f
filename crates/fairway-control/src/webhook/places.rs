//! The places of the webhook's connections. When all are taken and another client comes, the connection that has kept
//! the webhook waiting for longest is closed: idle or slow clients cannot shut the API server out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// Connections at a time. Each may hold a body.
pub(crate) const MAX_CONNECTIONS: usize = 16;
/// So long a client may keep the webhook waiting, whoever else waits for a place.
const GRACE: Duration = Duration::from_millis(250);
/// How often it is looked again for one that waits for longer.
const LOOK: Duration = Duration::from_millis(10);

/// The connections.
#[derive(Debug, Default)]
pub(crate) struct Places {
    tasks: JoinSet<()>,
    held: Vec<(AbortHandle, Pace)>,
}

/// What a connection is waiting for. A clone is the same.
#[derive(Clone, Debug)]
pub(crate) struct Pace(Arc<Mutex<State>>);

#[derive(Clone, Copy, Debug)]
enum State {
    /// For bytes of its client, or for its client to take some, since then.
    Client(Instant),
    /// For an answer in the making.
    Answer,
}

impl Places {
    /// Serves a connection in a place of its own. Waits for one where all are taken; at most for as long as answers take.
    pub(crate) async fn take<F>(&mut self, serve: impl FnOnce(Pace) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.make_room().await;
        let pace = Pace(Arc::new(Mutex::new(State::Client(Instant::now()))));
        let task = self.tasks.spawn(serve(pace.clone()));
        self.held.push((task, pace));
    }

    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.held.retain(|(task, _)| !task.is_finished());
            if self.held.len() < MAX_CONNECTIONS {
                return;
            }
            let slowest = self.held.iter().filter_map(|(task, pace)| Some((pace.waits_since()?, task)));
            match slowest.min_by_key(|(since, _)| *since) {
                Some((since, task)) if since.elapsed() >= GRACE => {
                    task.abort();
                    _ = self.tasks.join_next().await;
                }
                _ => {
                    tokio::select! {
                        _ = self.tasks.join_next() => {}
                        () = sleep(LOOK) => {}
                    }
                }
            }
        }
    }
}

impl Pace {
    /// It waits for its client from now on.
    pub(crate) fn client(&self) {
        self.set(State::Client(Instant::now()));
    }

    /// It waits for an answer from now on.
    pub(crate) fn answer(&self) {
        self.set(State::Answer);
    }

    fn set(&self, state: State) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn waits_since(&self) -> Option<Instant> {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Client(since) => Some(since),
            State::Answer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    /// Connections that never end, each `apart` from the one before; gives their paces.
    async fn fill(places: &mut Places, apart: Duration) -> Vec<Pace> {
        let mut paces = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            places
                .take(|pace| {
                    paces.push(pace);
                    pending()
                })
                .await;
            tokio::time::advance(apart).await;
        }
        paces
    }

    fn is_held(places: &Places, pace: &Pace) -> bool {
        places.held.iter().any(|(task, held)| Arc::ptr_eq(&held.0, &pace.0) && !task.is_finished())
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_that_was_waited_for_longest_gives_way() {
        let mut places = Places::default();
        let paces = fill(&mut places, Duration::from_millis(50)).await;
        paces[0].client();
        paces[1].answer();
        places.take(|_| pending()).await;
        assert!(!is_held(&places, &paces[2]));
        let others = paces.iter().enumerate().filter(|(at, _)| *at != 2);
        assert!(others.into_iter().all(|(_, pace)| is_held(&places, pace)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_came_just_now_keeps_its_place_for_a_moment() {
        let mut places = Places::default();
        fill(&mut places, Duration::ZERO).await;
        let began = Instant::now();
        places.take(|_| pending()).await;
        assert!(began.elapsed() >= GRACE, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_in_the_making_is_lost() {
        let mut places = Places::default();
        let paces = fill(&mut places, Duration::ZERO).await;
        paces.iter().for_each(Pace::answer);
        let more = tokio::time::timeout(Duration::from_secs(60), places.take(|_| pending())).await;
        assert!(more.is_err(), "there is no place");
        assert!(paces.iter().all(|pace| is_held(&places, pace)));
        paces[7].client();
        places.take(|_| pending()).await;
        assert!(!is_held(&places, &paces[7]));
    }
}
