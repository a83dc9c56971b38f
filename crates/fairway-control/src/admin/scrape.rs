//! Scrapes: a few at a time, with text that is produced as the client reads it.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::audience::Audience;
use crate::connection_slots::{ConnectionHandle, RECHECK_INTERVAL, longest_waiting_of_busiest_peer};

/// Concurrent scrapes per audience, and scrapes of one address including waiting ones. Each holds the numbers of all series until
/// its client has the whole text.
const MAX_SCRAPES: usize = 4;
/// A slow scrape keeps its permit for this long while another one waits.
const SLOW_SCRAPE_GRACE: Duration = Duration::from_secs(1);

/// Text in chunks, each produced on demand.
pub type TextChunks = Box<dyn Iterator<Item = String> + Send>;

/// Limits concurrent scrapes. Each audience has its own limit, so that outside clients cannot block operators.
#[derive(Debug, Default)]
pub struct ScrapeLimits {
    operators: AudienceScrapes,
    probes: AudienceScrapes,
}

#[derive(Debug)]
struct AudienceScrapes {
    free: Arc<Semaphore>,
    /// Scrapes that wait for a permit or have one.
    permits: Mutex<Vec<Weak<ScrapePermit>>>,
}

/// A scrape that waits for its permit, or holds it until this is dropped.
#[derive(Debug)]
pub(super) struct ScrapePermit {
    pace: ConnectionHandle,
    permit: OnceLock<OwnedSemaphorePermit>,
}

impl Default for AudienceScrapes {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_SCRAPES)), permits: Mutex::default() }
    }
}

impl ScrapeLimits {
    /// A permit for the connection `pace`, released when dropped; `None` if its address has too many scrapes. While it waits, a
    /// client that reads its text too slowly loses its connection.
    pub(super) async fn acquire(
        &self,
        audience: Audience,
        pace: &ConnectionHandle,
    ) -> Option<Arc<ScrapePermit>> {
        let group = match audience {
            Audience::Operators => &self.operators,
            Audience::Probes => &self.probes,
        };
        let scrape_permit = group.register(pace)?;
        let mut free = pin!(Arc::clone(&group.free).acquire_owned());
        let permit = loop {
            tokio::select! {
                biased;
                permit = &mut free => break permit.expect("the semaphore is never closed"),
                () = sleep(RECHECK_INTERVAL) => group.close_slowest(),
            }
        };
        _ = scrape_permit.permit.set(permit);
        pace.wait_for_client();
        Some(scrape_permit)
    }
}

impl AudienceScrapes {
    fn register(&self, pace: &ConnectionHandle) -> Option<Arc<ScrapePermit>> {
        let known = self.live_scrapes();
        if known.iter().filter(|other| other.pace.has_same_peer(pace)).count() >= MAX_SCRAPES {
            return None;
        }
        let permit = Arc::new(ScrapePermit { pace: pace.clone(), permit: OnceLock::new() });
        self.permits.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&permit));
        Some(permit)
    }

    fn close_slowest(&self) {
        let known = self.live_scrapes();
        let running = known.iter().filter(|place| place.permit.get().is_some());
        let running: Vec<_> = running.map(|place| place.pace.clone()).collect();
        if let Some((pace, waited)) = longest_waiting_of_busiest_peer(&running)
            && waited >= SLOW_SCRAPE_GRACE
        {
            pace.close();
        }
    }

    fn live_scrapes(&self) -> Vec<Arc<ScrapePermit>> {
        let mut known = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|place| place.strong_count() > 0);
        known.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The body of a scrape, which holds its permit.
pub struct Scrape {
    chunks: TextChunks,
    _permit: Arc<ScrapePermit>,
}

impl Scrape {
    pub(super) fn new(parts: TextChunks, permit: Arc<ScrapePermit>) -> Self {
        Self { chunks: parts, _permit: permit }
    }
}

impl Body for Scrape {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().chunks.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tokio::time::timeout;

    use super::*;

    /// A connection from its own address.
    fn client(number: u8) -> ConnectionHandle {
        ConnectionHandle::new([10, 0, 0, number].into())
    }

    async fn locate(
        scrapes: &ScrapeLimits,
        audience: Audience,
        client: &ConnectionHandle,
    ) -> Option<Arc<ScrapePermit>> {
        timeout(Duration::from_secs(50), scrapes.acquire(audience, client)).await.unwrap_or_default()
    }

    #[tokio::test]
    async fn a_chunk_is_produced_when_the_previous_one_was_read() {
        let started = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&started);
        let chunks = (0..1_000).map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            format!("{number}\n")
        });
        let permit = locate(&ScrapeLimits::default(), Audience::Probes, &client(1)).await.unwrap();
        let mut body = Scrape::new(Box::new(chunks), permit);
        for taken in 1..=3 {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), format!("{}\n", taken - 1));
            assert_eq!(started.load(Ordering::Relaxed), taken);
        }
        let rest = body.collect().await.unwrap().to_bytes();
        assert!(rest.ends_with(b"\n999\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_waits_for_a_permit_of_its_own_audience() {
        let scrapes = ScrapeLimits::default();
        let mut permits = Vec::new();
        for number in 0..4 {
            permits.push(locate(&scrapes, Audience::Probes, &client(number)).await.unwrap());
        }
        assert!(locate(&scrapes, Audience::Probes, &client(9)).await.is_none(), "all places are taken");
        assert!(locate(&scrapes, Audience::Operators, &client(9)).await.is_some());
        permits.pop();
        let next = locate(&scrapes, Audience::Probes, &client(9)).await;
        assert!(next.is_some(), "a client that has its text, or is gone, makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_no_more_scrapes_than_permits() {
        let scrapes = Arc::new(ScrapeLimits::default());
        let _other = locate(&scrapes, Audience::Probes, &client(2)).await.unwrap();
        let waiting: Vec<_> = (0..MAX_SCRAPES)
            .map(|_| {
                let scrapes = scrapes.clone();
                tokio::spawn(async move { scrapes.acquire(Audience::Probes, &client(1)).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(scrapes.acquire(Audience::Probes, &client(1)).await.is_none(), "one that waits counts too");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
