//! Endpoints that come and go under load: 5 -> 7 -> 5, with backends that really start, stop accepting and exit at once.
//!
//! A leaving backend is stopped as it leaves the list, like in Kubernetes: a little before or after the proxy can know.
//! Either the two oldest leave, so that none lives long, or the two newest, which are all endpoints of the proxy's zone, so
//! that a whole zone comes and goes.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::process::Fairway;
use crate::proof::deliveries::Deliveries;
use crate::proof::fleet::Fleet;
use crate::proof::site::{Scheme, Site};
use crate::proof::traffic::{Load, Progress, Tally, send};
use crate::wait::{WAIT_TIMEOUT, eventually};

/// The endpoints that are always there.
const STABLE_ENDPOINTS: usize = 5;
/// The endpoints that come and go.
const CHANGING_ENDPOINTS: usize = 2;
/// The longest time between a backend's exit and the change of the file, in either order.
const MAX_FILE_DELAY: Duration = Duration::from_millis(20);
/// The proxy's zone, where it has one, and the other one.
const OWN_ZONE: &str = "a";
const OTHER_ZONE: &str = "b";

/// The parameters.
#[derive(Clone, Debug)]
pub struct Churn {
    /// The binary, for the proxy and for the backends.
    pub binary: PathBuf,
    /// The load.
    pub load: Load,
    /// The time between two changes of the endpoints.
    pub every: Duration,
    /// The endpoints that come and go.
    pub swing: Swing,
}

/// Which endpoints come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Swing {
    /// The oldest leave.
    Oldest,
    /// All of the proxy's zone, which it prefers while it has any.
    Zone,
}

/// The findings.
#[derive(Clone, Debug, Serialize)]
pub struct ChurnFindings {
    /// The scheme of clients.
    pub scheme: Scheme,
    /// The load.
    pub load: Load,
    /// The outcomes of requests.
    pub tally: Tally,
    /// The requests received by backends.
    pub deliveries: Deliveries,
    /// The changes of endpoints.
    pub swings: EndpointChanges,
    /// The proxy's own counters.
    pub counted: ProxyCounters,
    /// The duration of the load.
    pub seconds: f64,
}

/// Changes of the endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointChanges {
    /// The number of scale-ups.
    pub up: u32,
    /// The number of scale-downs with the file changed first.
    pub down_listed_first: u32,
    /// The number of scale-downs with the processes stopped first.
    pub down_ended_first: u32,
}

/// Metrics of the proxy at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProxyCounters {
    /// Requests that were sent to another endpoint.
    pub retries: f64,
    /// Idle connections that were found dead when they were needed.
    pub stale: f64,
    /// Endpoints that were ejected.
    pub ejections: f64,
    /// Non-idempotent requests that were written to a dying endpoint, and not sent again.
    pub lost: f64,
    /// Requests that endpoints of the proxy's zone got, and those of the other one.
    pub zones: (f64, f64),
}

impl Churn {
    /// Runs until all requests are done.
    pub async fn run(&self, scheme: Scheme, progress: &Progress) -> ChurnFindings {
        let site = Site::new();
        let mut fleet = Fleet::start(&site, &self.binary, STABLE_ENDPOINTS).await;
        let zone: &[&str] = if self.swing == Swing::Zone { &["--zone", OWN_ZONE] } else { &[] };
        let fairway = site.serve(&self.binary, zone).await;
        self.swing.list(&fleet, &site);
        let endpoint = site.endpoint(&fairway, scheme);
        let mut swings = EndpointChanges::default();
        let began = Instant::now();
        let tally = tokio::select! {
            tally = send(&self.load, &endpoint, progress) => tally,
            () = self.swing(&mut fleet, &site, &fairway, &mut swings) => unreachable!("it swings for ever"),
        };
        let seconds = began.elapsed().as_secs_f64();
        let metrics = fairway.metrics().await;
        let sum = |name: &str| metrics.sum(&format!("fairway_upstream_{name}_total"), &[]);
        let counted = ProxyCounters {
            retries: sum("retries"),
            stale: sum("stale_connections"),
            ejections: sum("ejections"),
            lost: sum("lost_non_idempotent"),
            zones: (
                metrics.sum("fairway_zone_attempts_total", &[("own", "true")]),
                metrics.sum("fairway_zone_attempts_total", &[("own", "false")]),
            ),
        };
        let deliveries = Deliveries::read(&site.numbers()).expect("the backends wrote down what arrived");
        ChurnFindings { scheme, load: self.load.clone(), tally, deliveries, swings, counted, seconds }
    }

