//! `capacity`: what one proxy can carry with so many worker threads, and what a request costs it. Proxies, backend and
//! generator are processes on loopback; every peer is up, and blocks of load go to Fairway and to one of the others with
//! the same settings in turn.

mod block;
mod definition;
mod ratios;
mod runners;
#[cfg(test)]
mod testing;

use fairway_lab_measure::results::{Absent, Run};
use fairway_lab_traffic::backend::{Spawned, Spoken};

use self::block::blocks;
use self::ratios::ratios;
use self::runners::{Runner, Setup, start};
use crate::adapter::TlsChoice;

pub(super) use self::definition::Parameters;
pub(super) use self::runners::LocalRun;

/// What proxies are started for, in this order.
const SETUPS: [(Spoken, TlsChoice); 4] = [
    (Spoken::Http1, TlsChoice::Tls13),
    (Spoken::Http1, TlsChoice::Tls12),
    (Spoken::Grpc, TlsChoice::Tls13),
    (Spoken::Grpc, TlsChoice::Tls12),
];

/// All cases by worker count, by what backends speak and by version of TLS.
pub(super) async fn run(
    local: &LocalRun<'_>,
    parameters: &Parameters,
    run: &mut Run,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    for workers in parameters
        .workers
        .iter()
        .filter(|workers| usize::try_from(**workers).is_ok_and(|count| count <= cpus))
    {
        for (upstream, tls) in SETUPS {
            let cases = parameters.cases_of(upstream, tls);
            if cases.is_empty() {
                continue;
            }
            let backend = backend(local, parameters, upstream)?;
            let setup = Setup { backend: &backend, upstream, tls, workers: *workers };
            let runners = start(local, setup, absent)?;
            for case in cases {
                let mut place = 0;
                for alike in runners.chunk_by(Runner::has_settings_of) {
                    let measures = blocks(local, parameters, case, alike, &mut place).await?;
                    let (found, missing) = ratios(&measures, &case.name, *workers);
                    run.ratios.extend(found);
                    run.supplement.notes.extend(missing);
                    run.measures.extend(measures);
                }
            }
        }
    }
    Ok(())
}

fn backend(local: &LocalRun<'_>, parameters: &Parameters, upstream: Spoken) -> anyhow::Result<Spawned> {
    let mut arguments = vec!["--name", "backend"];
    if upstream == Spoken::Grpc {
        arguments.push("--grpc");
    }
    Spawned::start(&local.handover.artifacts.laboratory, parameters.backends.max(1), &arguments)
}
