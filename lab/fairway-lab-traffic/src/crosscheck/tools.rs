//! The other load generators: where they are, which version, and how they are told to do the same as ours.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::Context;

use super::figures::Figures;
use super::oha;

/// Another load generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tool {
    Wrk,
    Hey,
    H2load,
    Oha,
}

/// What all generators do.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) url: String,
    pub(super) rate: u64,
    pub(super) seconds: u64,
    pub(super) connections: usize,
}

/// A tool that is here.
pub(super) struct Installed {
    pub(super) tool: Tool,
    program: PathBuf,
    pub(super) version: String,
}

impl Tool {
    pub(super) const ALL: [Self; 4] = [Self::Wrk, Self::Hey, Self::H2load, Self::Oha];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Wrk => "wrk",
            Self::Hey => "hey",
            Self::H2load => "h2load",
            Self::Oha => "oha",
        }
    }

    /// Whether it can keep a rate; otherwise it is compared in a closed loop.
    pub(super) fn has_rate(self) -> bool {
        self != Self::Wrk
    }

    fn package(self) -> &'static str {
        match self {
            Self::Wrk => "Debian's package wrk",
            Self::Hey => "Debian's package hey",
            Self::H2load => "Debian's package nghttp2-client",
            Self::Oha => "the crate oha",
        }
    }

    /// Finds it; oha is built if it is not there.
    ///
    /// # Errors
    /// It is absent: why.
    pub(super) fn find(self) -> anyhow::Result<Installed> {
        let program = match in_path(self.name()) {
            Some(program) => program,
            None if self == Self::Oha => oha::program()?,
            None => anyhow::bail!("not in PATH; it is in {}", self.package()),
        };
        let version = self.version(&program);
        Ok(Installed { tool: self, program, version })
    }

    fn version(self, program: &Path) -> String {
        if self == Self::Hey {
            return hey_version();
        }
        let flag = if self == Self::Wrk { "-v" } else { "--version" };
        let Ok(output) = Command::new(program).arg(flag).output() else { return "unknown".to_owned() };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().next().unwrap_or("unknown");
        // wrk goes on with its copyright.
        line.split(" [").next().unwrap_or(line).trim().to_owned()
    }
}

/// hey does not tell its version; Debian's package does.
fn hey_version() -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f", "hey ${Version}", "hey"]).output();
    match output {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => "hey (it does not tell its version)".to_owned(),
    }
}

impl Installed {
    /// Runs it once.
    ///
    /// # Errors
    /// It failed, or printed something else than expected.
    pub(super) fn run(&self, task: &Task) -> anyhow::Result<Figures> {
        let Task { url, rate, seconds, connections } = task;
        let each = (rate / *connections as u64).max(1);
        match self.tool {
            Tool::Wrk => {
                let options = format!("-t1 -c {connections} -d {seconds}s --latency");
                Figures::of_wrk(&self.output(&options, &[url])?)
            }
            Tool::Hey => {
                let options = format!("-z {seconds}s -c {connections} -q {each} -cpus 1");
                Figures::of_hey(&self.output(&options, &[url])?)
            }
            Tool::Oha => {
                let options =
                    format!("--no-tui --output-format json -z {seconds}s -c {connections} -q {rate}");
                Figures::of_oha(&self.output(&options, &[url])?)
            }
            Tool::H2load => {
                let log = tempfile::NamedTempFile::new().context("make room for the log of h2load")?;
                let file = format!("--log-file={}", log.path().display());
                let options = format!("--h1 -t1 -c {connections} -D {seconds} --rps={each}");
                let text = self.output(&options, &[&file, url])?;
                let log = std::fs::read_to_string(log.path()).context("read the log of h2load")?;
                Figures::of_h2load(&text, &log)
            }
        }
    }

    /// What it prints with options, which have no spaces in them, and then what may have some.
    fn output(&self, options: &str, last: &[&str]) -> anyhow::Result<String> {
        let name = self.tool.name();
        let arguments: Vec<_> = options.split(' ').chain(last.iter().copied()).collect();
        let Output { status, stdout, stderr } = Command::new(&self.program)
            .args(&arguments)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("start {name}"))?;
        let (said, asked) = (String::from_utf8_lossy(&stderr), arguments.join(" "));
        anyhow::ensure!(status.success(), "{name} {asked} ended with {status}: {}", said.trim());
        Ok(String::from_utf8_lossy(&stdout).into_owned())
    }
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}
