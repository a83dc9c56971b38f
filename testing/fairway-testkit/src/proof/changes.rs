//! How long a changed file takes to be served: from its rename into place until every one of many connections, spread over
//! the workers, gets a response from it.

use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::client::{Client, Request};
use crate::proof::delays::Delays;
use crate::proof::site::{Endpoint, HOST, Scheme, Site};
use crate::wait::WAIT_TIMEOUT;

/// Connections that must all see a change. The kernel spreads them over the listeners of the workers by a hash: that all
/// of them meet the same one of two has a chance of one in 32,768.
const CONNECTIONS: usize = 16;
/// Delay between two rounds of requests. The measured time is late by up to this delay plus the round itself.
const PROBE_INTERVAL: Duration = Duration::from_micros(500);

/// Changes a route `count` times.
pub async fn visible(binary: &Path, count: usize) -> Delays {
    let site = Site::new();
    site.redirect("/moved", "start");
    let fairway = site.serve(binary, &[]).await;
    let endpoint = site.endpoint(&fairway, Scheme::Plain);
    let mut observers = Observers::gather(&endpoint, HOST, "/moved").await;
    let mut times = Vec::with_capacity(count);
    let mut random = fastrand::Rng::with_seed(1);
    for change in 0..count {
        let label = format!("n{change}");
        let began = site.redirect("/moved", &label);
        times.push(observers.agree(&label, began).await);
        // No rhythm may form with what Fairway gathers.
        sleep(Duration::from_millis(2).mul_f64(1.0 + random.f64() * 4.0)).await;
    }
    Delays::from_times(times)
}

/// Connections that ask the same question over and over.
pub(super) struct Observers {
    clients: Vec<Client>,
    request: Request,
}

impl Observers {
    pub(super) async fn gather(endpoint: &Endpoint, host: &str, path: &str) -> Self {
        let mut clients = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            clients.push(endpoint.connect().await.expect("Fairway takes connections"));
        }
        Self { clients, request: Request::get(host, path) }
    }

    /// The time from `began` until all connections are redirected to `label`.
    pub(super) async fn agree(&mut self, label: &str, began: Instant) -> Duration {
        let url = format!("https://{label}.test/");
        while !self.all_see(&url).await {
            assert!(began.elapsed() < WAIT_TIMEOUT, "{url} is not served");
            sleep(PROBE_INTERVAL).await;
        }
        began.elapsed()
    }

    async fn all_see(&mut self, url: &str) -> bool {
        let request = self.request.bytes();
        for client in &mut self.clients {
            client.send(&request).await.expect("the connection stays");
        }
        let mut agree = true;
        for client in &mut self.clients {
            let response = client.read_response().await.expect("an answer comes");
            agree &= response.header("location").is_some_and(|location| location.starts_with(url));
        }
        agree
    }

    /// Points the question at another host.
    pub(super) fn ask_of(&mut self, host: &str, path: &str) {
        self.request = Request::get(host, path);
    }
}
