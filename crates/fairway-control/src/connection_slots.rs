//! The connection slots of a small server. If all are taken and another client connects, one connection is closed: of the address
//! with the most connections, the one that the server has waited for longest. Idle or slow clients cannot lock others out, and a
//! client with few connections never loses one to a client with many.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// How often slow connections are checked again.
pub(crate) const RECHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The connections.
#[derive(Debug)]
pub struct ConnectionSlots {
    max: usize,
    grace: Duration,
    tasks: JoinSet<()>,
    connections: Vec<ConnectionHandle>,
}

/// A connection and what it is waiting for. Clones share it.
#[derive(Clone, Debug)]
pub struct ConnectionHandle(Arc<Connection>);

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: Mutex<WaitState>,
    task: OnceLock<AbortHandle>,
}

#[derive(Clone, Copy, Debug)]
enum WaitState {
    /// For its client, to send or receive bytes, since this time.
    Client(Instant),
    /// For a response in preparation.
    Response,
}

impl ConnectionSlots {
    /// For `max` concurrent connections. A client may keep the server waiting for `grace`, even if another one needs its slot.
    pub fn new(max: usize, grace: Duration) -> Self {
        Self { max, grace, tasks: JoinSet::new(), connections: Vec::new() }
    }

    /// Serves a connection of `peer` in its own slot. If all are taken, waits for at most as long as responses and the grace
    /// period take.
    pub async fn serve<F>(&mut self, peer: IpAddr, serve: impl FnOnce(ConnectionHandle) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.make_room().await;
        let pace = ConnectionHandle::new(peer);
        let task = self.tasks.spawn(serve(pace.clone()));
        _ = pace.0.task.set(task);
        self.connections.push(pace);
    }

    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.connections.retain(|pace| !pace.is_closed());
            if self.connections.len() < self.max {
                return;
            }
            match longest_waiting_of_busiest_peer(&self.connections) {
                Some((pace, waited)) if waited >= self.grace => {
                    pace.close();
                    _ = self.tasks.join_next().await;
                }
                _ => {
                    tokio::select! {
                        _ = self.tasks.join_next() => {}
                        () = sleep(RECHECK_INTERVAL) => {}
                    }
                }
            }
        }
    }
}

/// Of the connections that wait for their clients, one of the address with the most connections: the one that has waited longest,
/// and for how long.
pub(crate) fn longest_waiting_of_busiest_peer(
    held: &[ConnectionHandle],
) -> Option<(&ConnectionHandle, Duration)> {
    let of_peer = |pace: &ConnectionHandle| held.iter().filter(|other| other.0.peer == pace.0.peer).count();
    let waiting = held.iter().filter_map(|pace| Some((pace, pace.waiting_for_client_since()?.elapsed())));
    waiting.max_by_key(|(pace, waited)| (of_peer(pace), *waited))
}

impl ConnectionHandle {
    pub(crate) fn new(peer: IpAddr) -> Self {
        let state = Mutex::new(WaitState::Client(Instant::now()));
        Self(Arc::new(Connection { peer, state, task: OnceLock::new() }))
    }

    /// It waits for its client from now on.
    pub fn wait_for_client(&self) {
        self.set_state(WaitState::Client(Instant::now()));
    }

    /// It waits for a response from now on.
    pub fn wait_for_response(&self) {
        self.set_state(WaitState::Response);
    }

    /// Closes the connection, whatever it waits for.
    pub(crate) fn close(&self) {
        if let Some(task) = self.0.task.get() {
            task.abort();
        }
    }

    /// Whether both connections come from one address.
    pub(crate) fn has_same_peer(&self, other: &Self) -> bool {
        self.0.peer == other.0.peer
    }

    #[cfg(test)]
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn is_closed(&self) -> bool {
        self.0.task.get().is_some_and(AbortHandle::is_finished)
    }

    fn set_state(&self, state: WaitState) {
        *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn waiting_for_client_since(&self) -> Option<Instant> {
        match *self.0.state.lock().unwrap_or_else(PoisonError::into_inner) {
            WaitState::Client(since) => Some(since),
            WaitState::Response => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const MAX: usize = 16;
    const GRACE: Duration = Duration::from_millis(250);

    fn slots() -> ConnectionSlots {
        ConnectionSlots::new(MAX, GRACE)
    }

    fn peer(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    async fn take_slot(slots: &mut ConnectionSlots, peer: IpAddr) -> ConnectionHandle {
        let mut handle = None;
        slots
            .serve(peer, |pace| {
                handle = Some(pace);
                pending()
            })
            .await;
        handle.unwrap()
    }

    /// Connections of one address that never end, each `apart` from the previous one; returns their handles.
    async fn fill(slots: &mut ConnectionSlots, apart: Duration) -> Vec<ConnectionHandle> {
        let mut paces = Vec::new();
        for _ in 0..MAX {
            paces.push(take_slot(slots, peer(1)).await);
            tokio::time::advance(apart).await;
        }
        paces
    }

    fn is_held(slots: &ConnectionSlots, pace: &ConnectionHandle) -> bool {
        slots.connections.iter().any(|held| held.is_same(pace) && !held.is_closed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_connection_with_the_longest_wait_is_closed() {
        let mut slots = slots();
        let paces = fill(&mut slots, Duration::from_millis(50)).await;
        paces[0].wait_for_client();
        paces[1].wait_for_response();
        take_slot(&mut slots, peer(1)).await;
        assert!(!is_held(&slots, &paces[2]));
        let others = paces.iter().enumerate().filter(|(at, _)| *at != 2);
        assert!(others.into_iter().all(|(_, pace)| is_held(&slots, pace)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_one_connection_never_loses_it_to_one_with_many() {
        let mut slots = ConnectionSlots::new(MAX, Duration::ZERO);
        let first = take_slot(&mut slots, peer(1)).await;
        for _ in 0..10 * MAX {
            tokio::time::advance(Duration::from_secs(1)).await;
            take_slot(&mut slots, peer(2)).await;
        }
        assert!(is_held(&slots, &first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_client_keeps_its_slot_for_the_grace_period() {
        let mut slots = slots();
        fill(&mut slots, Duration::ZERO).await;
        let began = Instant::now();
        take_slot(&mut slots, peer(2)).await;
        assert!(began.elapsed() >= GRACE, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_response_in_preparation_is_not_closed() {
        let mut slots = slots();
        let paces = fill(&mut slots, Duration::ZERO).await;
        paces.iter().for_each(ConnectionHandle::wait_for_response);
        let another = tokio::time::timeout(Duration::from_secs(60), take_slot(&mut slots, peer(2))).await;
        assert!(another.is_err(), "there is no place");
        assert!(paces.iter().all(|pace| is_held(&slots, pace)));
        paces[7].wait_for_client();
        take_slot(&mut slots, peer(2)).await;
        assert!(!is_held(&slots, &paces[7]));
    }
}
