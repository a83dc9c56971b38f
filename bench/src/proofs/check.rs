//! `fairway check` over many manifests: its time and memory, compared with what is promised.

use std::path::Path;

use fairway_testkit::proof::check::{Installation, Run};
use serde::Serialize;

use super::arguments::CheckArguments;
use super::outcome::ProofReport;
use crate::interrupt;

/// Maximum time of a check of 10,000 Ingresses, seconds.
const MAX_SECONDS: f64 = 2.0;
/// Maximum memory of a check, MiB.
const MAX_MEBIBYTES: f64 = 500.0;
/// The number of Ingresses.
const PROMISED_FOR: usize = 10_000;

/// The forms of the command.
const FORMS: [&[&str]; 3] = [&[], &["--report"], &["--report", "--output", "json"]];

/// The runs of a form.
#[derive(Serialize)]
struct Form {
    arguments: String,
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct CheckFindings {
    ingresses: usize,
    forms: Vec<Form>,
}

/// Runs the proof: the cost of checking many objects.
pub(crate) fn check(arguments: &CheckArguments) -> anyhow::Result<()> {
    let binary = arguments.place.binary()?;
    eprintln!("writing {} manifests", arguments.ingresses);
    let installation = Installation::with_ingresses(arguments.ingresses as usize);
    let mut forms = Vec::new();
    for form in FORMS {
        forms.push(runs(&installation, &binary, form, arguments.runs)?);
    }
    let rows: Vec<_> = forms.iter().flat_map(Form::rows).collect();
    let promised = installation.ingresses() <= PROMISED_FOR;
    let broken = forms.iter().filter(|_| promised).flat_map(Form::broken_promises).collect();
    let found = CheckFindings { ingresses: installation.ingresses(), forms };
    ProofReport::new(&binary, found, broken)?.conclude(&rows, &arguments.place.file("check"))
}

fn runs(installation: &Installation, binary: &Path, form: &[&str], count: u8) -> anyhow::Result<Form> {
    let mut runs = Vec::new();
    for _ in 0..count {
        interrupt::check()?;
        eprintln!("fairway check {}", form.join(" "));
        runs.push(installation.check(binary, form).0);
    }
    Ok(Form { arguments: form.join(" "), runs })
}

impl Form {
    fn slowest(&self) -> f64 {
        self.runs.iter().map(|run| run.seconds).fold(0.0, f64::max)
    }

    fn peak(&self) -> f64 {
        self.runs.iter().map(|run| run.peak_mib).fold(0.0, f64::max)
    }

    fn rows(&self) -> [(String, String); 2] {
        let fastest = self.runs.iter().map(|run| run.seconds).fold(f64::INFINITY, f64::min);
        let name = |figure: &str| format!("check {}: {figure}", self.arguments).replace(" :", ":");
        [
            (name("time"), format!("{fastest:.2} to {:.2} s in {} runs", self.slowest(), self.runs.len())),
            (name("memory at its peak"), format!("{:.0} MiB", self.peak())),
        ]
    }

    fn broken_promises(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if self.slowest() > MAX_SECONDS {
            broken.push(format!(
                "check {} took {:.2} s, not {MAX_SECONDS} s",
                self.arguments,
                self.slowest()
            ));
        }
        if self.peak() > MAX_MEBIBYTES {
            broken.push(format!("check {} took {:.0} MiB, not {MAX_MEBIBYTES}", self.arguments, self.peak()));
        }
        broken
    }
}
