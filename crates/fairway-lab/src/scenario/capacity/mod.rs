//! `capacity`: what one proxy can carry with so many worker threads, and what a request costs it. Proxies, backend and
//! generator are processes on loopback; every peer is up, and blocks of load go to Fairway and to one of the others with
//! the same settings in turn.

mod block;
mod definition;
mod ratios;
mod runners;

use fairway_lab_results::{Absent, Run};
use fairway_lab_traffic::backend::Spawned;

use self::block::blocks;
use self::definition::{Case, Tls};
use self::ratios::ratios;
use self::runners::{Runner, start};
use crate::adapter::TlsChoice;

pub(super) use self::definition::Parameters;
pub(super) use self::runners::LocalRun;

/// All cases by worker count and version of TLS.
pub(super) async fn run(
    local: &LocalRun<'_>,
    parameters: &Parameters,
    run: &mut Run,
    absent: &mut Vec<Absent>,
) -> anyhow::Result<()> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let program = &local.handover.artifacts.laboratory;
    let backend = Spawned::start(program, parameters.backends.max(1), &["--name", "backend"])?;
    for workers in parameters
        .workers
        .iter()
        .filter(|workers| usize::try_from(**workers).is_ok_and(|count| count <= cpus))
    {
        for choice in [TlsChoice::Tls13, TlsChoice::Tls12] {
            let of_choice = |case: &&Case| (case.tls == Tls::Tls12) == matches!(choice, TlsChoice::Tls12);
            let cases: Vec<_> = parameters.cases.iter().filter(of_choice).collect();
            if cases.is_empty() {
                continue;
            }
            let runners = start(local, &backend, *workers, choice, absent)?;
            for case in cases {
                let mut place = 0;
                for alike in runners.chunk_by(Runner::has_settings_of) {
                    let measures = blocks(local, parameters, case, alike, &mut place).await?;
                    let (found, missing) = ratios(&measures, &case.name, *workers);
                    run.ratios.extend(found);
                    run.notes.extend(missing);
                    run.measures.extend(measures);
                }
            }
        }
    }
    Ok(())
}
