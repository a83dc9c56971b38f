//! `fairway-lab run` and `fairway-lab list`. The work is in `prepare`, `session` and `catalogue`.

use std::io::Write;
use std::process::ExitCode;

use super::arguments::RunArguments;
use super::definition::{Form, Scaling};
use super::{catalogue, prepare, session};
use crate::peers;

impl RunArguments {
    /// Runs the scenarios: prepares peers and a testbed, and measures inside the testbed.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let scaling =
            Scaling { form: self.scope.form(), scale: self.scope.scale, set: self.scope.set.clone() };
        let scenarios = catalogue::named(&self.scenarios, &scaling)?;
        match &self.inside {
            Some(handover) => session::run(handover, &scenarios, &self.fail_on_errors),
            None => prepare::run(&self, &scenarios),
        }
    }
}

/// Arguments of `fairway-lab list`.
#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// The parameters of this scenario only, as its file has them
    #[arg(value_name = "SCENARIO")]
    scenario: Option<String>,
}

impl ListArguments {
    /// Prints the list.
    ///
    /// # Errors
    /// No such scenario, or standard output that cannot be written.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if let Some(name) = self.scenario {
            let known = catalogue::known_scenarios().find(|(known, _)| *known == name);
            let (_, text) = known.ok_or_else(|| anyhow::anyhow!("there is no scenario {name:?}"))?;
            out.write_all(text.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let scaling = Scaling { form: Form::Whole, scale: 1.0, set: Vec::new() };
        writeln!(out, "scenarios (`fairway-lab list NAME` prints a file):")?;
        let names: Vec<_> = catalogue::known_scenarios().map(|(name, _)| name.to_owned()).collect();
        for scenario in catalogue::named(&names, &scaling)? {
            writeln!(out, "  {:<14}{}", scenario.name(), scenario.definition.heading.purpose)?;
        }
        writeln!(out, "\npeers:")?;
        for peer in peers::all_peers() {
            writeln!(out, "  {:<22}{}", peer.name(), peer.summary())?;
        }
        writeln!(
            out,
            "\nnginx, haproxy and caddy are the current releases, which `{}` installs. Another release is named with its version, or \
             `system` for that of this machine: nginx@1.22, haproxy@system",
            fairway_lab_measure::MAKE_CURRENT
        )?;
        Ok(ExitCode::SUCCESS)
    }
}
