//! What an idle connection costs: the growth of a fresh proxy's resident memory over thousands of connections that
//! have each been answered once and then stay silent.

use std::collections::BTreeMap;
use std::time::Duration;

use fairway_lab_measure::resident_bytes;

use super::block::ask;
use crate::load::{Ask, Generator, Tally, send};
use crate::running::{Running, settle};
use crate::scenario::{Load, Scenario};

/// Connections that come and go first, so that what a proxy allocates once is not counted per connection.
const FIRST: usize = 50;
const FIRST_FOR: Duration = Duration::from_millis(500);
/// All connections together take no longer.
const LONGEST: Duration = Duration::from_secs(60);
const SETTLE: Duration = Duration::from_millis(500);

#[derive(serde::Serialize)]
pub(crate) struct Memory {
    pub(crate) peer: String,
    pub(crate) open: usize,
    pub(crate) errors: BTreeMap<String, u64>,
    pub(crate) before_bytes: u64,
    pub(crate) after_bytes: u64,
}

impl Memory {
    pub(crate) fn kib_per_connection(&self) -> f64 {
        self.after_bytes.saturating_sub(self.before_bytes) as f64 / 1024.0 / self.open.max(1) as f64
    }
}

pub(crate) fn idle(scenario: &Scenario, name: &str, proxy: &Running) -> anyhow::Result<Memory> {
    let all = ask(scenario, proxy);
    send(&Ask { connections: FIRST, load: Load::KeepAlive, ..all.clone() }, FIRST_FOR)?;
    settle(SETTLE)?;
    let before_bytes = resident_bytes(&proxy.processes);
    let mut generator = Generator::open(&all, LONGEST)?;
    generator.run()?;
    settle(SETTLE)?;
    let after_bytes = resident_bytes(&proxy.processes);
    let Tally { open, mut errors, .. } = generator.end()?;
    if open < scenario.connections {
        errors.insert("not open at the end".to_owned(), (scenario.connections - open) as u64);
    }
    let memory = Memory { peer: name.to_owned(), open, errors, before_bytes, after_bytes };
    eprintln!("  {} {name}: {:.2} KiB", scenario.name, memory.kib_per_connection());
    Ok(memory)
}
