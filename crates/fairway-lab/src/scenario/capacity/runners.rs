//! The proxies of `capacity` that are up at the same time, each with so many workers. Never sends them anything.

use anyhow::Context;

use super::Yard;
use super::backend::{Backend, free};
use crate::adapter::TlsChoice;
use crate::measure::pin;
use crate::peers::local::{self, LocalProxy, LocalSite};
use crate::results::Absent;
use crate::scenario::site::HOST;
use crate::scenario::stage::{Contender, file_name};

/// A proxy that is up.
pub(super) struct Runner<'a> {
    pub(super) contender: &'a Contender<'a>,
    pub(super) proxy: LocalProxy,
    pub(super) site: LocalSite,
}

pub(super) fn start<'a>(
    yard: &Yard<'a>,
    backend: &Backend,
    (workers, tls): (u32, TlsChoice),
    absent: &mut Vec<Absent>,
) -> anyhow::Result<Vec<Runner<'a>>> {
    let mut runners = Vec::new();
    for contender in yard.contenders {
        let name = contender.peer.name();
        let tag = file_name(&[
            name,
            &format!("{:?}", contender.settings),
            &format!("{tls:?}"),
            &workers.to_string(),
        ]);
        let folder = yard.handover.workshop.folder.join(tag);
        std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let site = LocalSite {
            backends: backend.addresses.clone(),
            http: free()?,
            https: free()?,
            hosts: vec![HOST.to_owned()],
            chain_pem: yard.certificate.0.to_owned(),
            key_pem: yard.certificate.1.to_owned(),
            workers,
            settings: contender.settings,
            tls,
            folder,
        };
        let started = local::local(name)
            .and_then(|peer| peer.start(&yard.handover.workshop, &site))
            .and_then(|proxy| placed(proxy, workers));
        match started {
            Ok(proxy) => runners.push(Runner { contender, proxy, site }),
            Err(error) => {
                let record = Absent {
                    peer: name.to_owned(),
                    scenario: Some("capacity".to_owned()),
                    reason: format!("{error:#}"),
                };
                if !absent.contains(&record) {
                    yard.progress.say(&format!("{name} takes no part in capacity: {error:#}"));
                    absent.push(record);
                }
            }
        }
    }
    Ok(runners)
}

pub(super) fn stop(runners: Vec<Runner<'_>>) {
    for runner in runners {
        runner.proxy.stop();
    }
}

/// The last CPUs are the proxy's; generator and backend share the others, if there are any.
fn placed(proxy: LocalProxy, workers: u32) -> anyhow::Result<LocalProxy> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let own = usize::try_from(workers)?;
    if own < cpus {
        pin(&proxy.pids(), &(cpus - own..cpus).collect::<Vec<_>>())?;
    }
    Ok(proxy)
}
