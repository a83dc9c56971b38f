//! Paths with expensive regular expressions, and the one among them that costs the proxy most. What it refuses for its
//! cost answers at once and is not chosen.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::client::{Client, RawResponse, Request};
use crate::manifests::Ingress;
use crate::proof::site::{HOST, Site};

const NAMESPACE: &str = "proof";
const SERVICE: (&str, u16) = ("backend", 80);
/// Every host has so many patterns, which differ in their last byte only.
const PATTERNS: usize = 10;
/// A request line of nearly 8 KiB, the limit.
const PATH: usize = 8_150;
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(1);
/// So many different paths are asked for in a circle.
const REQUESTS: usize = 32;

/// Patterns that are tried, `N` for their number. The first is of the review that found the cost unbounded; the others
/// are what an author might write, the same with smaller bounds, and one that asks for every start.
const TRIED: [&str; 8] = [
    "/(.*)(x|y)[^/]{500}zN",
    "/(.*)(x|y)[^/]{100}zN",
    "/(.*)(x|y)[^/]{30}zN",
    "/(.*)(x|y)[^/]{10}zN",
    "/(.*)(x|y)[^/]{3}zN",
    "/(.*)x(.*)y(.*)x(.*)y(.*)zN",
    "/(a|b|x|y)*(ab|xy)+(.*)(x|y)zN",
    "/[a-y]*(x[a-y]*){8}zN",
];

/// An Ingress with a host of its own for each of the patterns.
pub(super) fn furnish(site: &Site) {
    for (number, pattern) in TRIED.iter().enumerate() {
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

/// Requests with random paths for the host whose answer takes longest.
pub(super) async fn most_expensive(address: SocketAddr) -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut worst = (Duration::ZERO, HOST.to_owned());
    for number in 0..TRIED.len() {
        let host = host(number);
        let mut times = Vec::new();
        for _ in 0..TRIES {
            let began = Instant::now();
            // No answer in time is the most expensive one.
            let _ = ask(address, request(&host, &mut random)).await;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        worst = worst.max((times[TRIES / 2], host));
    }
    (0..REQUESTS).map(|_| request(&worst.1, &mut random).bytes()).collect()
}

async fn ask(address: SocketAddr, request: Request) -> io::Result<RawResponse> {
    let mut client = Client::connect(address).await?.patient_for(PATIENCE);
    client.exchange(&request).await
}

fn request(host: &str, random: &mut fastrand::Rng) -> Request {
    let path: String = (0..PATH).map(|_| char::from(b"abxy"[random.usize(..4)])).collect();
    Request::get(host, &format!("/{path}"))
}

fn host(number: usize) -> String {
    format!("regex-{number}.test")
}
