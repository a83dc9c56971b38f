//! Opens one connection before the load, so that a target that refuses connections or has the wrong certificate gives one
//! clear error instead of a table of them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use fairway_lab_measure::results::Class;

use super::http3::{Http3, OpeningProgress};
use super::plan::{Plan, Protocol};
use super::poller::{Interest, Poller};
use super::quic::ReceiveBuffer;
use super::slot::{Opening, Step};
use super::transport::{Dialer, Scratch};

/// Opens a connection according to the plan, including TLS, and closes it.
///
/// # Errors
/// The reason why the connection failed.
pub(super) fn probe(plan: &Plan) -> anyhow::Result<()> {
    let address = plan.target.addresses[0];
    let deadline = Instant::now() + plan.bounds.timeout;
    if plan.wire.protocol == Protocol::Http3 {
        return probe_http3(plan, address, deadline);
    }
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
                Step::Failed(class, why) => return Err(failure(plan, address, class, &why)),
            }
        }
        if Instant::now() >= deadline {
            return Err(timed_out(plan, address, &opening.give_up().1));
        }
    }
    if let Some((_, why)) = opening.refusal(plan.wire.protocol) {
        bail!("{address} and {:?}: {why}", plan.target.name);
    }
    opening.transport.close();
    Ok(())
}

fn probe_http3(plan: &Plan, address: SocketAddr, deadline: Instant) -> anyhow::Result<()> {
    let quic = Dialer::new(plan, 0)?.dial_quic().with_context(|| format!("no connection to {address}"))?;
    let mut poller = Poller::new()?;
    poller.add(&quic, 0, Interest::Read)?;
    let mut http3 = Box::new(Http3::new(quic, 0));
    let (mut datagrams, mut happened) = (ReceiveBuffer::for_plan(plan), Vec::new());
    loop {
        http3.transmit(Instant::now());
        match http3.take_opened() {
            OpeningProgress::Yes => break,
            OpeningProgress::Failed(class, why) => return Err(failure(plan, address, class, &why)),
            OpeningProgress::Not => {}
        }
        poller.wait(Some(Duration::from_millis(10).as_nanos() as u64), &mut happened)?;
        let now = Instant::now();
        if happened.drain(..).count() > 0 {
            http3.receive(&mut datagrams, now);
        }
        if http3.quic.timeout().is_some_and(|due| due <= now) {
            http3.expire(now);
        }
        if now >= deadline {
            return Err(timed_out(plan, address, "the QUIC handshake did not end in time"));
        }
    }
    http3.close();
    Ok(())
}

fn timed_out(plan: &Plan, address: SocketAddr, action: &str) -> anyhow::Error {
    anyhow!("{address}: {action} ({} ms; see --timeout)", plan.bounds.timeout.as_millis())
}

fn failure(plan: &Plan, address: SocketAddr, class: Class, why: &str) -> anyhow::Error {
    match class {
        Class::ConnectRefused => anyhow!("nothing listens on {address}: connection refused"),
        Class::Tls => {
            let is_distrust = why.contains("peer certificate");
            let hint = if is_distrust { " (see --ca and --insecure)" } else { "" };
            anyhow!("{address} and {:?} do not agree on TLS: {why}{hint}", plan.target.name)
        }
        _ => anyhow!("no connection to {address}: {why}"),
    }
}
