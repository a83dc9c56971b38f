//! Scrapes: a few at a time, and their text is written as the client takes it. Knows no metric.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::audience::Audience;
use crate::places::{LOOK, Pace, longest_of_the_busiest};

/// Scrapes of an audience at a time, and those of one address with the ones that wait. Each holds the numbers of all series
/// until its client has the whole text.
const MAX_SCRAPES: usize = 4;
/// A scrape may take this long, whoever else waits for its place.
const GRACE: Duration = Duration::from_secs(1);

/// Text in pieces, each made when it is asked for.
pub type Pieces = Box<dyn Iterator<Item = String> + Send>;

/// The places for scrapes. Each audience has its own, so that clients from outside keep no operator out.
#[derive(Debug, Default)]
pub struct Scrapes {
    operators: ScrapePlaces,
    probes: ScrapePlaces,
}

#[derive(Debug)]
struct ScrapePlaces {
    free: Arc<Semaphore>,
    /// Those that wait for a place or have one.
    known: Mutex<Vec<Weak<Place>>>,
}

/// A scrape that waits for its place, or has it until this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pace: Pace,
    permit: OnceLock<OwnedSemaphorePermit>,
}

impl Default for ScrapePlaces {
    fn default() -> Self {
        Self { free: Arc::new(Semaphore::new(MAX_SCRAPES)), known: Mutex::default() }
    }
}

impl Scrapes {
    /// A place for the connection `pace`, which is free again when it is dropped; none when its address scrapes too often at
    /// a time. While it waits, a client that takes too long with its text loses its connection.
    pub(super) async fn place(&self, audience: Audience, pace: &Pace) -> Option<Arc<Place>> {
        let places = match audience {
            Audience::Operators => &self.operators,
            Audience::Probes => &self.probes,
        };
        let place = places.enter(pace)?;
        let mut free = pin!(Arc::clone(&places.free).acquire_owned());
        let permit = loop {
            tokio::select! {
                biased;
                permit = &mut free => break permit.expect("the semaphore is never closed"),
                () = sleep(LOOK) => places.close_slowest(),
            }
        };
        _ = place.permit.set(permit);
        pace.client();
        Some(place)
    }
}

impl ScrapePlaces {
    fn enter(&self, pace: &Pace) -> Option<Arc<Place>> {
        let known = self.known();
        if known.iter().filter(|other| other.pace.is_of_peer(pace)).count() >= MAX_SCRAPES {
            return None;
        }
        let place = Arc::new(Place { pace: pace.clone(), permit: OnceLock::new() });
        self.known.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&place));
        Some(place)
    }

    fn close_slowest(&self) {
        let known = self.known();
        let running = known.iter().filter(|place| place.permit.get().is_some());
        let running: Vec<_> = running.map(|place| place.pace.clone()).collect();
        if let Some((pace, waited)) = longest_of_the_busiest(&running)
            && waited >= GRACE
        {
            pace.close();
        }
    }

    fn known(&self) -> Vec<Arc<Place>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|place| place.strong_count() > 0);
        known.iter().filter_map(Weak::upgrade).collect()
    }
}

/// The body of a scrape, which keeps its place.
pub struct Scrape {
    pieces: Pieces,
    _place: Arc<Place>,
}

impl Scrape {
    pub(super) fn new(pieces: Pieces, place: Arc<Place>) -> Self {
        Self { pieces, _place: place }
    }
}

impl Body for Scrape {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.get_mut().pieces.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tokio::time::timeout;

    use super::*;

    /// A connection of an address of its own.
    fn client(number: u8) -> Pace {
        Pace::new([10, 0, 0, number].into())
    }

    async fn place(scrapes: &Scrapes, audience: Audience, client: &Pace) -> Option<Arc<Place>> {
        timeout(Duration::from_secs(50), scrapes.place(audience, client)).await.unwrap_or_default()
    }

    #[tokio::test]
    async fn a_piece_is_made_when_the_one_before_was_taken() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let pieces = (0..1_000).map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            format!("{number}\n")
        });
        let place = place(&Scrapes::default(), Audience::Probes, &client(1)).await.unwrap();
        let mut body = Scrape::new(Box::new(pieces), place);
        for taken in 1..=3 {
            let frame = body.frame().await.unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), format!("{}\n", taken - 1));
            assert_eq!(made.load(Ordering::Relaxed), taken);
        }
        let rest = body.collect().await.unwrap().to_bytes();
        assert!(rest.ends_with(b"\n999\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_scrape_waits_for_a_place_and_audiences_wait_for_their_own() {
        let scrapes = Scrapes::default();
        let mut taken = Vec::new();
        for number in 0..4 {
            taken.push(place(&scrapes, Audience::Probes, &client(number)).await.unwrap());
        }
        assert!(place(&scrapes, Audience::Probes, &client(9)).await.is_none(), "all places are taken");
        assert!(place(&scrapes, Audience::Operators, &client(9)).await.is_some());
        taken.pop();
        let next = place(&scrapes, Audience::Probes, &client(9)).await;
        assert!(next.is_some(), "a client that has its text, or is gone, makes room");
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_has_no_more_scrapes_than_there_are_places() {
        let scrapes = Arc::new(Scrapes::default());
        let _other = place(&scrapes, Audience::Probes, &client(2)).await.unwrap();
        let waiting: Vec<_> = (0..MAX_SCRAPES)
            .map(|_| {
                let scrapes = scrapes.clone();
                tokio::spawn(async move { scrapes.place(Audience::Probes, &client(1)).await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(scrapes.place(Audience::Probes, &client(1)).await.is_none(), "one that waits counts too");
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
