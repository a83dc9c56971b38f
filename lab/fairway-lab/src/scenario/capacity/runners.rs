//! The proxies of `capacity` that are up at the same time, each with so many workers. Sends them no load, only what
//! shows whether they serve.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context;
use fairway_lab_measure::results::{Absent, Distance};
use fairway_lab_measure::{Program, distance, pin, round_trip_ns};
use fairway_lab_traffic::backend::{Spawned, Spoken};
use fairway_lab_traffic::load::{Outcome, Plan, Stream};
use tempfile::TempDir;

use crate::adapter::TlsChoice;
use crate::peers::local::{LocalSite, local as local_peer};
use crate::scenario::handover::Handover;
use crate::scenario::progress::Progress;
use crate::scenario::running_peer::Contender;
use crate::scenario::site::{Certificate, HOST};

/// Calls that show whether a proxy passes gRPC on.
const FIRST_CALLS: u64 = 10;

/// Where blocks run.
pub(in crate::scenario) struct LocalRun<'a> {
    pub(in crate::scenario) handover: &'a Handover,
    pub(in crate::scenario) certificate: &'a Certificate,
    pub(in crate::scenario) progress: Progress,
    pub(in crate::scenario) contenders: &'a [Contender<'a>],
}

/// What proxies that are up at the same time have in common.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) backend: &'a Spawned,
    pub(super) upstream: Spoken,
    pub(super) tls: TlsChoice,
    pub(super) workers: u32,
}

/// A proxy that is up.
pub(super) struct Runner<'a> {
    pub(super) contender: &'a Contender<'a>,
    pub(super) proxy: Program,
    pub(super) site: LocalSite,
    /// Goes with it, after the proxy has ended.
    _folder: TempDir,
}

pub(super) fn start<'a>(
    local: &LocalRun<'a>,
    setup: Setup<'_>,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Vec<Runner<'a>>> {
    let Setup { backend, upstream, tls, workers } = setup;
    let mut runners = Vec::new();
    for contender in local.contenders {
        let name = contender.peer.name();
        // Proxies make sockets there, whose paths have at most 107 bytes: a folder below that of the results is too deep.
        let folder = tempfile::Builder::new().prefix("fairway-lab-").tempdir();
        let folder = folder.context("make a folder for a proxy")?;
        let [http, https, admin] = free()?;
        let site = LocalSite {
            backends: backend.addresses().to_vec(),
            upstream,
            http,
            https,
            admin,
            hosts: vec![HOST.to_owned()],
            chain_pem: local.certificate.chain.clone(),
            key_pem: local.certificate.key.clone(),
            workers,
            settings: contender.settings,
            tls,
            folder: folder.path().to_owned(),
        };
        let started = local_peer(name)
            .and_then(|peer| peer.start(&local.handover.artifacts, &site))
            .and_then(|proxy| placed(proxy, workers))
            .and_then(|proxy| passes_calls(&site).map(|()| proxy));
        match started {
            Ok(proxy) => runners.push(Runner { contender, proxy, site, _folder: folder }),
            Err(error) => {
                if let Some(record) = left_out(name, upstream, &error, absent) {
                    local.progress.say(&format!("{name} takes no part in capacity: {}", record.reason));
                    absent.push(record);
                }
            }
        }
    }
    Ok(runners)
}

/// The record of a peer that cannot do what the cases with this upstream need, unless the same is known of it.
fn left_out(name: &str, upstream: Spoken, error: &anyhow::Error, known: &[Absent]) -> Option<Absent> {
    let why = format!("{error:#}");
    let scenario = Some("capacity".to_owned());
    let is_of_peer = |record: &&Absent| record.peer == name && record.scenario == scenario;
    if known.iter().filter(is_of_peer).any(|record| record.reason.ends_with(&why)) {
        return None;
    }
    let reason = match upstream {
        Spoken::Grpc if local_peer(name).is_ok() => format!("in front of gRPC: {why}"),
        _ => why,
    };
    Some(Absent { peer: name.to_owned(), scenario, round: 0, reason })
}

