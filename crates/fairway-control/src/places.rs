//! The connections of a small server. When all places are taken and another client comes, one connection is closed: of the
//! address that has the most of them, the one that has kept the server waiting for longest. Idle or slow clients cannot
//! shut the others out, and a client with few connections never gives way to one with many.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// How often it is looked again for one that waits for longer.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// The connections.
#[derive(Debug)]
pub struct Places {
    max: usize,
    grace: Duration,
    tasks: JoinSet<()>,
    held: Vec<Pace>,
}

/// A connection, and what it is waiting for. A clone is the same.
#[derive(Clone, Debug)]
pub struct Pace(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: Mutex<State>,
    task: OnceLock<AbortHandle>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// For bytes of its client, or for its client to take some, since then.
    Client(Instant),
    /// For an answer in the making.
    Answer,
}

impl Places {
    /// For `max` connections at a time. A client may keep the server waiting for `grace`, whoever else waits for a place.
    pub fn new(max: usize, grace: Duration) -> Self {
        Self { max, grace, tasks: JoinSet::new(), held: Vec::new() }
    }

    /// Serves a connection of `peer` in a place of its own. Waits for one where all are taken; at most for as long as
    /// answers and the grace take.
    pub async fn take<F>(&mut self, peer: IpAddr, serve: impl FnOnce(Pace) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.make_room().await;
        let pace = Pace::new(peer);
        let task = self.tasks.spawn(serve(pace.clone()));
        _ = pace.0.task.set(task);
        self.held.push(pace);
    }

    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.held.retain(|pace| !pace.is_over());
            if self.held.len() < self.max {
                return;
            }
            match longest_of_the_busiest(&self.held) {
                Some((pace, waited)) if waited >= self.grace => {
                    pace.close();
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

/// Of the connections that wait for their clients, one of the address that has the most connections: the one that has
/// waited for longest, and for how long.
pub(crate) fn longest_of_the_busiest(held: &[Pace]) -> Option<(&Pace, Duration)> {
    let of_peer = |pace: &Pace| held.iter().filter(|other| other.0.peer == pace.0.peer).count();
    let waiting = held.iter().filter_map(|pace| Some((pace, pace.waits_since()?.elapsed())));
    waiting.max_by_key(|(pace, waited)| (of_peer(pace), *waited))
}

impl Pace {
    pub(crate) fn new(peer: IpAddr) -> Self {
        let state = Mutex::new(State::Client(Instant::now()));
        Self(Arc::new(Connection { peer, state, task: OnceLock::new() }))
    }

    /// It waits for its client from now on.
    pub fn client(&self) {
        self.set(State::Client(Instant::now()));
    }

    /// It waits for an answer from now on.
    pub fn answer(&self) {
        self.set(State::Answer);
    }

    /// Ends the connection, whatever it waits for.
    pub(crate) fn close(&self) {
        if let Some(task) = self.0.task.get() {
            task.abort();
        }
    }

    /// Whether both are connections of one address.
    pub(crate) fn is_of_peer(&self, other: &Self) -> bool {
        self.0.peer == other.0.peer
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn is_over(&self) -> bool {
        self.0.task.get().is_some_and(AbortHandle::is_finished)
    }

    fn set(&self, state: State) {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn waits_since(&self) -> Option<Instant> {
        match *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Client(since) => Some(since),
            State::Answer => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const MAX: usize = 16;
    const GRACE: Duration = Duration::from_millis(250);

    fn places() -> Places {
        Places::new(MAX, GRACE)
    }

    fn peer(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    async fn take(places: &mut Places, peer: IpAddr) -> Pace {
        let mut taken = None;
        places
            .take(peer, |pace| {
                taken = Some(pace);
                pending()
            })
            .await;
        taken.unwrap()
    }

    /// Connections of one address that never end, each `apart` from the one before; gives their paces.
    async fn fill(places: &mut Places, apart: Duration) -> Vec<Pace> {
        let mut paces = Vec::new();
        for _ in 0..MAX {
            paces.push(take(places, peer(1)).await);
            tokio::time::advance(apart).await;
        }
        paces
    }

    fn is_held(places: &Places, pace: &Pace) -> bool {
        places.held.iter().any(|held| held.is_same(pace) && !held.is_over())
    }

    #[tokio::test(start_paused = true)]
    async fn the_client_that_was_waited_for_longest_gives_way() {
        let mut places = places();
        let paces = fill(&mut places, Duration::from_millis(50)).await;
        paces[0].client();
        paces[1].answer();
        take(&mut places, peer(1)).await;
        assert!(!is_held(&places, &paces[2]));
        let others = paces.iter().enumerate().filter(|(at, _)| *at != 2);
        assert!(others.into_iter().all(|(_, pace)| is_held(&places, pace)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_one_connection_never_gives_way_to_one_with_many() {
        let mut places = Places::new(MAX, Duration::ZERO);
        let first = take(&mut places, peer(1)).await;
        for _ in 0..10 * MAX {
            tokio::time::advance(Duration::from_secs(1)).await;
            take(&mut places, peer(2)).await;
        }
        assert!(is_held(&places, &first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_came_just_now_keeps_its_place_for_a_moment() {
        let mut places = places();
        fill(&mut places, Duration::ZERO).await;
        let began = Instant::now();
        take(&mut places, peer(2)).await;
        assert!(began.elapsed() >= GRACE, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_in_the_making_is_lost() {
        let mut places = places();
        let paces = fill(&mut places, Duration::ZERO).await;
        paces.iter().for_each(Pace::answer);
        let more = tokio::time::timeout(Duration::from_secs(60), take(&mut places, peer(2))).await;
        assert!(more.is_err(), "there is no place");
        assert!(paces.iter().all(|pace| is_held(&places, pace)));
        paces[7].client();
        take(&mut places, peer(2)).await;
        assert!(!is_held(&places, &paces[7]));
    }
}
