//! Scrapes all replicas and computes the traffic between two scrapes.

use std::collections::BTreeMap;

use anyhow::Result;
use tokio::time::Instant;

use super::traffic::{AFTER_REQUEST_METRICS, Rate, RouteName, Traffic};
use crate::admin_client::Extent;
use crate::kubectl::fleet::{Fleet, Replica};

/// One scrape of each replica.
#[derive(Debug, Default)]
pub(super) struct Samples {
    /// Scrapes by replica name.
    samples: BTreeMap<String, Sample>,
    /// Why other replicas could not be scraped.
    problems: Vec<String>,
}

/// A scrape.
#[derive(Debug)]
struct Sample {
    at: Instant,
    traffic: Traffic,
}

/// The traffic between two scrapes.
#[derive(Debug, Default)]
pub(super) struct Measurement {
    pub(super) rates: BTreeMap<RouteName, Rate>,
    /// Number of measured replicas.
    pub(super) replicas: usize,
    /// Why other replicas were not measured.
    pub(super) problems: Vec<String>,
}

impl Samples {
    /// Scrapes all replicas concurrently.
    pub(super) async fn scrape_all(fleet: &Fleet) -> Result<Self> {
        let mut samples = Self::default();
        for (replica, sample) in fleet.query_all(scrape).await? {
            match sample {
                Ok(sample) => _ = samples.samples.insert(replica, sample),
                Err(problem) => samples.problems.push(format!("{problem:#}")),
            }
        }
        Ok(samples)
    }

    /// The traffic since `earlier` on the replicas that were scraped both times.
    pub(super) fn since(&self, earlier: &Self) -> Measurement {
        let mut measured = Measurement { problems: self.problems.clone(), ..Measurement::default() };
        for (replica, now) in &self.samples {
            let Some(earlier) = earlier.samples.get(replica) else { continue };
            measured.replicas += 1;
            let seconds = now.at.duration_since(earlier.at).as_secs_f64().max(f64::EPSILON);
            for (name, counts) in &now.traffic.since(&earlier.traffic).0 {
                let rate = measured.rates.entry(name.clone()).or_default();
                rate.per_second += counts.requests / seconds;
                rate.counts.add(counts);
            }
        }
        measured
    }
}

async fn scrape(replica: Replica) -> (String, Result<Sample>) {
    let at = Instant::now();
    let text = replica.page("/metrics", Extent::Before(AFTER_REQUEST_METRICS)).await;
    let sample = text.map(|text| Sample { at, traffic: Traffic::read(&String::from_utf8_lossy(&text)) });
    (replica.to_string(), sample)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn samples(replicas: &[(&str, u64, u32)], began: Instant) -> Samples {
        let sample = |(name, seconds, requests): &(&str, u64, u32)| {
            let text = format!(
                "nginx_ingress_controller_requests{{namespace=\"shop\",ingress=\"web\",status=\"200\"}} {requests}\n"
            );
            let sample = Sample { at: began + Duration::from_secs(*seconds), traffic: Traffic::read(&text) };
            ((*name).to_owned(), sample)
        };
        Samples { samples: replicas.iter().map(sample).collect(), problems: Vec::new() }
    }

    #[test]
    fn rates_of_pods_are_added_each_with_its_own_interval() {
        let began = Instant::now();
        let earlier = samples(&[("a", 0, 100), ("b", 1, 0), ("gone", 0, 5)], began);
        let now = samples(&[("a", 2, 120), ("b", 5, 40), ("new", 5, 1_000)], began);
        let measured = now.since(&earlier);
        assert_eq!((measured.replicas, measured.rates.len()), (2, 1));
        let rate = measured.rates.values().next().unwrap();
        assert_eq!((rate.per_second, rate.counts.requests), (20.0, 60.0));
    }
}
