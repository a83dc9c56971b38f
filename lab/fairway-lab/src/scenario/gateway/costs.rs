//! The usage of all pods of a peer while its objects are created and changed.

use fairway_lab_measure::results::Run;

use super::super::metering::{MeteredUsage, Metering};
use super::super::running_peer::RunningPeer;
use super::figures::finding;

/// A meter of all pods of a peer.
pub(super) struct Costs(Metering);

impl Costs {
    pub(super) async fn start(running: &RunningPeer<'_>) -> anyhow::Result<Self> {
        Ok(Self(running.metering_of_all().await?))
    }

    /// Records the usage since the start or the previous call.
    pub(super) async fn note(
        &mut self,
        running: &RunningPeer<'_>,
        case: &str,
        when: &str,
        run: &mut Run,
    ) -> anyhow::Result<()> {
        let MeteredUsage { spent, .. } = self.0.cut().await?;
        let mut add = |figure: String, unit: &str, value: f64| {
            run.supplement.findings.push(finding(running, case, &figure, unit, value));
        };
        if spent.seconds > 0.0 {
            add(format!("CPU time of all pods {when}"), "s", spent.cpu_s);
            add(format!("CPUs of all pods {when}"), "", spent.cpu_s / spent.seconds);
        }
        if let Some(bytes) = spent.memory_bytes {
            add(format!("memory of all pods after {when}"), "bytes", bytes as f64);
        }
        Ok(())
    }

    /// Notes the same for the last time.
    pub(super) async fn end(
        mut self,
        running: &RunningPeer<'_>,
        case: &str,
        when: &str,
        run: &mut Run,
    ) -> anyhow::Result<()> {
        self.note(running, case, when, run).await?;
        self.0.end();
        Ok(())
    }
}
