//! Scrapes: a few at a time, and their text is written as the client takes it. Knows no metric.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::audience::Audience;

/// Scrapes of an audience at a time; more wait. Each holds the numbers of all series until its client has the whole text.
const MOST: usize = 4;

/// Text in pieces, each made when it is asked for.
pub type Pieces = Box<dyn Iterator<Item = String> + Send>;

/// The places for scrapes. Each audience has its own, so that clients from outside keep no operator out.
#[derive(Debug)]
pub struct Scrapes {
    operators: Arc<Semaphore>,
    probes: Arc<Semaphore>,
}

impl Default for Scrapes {
    fn default() -> Self {
        let places = || Arc::new(Semaphore::new(MOST));
        Self { operators: places(), probes: places() }
    }
}

impl Scrapes {
    /// A place, which is free again when it is dropped.
    pub(super) async fn place(&self, audience: Audience) -> OwnedSemaphorePermit {
        let places = match audience {
            Audience::Operators => &self.operators,
            Audience::Probes => &self.probes,
        };
        Arc::clone(places).acquire_owned().await.expect("the semaphore is never closed")
    }
}

/// The body of a scrape, which keeps its place.
pub struct Scrape {
    pieces: Pieces,
    _place: OwnedSemaphorePermit,
}

impl Scrape {
    pub(super) fn new(pieces: Pieces, place: OwnedSemaphorePermit) -> Self {
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

    #[tokio::test]
    async fn a_piece_is_made_when_the_one_before_was_taken() {
        let made = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&made);
        let pieces = (0..1_000).map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            format!("{number}\n")
        });
        let place = Scrapes::default().place(Audience::Probes).await;
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
        let mut bodies = Vec::new();
        for _ in 0..MOST {
            let place = scrapes.place(Audience::Probes).await;
            bodies.push(Scrape::new(Box::new(std::iter::empty()), place));
        }
        let waits = timeout(Duration::from_secs(50), scrapes.place(Audience::Probes));
        assert!(waits.await.is_err(), "all places are taken");
        let other = timeout(Duration::from_secs(50), scrapes.place(Audience::Operators));
        assert!(other.await.is_ok());
        bodies.pop();
        let next = timeout(Duration::from_secs(50), scrapes.place(Audience::Probes));
        assert!(next.await.is_ok(), "a client that has its text, or is gone, makes room");
    }
}