/// Whether a proxy that stands in front of gRPC passes a few calls on, with the right answers.
fn passes_calls(site: &LocalSite) -> anyhow::Result<()> {
    if site.upstream == Spoken::Grpc {
        let load = first_calls(site).context("call a method of gRPC through it")?.load;
        let example = load.examples.first().map_or("no reason was given", |example| &example.text);
        anyhow::ensure!(load.counts.ok == FIRST_CALLS, "calls of gRPC fail through it: {example}");
    }
    Ok(())
}

fn first_calls(site: &LocalSite) -> anyhow::Result<Outcome> {
    let mut plan = Plan::at(&format!("https://{HOST}/"), vec![site.https])?;
    plan.call();
    plan.bounds.duration = None;
    plan.bounds.requests = Some(FIRST_CALLS);
    plan.bounds.timeout = Duration::from_secs(5);
    Stream::start(plan)?.join()
}

/// Addresses on loopback that are free now. All are held until all are known, so that they differ.
fn free() -> anyhow::Result<[SocketAddr; 3]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("find a free port");
    let held = [bind()?, bind()?, bind()?];
    Ok([held[0].local_addr()?, held[1].local_addr()?, held[2].local_addr()?])
}

impl Runner<'_> {
    /// Only those are compared.
    pub(super) fn has_settings_of(&self, other: &Self) -> bool {
        self.contender.settings == other.contender.settings
    }

    /// How far the proxy's CPUs are from the others now; nothing where it has none of its own.
    pub(super) fn distance(&self) -> Option<Distance> {
        let last = own_cpus(self.site.workers).next_back()?;
        Some(distance(round_trip_ns(0, last)))
    }
}

fn placed(proxy: Program, workers: u32) -> anyhow::Result<Program> {
    let own: Vec<_> = own_cpus(workers).collect();
    if !own.is_empty() {
        pin(&proxy.pids(), &own)?;
    }
    Ok(proxy)
}

/// The last CPUs are the proxy's; generator and backend share the others, if there are any.
fn own_cpus(workers: u32) -> std::ops::Range<usize> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let own = usize::try_from(workers).unwrap_or(cpus);
    if own < cpus { cpus - own..cpus } else { cpus..cpus }
}

#[cfg(test)]
mod tests {
    use fairway_lab_traffic::backend::{Options, Server};

    use super::super::testing;
    use super::*;

    #[test]
    fn a_peer_that_cannot_proxy_grpc_is_absent_from_those_cases_with_the_reason() {
        let mut absent = Vec::new();
        let mut add = |name: &str, upstream, why: &str| {
            let record = left_out(name, upstream, &anyhow::anyhow!("{why}"), &absent);
            absent.extend(record.clone());
            record.map(|record| record.reason)
        };
        let refused = "calls of gRPC fail through it: HTTP/2 502";
        assert_eq!(add("caddy", Spoken::Grpc, refused), Some(format!("in front of gRPC: {refused}")));
        assert_eq!(add("caddy", Spoken::Grpc, refused), None, "with the other settings, or other workers");
        let missing = "haproxy is not installed";
        assert_eq!(add("haproxy", Spoken::Http1, missing), Some(missing.to_owned()));
        assert_eq!(add("haproxy", Spoken::Grpc, missing), None, "it was said already");
        let never = "Contour has no form without a cluster";
        assert_eq!(add("contour", Spoken::Grpc, never), Some(never.to_owned()), "not for gRPC alone");
        assert!(absent.iter().all(|record| record.scenario.as_deref() == Some("capacity")));
    }

    #[test]
    fn a_proxy_that_passes_no_calls_on_is_known_before_its_first_block() {
        // TLS, and HTTP/1 alone behind it.
        let server = Server::start(Options { tls: true, ..Options::default() }).expect("it starts");
        let mut site = testing::site();
        site.https = server.addresses()[0];
        let why = format!("{:#}", passes_calls(&site).expect_err("it speaks no HTTP/2"));
        assert!(why.contains("the server does not speak h2"), "{why}");
        site.upstream = Spoken::Http1;
        passes_calls(&site).expect("in front of HTTP/1 nothing is called");
        server.end();
    }
}
