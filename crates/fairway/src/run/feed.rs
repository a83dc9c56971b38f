//! The source of configuration: which one, what it waits for, and what is served until it has told something.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use fairway_control::admin::Readiness;
use fairway_control::{Directory, Pipeline};

use super::gate::Gate;
use crate::args::{RunArgs, Source};

/// How long the first configuration from files may take; 10,000 files take about a second.
const FIRST_CONFIGURATION: Duration = Duration::from_secs(600);

/// The running source.
pub(super) enum Feed {
    /// A directory.
    Directory(Directory, PathBuf),
}

/// What a source says about itself, for other threads.
#[derive(Clone)]
pub(super) enum Condition {
    /// A directory has nothing to say: its problems are diagnostics.
    Directory,
}

impl Feed {
    pub(super) fn start(_args: &RunArgs, source: &Source<'_>, pipeline: &Pipeline) -> Result<Self> {
        match source {
            Source::Manifests(manifests) => {
                let directory = Directory::start(manifests, pipeline.inlet()).context("--manifests")?;
                Ok(Self::Directory(directory, manifests.to_path_buf()))
            }
            Source::Kubernetes(_) => bail!("--kubernetes is being wired"),
        }
    }

    /// Waits for something to serve.
    pub(super) fn wait_for_first(&self, _args: &RunArgs, pipeline: &Pipeline, _gate: &Gate) -> Result<()> {
        pipeline
            .wait_for_first(FIRST_CONFIGURATION)
            .context("the first configuration took more than ten minutes")?;
        Ok(())
    }

    pub(super) fn condition(&self) -> Condition {
        Condition::Directory
    }

    pub(super) fn stop(self) {
        match self {
            Self::Directory(directory, _) => directory.stop(),
        }
    }
}

impl Condition {
    pub(super) fn explain(&self, readiness: Readiness) -> Readiness {
        readiness
    }

    pub(super) fn metrics_text(&self) -> String {
        String::new()
    }
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(_, path) => write!(f, "{}", path.display()),
        }
    }
}
