//! What an idle connection costs, and a stream that waits for its answer: the growth of a fresh proxy's resident memory over thousands of connections that
//! have each been answered once and then stay silent, or over thousands of streams on connections that are open already.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_lab_measure::resident_bytes;

use super::block::ask;
use crate::backend::Upstream;
use crate::load::{Ask, Generator, Tally, send};
use crate::running::{Running, settle};
use crate::scenario::{Downstream, Load, Scenario};

/// Connections that come and go first, so that what a proxy allocates once is not counted per connection.
const FIRST: usize = 50;
const FIRST_FOR: Duration = Duration::from_millis(500);
/// All connections together take no longer.
const LONGEST: Duration = Duration::from_secs(60);
/// Allocators give freed memory back after a second or so.
const SETTLE: Duration = Duration::from_secs(2);

#[derive(serde::Serialize)]
pub(crate) struct Memory {
    pub(crate) peer: String,
    /// What each of them is.
    pub(crate) each: &'static str,
    pub(crate) open: usize,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) before_bytes: u64,
    pub(crate) after_bytes: u64,
}

impl Memory {
    pub(crate) fn kib_each(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / 1024.0 / self.open.max(1) as f64
    }
}

pub(crate) fn idle(scenario: &Scenario, name: &str, proxy: &Running) -> anyhow::Result<Memory> {
    let all = ask(scenario, proxy);
    warm_up(&all)?;
    let before_bytes = resident_bytes(&proxy.processes);
    let mut generator = Generator::open(&all, LONGEST)?;
    generator.run()?;
    settle(SETTLE)?;
    let after_bytes = resident_bytes(&proxy.processes);
    let Tally { open, mut errors, .. } = generator.end()?;
    if open < scenario.connections {
        errors.insert("not open at the end".to_owned(), (scenario.connections - open) as u64);
    }
    let memory =
        Memory { peer: name.to_owned(), each: "connection", open, errors, before_bytes, after_bytes };
    eprintln!("  {} {name}: {:.2} KiB", scenario.name, memory.kib_each());
    Ok(memory)
}

/// Streams whose requests are with the backend, which answers none of them before memory was read.
pub(crate) fn waiting(
    scenario: &Scenario,
    name: &str,
    proxy: &Running,
    backend: &Upstream,
) -> anyhow::Result<Memory> {
    let all = ask(scenario, proxy);
    warm_up(&all)?;
    let streams = scenario.connections * scenario.downstream.streams();
    let mut generator = Generator::open(&all, LONGEST)?;
    settle(SETTLE)?;
    let before_bytes = resident_bytes(&proxy.processes);
    backend.hold(true);
    let are_sent = generator.send_and_wait_for(streams as u64)?;
    settle(SETTLE)?;
    let after_bytes = resident_bytes(&proxy.processes);
    backend.hold(false);
    generator.finish()?;
    let Tally { mut errors, .. } = generator.end()?;
    if !are_sent {
        errors.insert("not all streams were open at the same time".to_owned(), 1);
    }
    let memory = Memory {
        peer: name.to_owned(),
        each: "waiting stream",
        open: streams,
        errors,
        before_bytes,
        after_bytes,
    };
    eprintln!("  {} {name}: {:.2} KiB", scenario.name, memory.kib_each());
    Ok(memory)
}

/// Requests on connections that come and go.
fn warm_up(all: &Ask) -> anyhow::Result<()> {
    let mut scenario = Scenario { connections: FIRST, load: Load::KeepAlive, ..all.scenario };
    if scenario.is_http2() {
        // Streams that came before would leave behind what those that are measured use.
        scenario.downstream = Downstream::Http2 { streams: 1 };
    }
    send(&Ask { scenario, ..all.clone() }, FIRST_FOR)?;
    settle(SETTLE)
}
