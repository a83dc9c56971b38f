//! Finds the regular expression that costs the proxy most. Those that the proxy rejects for their cost respond at once and
//! are not chosen.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::client::{Client, RawResponse, Request};
use crate::manifests::Ingress;
use crate::proof::site::{HOST, Site};

const NAMESPACE: &str = "proof";
const SERVICE: (&str, u16) = ("backend", 80);
/// Patterns per host, which differ only in their last byte.
const PATTERNS: usize = 10;
/// A request line of nearly 8 KiB, the limit.
const PATH_BYTES: usize = 8_150;
const TRIES: usize = 3;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// The number of different paths requested in rotation.
const REQUESTS: usize = 32;

/// Patterns to try, `N` for their number. The first is from the review that found the cost unbounded; the others are
/// plausible patterns, the same with smaller bounds, and one that tries every start.
const TRIED_PATTERNS: [&str; 8] = [
    "/(.*)(x|y)[^/]{500}zN",
    "/(.*)(x|y)[^/]{100}zN",
    "/(.*)(x|y)[^/]{30}zN",
    "/(.*)(x|y)[^/]{10}zN",
    "/(.*)(x|y)[^/]{3}zN",
    "/(.*)x(.*)y(.*)x(.*)y(.*)zN",
    "/(a|b|x|y)*(ab|xy)+(.*)(x|y)zN",
    "/[a-y]*(x[a-y]*){8}zN",
];

/// An Ingress with a separate host for each pattern.
pub(super) fn furnish(site: &Site) {
    for (number, pattern) in TRIED_PATTERNS.iter().enumerate() {
        let mut ingress = Ingress::new(NAMESPACE, &format!("regex-{number}"))
            .annotation("ssl-redirect", "false")
            .annotation("use-regex", "true");
        for variant in 0..PATTERNS {
            let path = pattern.replace('N', &variant.to_string());
            ingress = ingress.typed_route(&host(number), &path, "ImplementationSpecific", SERVICE);
        }
        site.manifests().put(&format!("regex-{number}.yaml"), ingress.yaml());
    }
}

/// Requests with random paths for the host with the slowest response.
pub(super) async fn most_expensive(address: SocketAddr) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut worst = (Duration::ZERO, HOST.to_owned());
    for number in 0..TRIED_PATTERNS.len() {
        let host = host(number);
        let mut times = Vec::new();
        for _ in 0..TRIES {
            let began = Instant::now();
            // A timeout counts as the most expensive.
            let _ = send_request(address, request(&host, &mut random)).await;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        worst = worst.max((times[TRIES / 2], host));
    }
    (0..REQUESTS).map(|_| request(&worst.1, &mut random).bytes()).collect()
}

async fn send_request(address: SocketAddr, request: Request) -> io::Result<RawResponse> {
    let mut client = Client::connect(address).await?.patient_for(REQUEST_TIMEOUT);
    client.exchange(&request).await
}

fn request(host: &str, random: &mut fastrand::Rng) -> Request {
    let path: String = (0..PATH_BYTES).map(|_| char::from(b"abxy"[random.usize(..4)])).collect();
    Request::get(host, &format!("/{path}"))
}

fn host(number: usize) -> String {
    format!("regex-{number}.test")
}
