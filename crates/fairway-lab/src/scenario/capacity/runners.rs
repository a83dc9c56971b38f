//! The proxies of `capacity` that are up at the same time, each with so many workers. Never sends them anything.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use anyhow::Context;

use crate::adapter::TlsChoice;
use crate::peers::local::{LocalSite, local as local_peer};
use crate::scenario::handover::Handover;
use crate::scenario::progress::Progress;
use crate::scenario::running_peer::{Contender, file_name};
use crate::scenario::site::{Certificate, HOST};
use fairway_lab_measure::{Program, distance, pin, round_trip_ns};
use fairway_lab_results::{Absent, Distance};
use fairway_lab_traffic::backend::Spawned;

/// Where blocks run.
pub(in crate::scenario) struct LocalRun<'a> {
    pub(in crate::scenario) handover: &'a Handover,
    pub(in crate::scenario) certificate: &'a Certificate,
    pub(in crate::scenario) progress: Progress,
    pub(in crate::scenario) contenders: &'a [Contender<'a>],
}

/// A proxy that is up.
pub(super) struct Runner<'a> {
    pub(super) contender: &'a Contender<'a>,
    pub(super) proxy: Program,
    pub(super) site: LocalSite,
}

pub(super) fn start<'a>(
    local: &LocalRun<'a>,
    backend: &Spawned,
    workers: u32,
    tls: TlsChoice,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Vec<Runner<'a>>> {
    let mut runners = Vec::new();
    for contender in local.contenders {
        let name = contender.peer.name();
        let tag = file_name(&[
            name,
            &format!("{:?}", contender.settings),
            &format!("{tls:?}"),
            &workers.to_string(),
        ]);
        let folder = local.handover.artifacts.folder.join(tag);
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let [http, https, admin] = free()?;
        let site = LocalSite {
            backends: backend.addresses().to_vec(),
            http,
            https,
            admin,
            hosts: vec![HOST.to_owned()],
            chain_pem: local.certificate.chain.clone(),
            key_pem: local.certificate.key.clone(),
            workers,
            settings: contender.settings,
            tls,
            folder,
        };
        let started = local_peer(name)
            .and_then(|peer| peer.start(&local.handover.artifacts, &site))
            .and_then(|proxy| placed(proxy, workers));
        match started {
            Ok(proxy) => runners.push(Runner { contender, proxy, site }),
            Err(error) => {
                let record = Absent {
                    peer: name.to_owned(),
                    scenario: Some("capacity".to_owned()),
                    round: 0,
                    reason: format!("{error:#}"),
                };
                if !absent.contains(&record) {
                    local.progress.say(&format!("{name} takes no part in capacity: {error:#}"));
                    absent.push(record);
                }
            }
        }
    }
    Ok(runners)
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
