//! One connection before the load, so that a target that refuses or a certificate that does not match is told in a
//! sentence instead of a table of errors.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use fairway_lab_measure::results::Class;

use super::plan::Plan;
use super::poller::{Interest, Poller};
use super::slot::{Opening, Step};
use super::transport::{Dialer, Scratch};

/// Opens a connection as planned, TLS included, and ends it.
///
/// # Errors
/// Why there is no connection.
pub(super) fn probe(plan: &Plan) -> anyhow::Result<()> {
    let address = plan.target.addresses[0];
    let deadline = Instant::now() + plan.bounds.timeout;
    let transport = Dialer::new(plan, 0)?.dial().with_context(|| format!("no connection to {address}"))?;
    let mut poller = Poller::new()?;
    poller.add(&transport, 0, Interest::ReadAndWrite)?;
    let mut opening = Opening::new(transport, 0);
    let (mut scratch, mut happened) = (Scratch::new(), Vec::new());
    loop {
        poller.wait(Some(Duration::from_millis(10).as_nanos() as u64), &mut happened)?;
        if happened.drain(..).count() > 0 {
            match opening.step(&mut scratch) {
                Step::Ready => break,
                Step::Wait => poller.change(&opening.transport, 0, Interest::Read)?,
                Step::Failed(Class::ConnectRefused, _) => {
                    bail!("nothing listens on {address}: connection refused")
                }
                Step::Failed(Class::Tls, why) => {
                    let is_distrust = why.contains("peer certificate");
                    let hint = if is_distrust { " (see --ca and --insecure)" } else { "" };
                    bail!("{address} and {:?} do not agree on TLS: {why}{hint}", plan.target.name)
                }
                Step::Failed(_, why) => bail!("no connection to {address}: {why}"),
            }
        }
        if Instant::now() >= deadline {
            let (_, what) = opening.give_up();
            bail!("{address}: {what} ({} ms; see --timeout)", plan.bounds.timeout.as_millis());
        }
    }
    if let Some((_, why)) = opening.refusal(plan.wire.protocol) {
        bail!("{address} and {:?}: {why}", plan.target.name);
    }
    opening.transport.close();
    Ok(())
}