    /// A change starts only when every worker uses the previous one, so that never more endpoints stop unknown to the proxy
    /// than a single change stops.
    async fn swing(&self, fleet: &mut Fleet, site: &Site, fairway: &Fairway, swings: &mut EndpointChanges) {
        let mut turns = interval_at(Instant::now() + self.every, self.every);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut random = fastrand::Rng::with_seed(1);
        loop {
            turns.tick().await;
            let before = version(fairway).await;
            if fleet.size() > STABLE_ENDPOINTS {
                self.swing.shrink(fleet, site, swings, &mut random).await;
            } else {
                fleet.grow(CHANGING_ENDPOINTS).await;
                self.swing.list(fleet, site);
                swings.up += 1;
            }
            eventually("every worker serves by the change", WAIT_TIMEOUT, || async {
                version(fairway).await > before
            })
            .await;
        }
    }
}

/// The configuration version that every worker uses; 0 while some use an older one.
async fn version(fairway: &Fairway) -> f64 {
    let metrics = fairway.metrics().await;
    let adopted = metrics.sum("nginx_ingress_controller_config_last_reload_successful", &[]);
    adopted * metrics.sum("fairway_config_version", &[])
}

impl Swing {
    /// Writes the list of endpoints.
    fn list(self, fleet: &Fleet, site: &Site) {
        let addresses = fleet.addresses();
        if self == Self::Oldest {
            return site.list(&addresses);
        }
        let zone = |at| if at < STABLE_ENDPOINTS { OTHER_ZONE } else { OWN_ZONE };
        let placed: Vec<_> = (0..).zip(addresses).map(|(at, address)| (address, Some(zone(at)))).collect();
        site.list_in_zones(&placed);
    }

    async fn shrink(
        self,
        fleet: &mut Fleet,
        site: &Site,
        swings: &mut EndpointChanges,
        random: &mut fastrand::Rng,
    ) {
        let leaving = match self {
            Self::Oldest => fleet.take_oldest(CHANGING_ENDPOINTS),
            Self::Zone => fleet.take_newest(CHANGING_ENDPOINTS),
        };
        let gap = MAX_FILE_DELAY.mul_f64(random.f64());
        if random.bool() {
            self.list(fleet, site);
            sleep(gap).await;
            leaving.iter().for_each(|member| member.terminate());
            swings.down_listed_first += 1;
        } else {
            leaving.iter().for_each(|member| member.terminate());
            sleep(gap).await;
            self.list(fleet, site);
            swings.down_ended_first += 1;
        }
        leaving.into_iter().for_each(|member| fleet.bury(member));
    }
}

impl ChurnFindings {
    /// Violations: failed GETs, POSTs delivered twice, POSTs that failed without being lost on a dying endpoint, and losses
    /// that the proxy did not count. Empty if there are none.
    pub fn broken_promises(&self) -> Vec<String> {
        let Self { tally, deliveries, counted, .. } = self;
        let others = tally.posts.unanswered() - tally.posts.lost();
        let judged = [
            (tally.gets.unanswered(), "failed GETs"),
            (deliveries.posts_again, "duplicated POSTs"),
            (others, "POSTs that failed in another way than on a dying endpoint"),
            (
                tally.posts.lost().abs_diff(counted.lost as u64),
                "lost POSTs more or less than the proxy counted",
            ),
        ];
        judged.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
    }
}
