//! Thousands of Ingresses, a file each with its Service and EndpointSlice: how long they take to load, what they weigh,
//! and what one change costs.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::manifests::{Ingress, Manifests, ingress_class, service_with_endpoints};
use crate::process::{Fairway, Metrics};
use crate::proof::changes::Observers;
use crate::proof::delays::Delays;
use crate::proof::site::Endpoint;
use crate::wait::holds_within;

/// How long the first configuration may take.
const LOADED_WITHIN: Duration = Duration::from_secs(300);
/// So many files change, one after the other and over again: every host that is asked for has request metrics of its own
/// from then on, and those are not to be measured here.
const CHANGING: usize = 100;
/// They lie apart by a step that shares no factor with any round number.
const STRIDE: usize = 7919;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Scale {
    /// Files, with an Ingress, a Service and an EndpointSlice each.
    pub ingresses: usize,
    /// From the start of the process to readiness.
    pub load_seconds: f64,
    /// Resident memory of the ready process.
    pub resident_mib: f64,
    /// The same after all changes.
    pub resident_after_mib: f64,
    /// From the event that the kernel told of to the adoption by the last worker, as Fairway measures itself.
    pub adoption: Delays,
    /// From the rename to the moment at which every connection sees it, as clients measure.
    pub visible: Delays,
}

/// Loads `ingresses` files and changes one of them `changes` times.
///
/// # Panics
///
/// When the binary does not become ready, or a change is not served within the patience of tests.
pub async fn measure(binary: &Path, ingresses: usize, changes: usize) -> Scale {
    let manifests = Manifests::new();
    manifests.put("class.yaml", ingress_class("nginx", "fairway.dev/ingress-controller"));
    for number in 0..ingresses {
        manifests.put(&file(number), objects(number, "start"));
    }
    let began = Instant::now();
    let mut fairway = Fairway::start(binary, manifests.path(), &["--workers", "2", "--access-log", "off"]);
    let ready = holds_within(LOADED_WITHIN, || async {
        fairway.admin("/readyz").await.is_ok_and(|answer| answer.status == 200)
    });
    assert!(ready.await, "not ready within {LOADED_WITHIN:?}");
    let load_seconds = began.elapsed().as_secs_f64();
    let process = fairway.program().id();
    let resident_mib = resident(process);
    let mut observers = Observers::gather(&Endpoint::plain(fairway.http), &host(0), "/").await;
    let (mut own, mut seen) = (Vec::new(), Vec::new());
    for change in 1..=changes {
        let number = change % CHANGING * STRIDE % ingresses;
        let label = format!("n{change}");
        let yaml = objects(number, &label);
        observers.ask_of(&host(number), "/");
        let began = Instant::now();
        manifests.put(&file(number), yaml);
        seen.push(observers.agree(&label, began).await);
        own.push(own_delay(&fairway.metrics().await));
        sleep(Duration::from_millis(5)).await;
    }
    Scale {
        ingresses,
        load_seconds,
        resident_mib,
        resident_after_mib: resident(process),
        adoption: Delays::of(own),
        visible: Delays::of(seen),
    }
}

/// From the last event to its publication, and from there to its adoption by the last worker.
fn own_delay(metrics: &Metrics) -> Duration {
    let seconds = |name: &str| match metrics.series(name, &[]).as_slice() {
        [seconds] => *seconds,
        other => panic!("{name} is there {} times", other.len()),
    };
    Duration::from_secs_f64(
        seconds("fairway_config_delay_seconds") + seconds("fairway_config_adoption_seconds"),
    )
}

fn file(number: usize) -> String {
    format!("web-{number:05}.yaml")
}

fn host(number: usize) -> String {
    format!("web-{number}.test")
}

fn objects(number: usize, label: &str) -> String {
    let name = format!("web-{number}");
    let [high, low] = u16::try_from(number % 60_000).expect("below 60,000").to_be_bytes();
    let endpoint = SocketAddr::from(([127, 1, high, low], 8080));
    let ingress = Ingress::new("scale", &name)
        .annotation("temporal-redirect", &format!("https://{label}.test/"))
        .route(&host(number), "/", (&name, 80));
    format!("{}---\n{}", ingress.yaml(), service_with_endpoints("scale", &name, 80, &[endpoint]))
}

/// Resident memory of a process in MiB.
pub(super) fn resident(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.parse::<f64>().ok()).expect("Linux tells VmRSS in kB") / 1024.0
}
