//! The memory of an idle connection and of a waiting stream: the growth of a fresh proxy's resident memory over thousands
//! of connections that got one response and then stay idle, or over thousands of streams on connections that are already
//! open.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_lab_measure::resident_bytes;

use super::block::request_for;
use crate::backend::Upstream;
use crate::load::{Ask, Generator, Tally, send};
use crate::running_proxy::{RunningProxy, sleep_after_check};
use crate::scenario::{Downstream, Load, Scenario};

/// Connections that come and go first, so that what a proxy allocates once is not counted per connection.
const WARM_UP_CONNECTIONS: usize = 50;
const FIRST_FOR: Duration = Duration::from_millis(500);
/// Timeout for opening all connections.
const OPENING_TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait for allocators to return freed memory, which takes about a second.
const SETTLE_TIME: Duration = Duration::from_secs(2);

#[derive(serde::Serialize)]
pub(crate) struct Memory {
    pub(crate) peer: String,
    /// The kind of connection or stream.
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

pub(crate) fn idle(scenario: &Scenario, name: &str, proxy: &RunningProxy) -> anyhow::Result<Memory> {
    let all = request_for(scenario, proxy);
    warm_up(&all)?;
    let before_bytes = resident_bytes(&proxy.processes);
    let mut generator = Generator::open(&all, OPENING_TIMEOUT)?;
    generator.run()?;
    sleep_after_check(SETTLE_TIME)?;
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

/// Streams whose requests the backend holds until memory has been read.
pub(crate) fn waiting(
    scenario: &Scenario,
    name: &str,
    proxy: &RunningProxy,
    backend: &Upstream,
) -> anyhow::Result<Memory> {
    let all = request_for(scenario, proxy);
    warm_up(&all)?;
    let streams = scenario.connections * scenario.downstream.streams();
    let mut generator = Generator::open(&all, OPENING_TIMEOUT)?;
    sleep_after_check(SETTLE_TIME)?;
    let before_bytes = resident_bytes(&proxy.processes);
    backend.hold(true);
    let are_sent = generator.send_and_wait_for(streams as u64)?;
    sleep_after_check(SETTLE_TIME)?;
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
    let mut scenario = Scenario { connections: WARM_UP_CONNECTIONS, load: Load::KeepAlive, ..all.scenario };
    if scenario.is_http2() {
        // Earlier streams would leave memory in pools, which the measured ones would then reuse.
        scenario.downstream = Downstream::Http2 { streams: 1 };
    }
    send(&Ask { scenario, ..all.clone() }, FIRST_FOR)?;
    sleep_after_check(SETTLE_TIME)
}
