//! The complete `results.json`: the environment of a run and its findings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::results::figure;
use crate::results::run::Run;

/// The number of the schema. It grows when a reader of the one before would misread a file.
pub const SCHEMA: u32 = 1;

/// Everything that one `fairway-lab run` found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// Whether every scenario ended as planned.
    pub completeness: Completeness,
    /// When the run began, RFC 3339 in UTC.
    pub begun: String,
    /// Its duration, seconds, over all parts if it was continued.
    #[serde(deserialize_with = "figure::read_number")]
    pub seconds: f64,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The machine and the programs.
    pub environment: Environment,
    /// The measured peers.
    pub peers: Vec<PeerRecord>,
    /// Peers that could not be measured.
    pub absent: Vec<Absent>,
    /// One per scenario, or per scenario and round.
    pub runs: Vec<Run>,
    /// Limitations that a reader must know, one sentence each.
    pub limitations: Vec<String>,
}

/// Whether a run ended as planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Completeness {
    /// Every scenario with every peer that can be had.
    Complete,
    /// The run was interrupted.
    Partial {
        /// Why, e.g. `interrupted by Ctrl-C in dynamic, peer envoy`.
        reason: String,
    },
}

/// The machine and the programs of the laboratory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Environment {
    /// The model of the CPU as the kernel names it.
    pub cpu: String,
    /// Logical CPUs that the run could use.
    pub cpus: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// The distribution's name and version.
    pub system: String,
    /// `testbed`, `local` (no cluster) or the name of the user's context.
    pub place: String,
    /// Kubernetes' version where there is a cluster.
    pub kubernetes: Option<String>,
    /// The laboratory's version and revision.
    pub laboratory: String,
    /// More facts by name, e.g. `load average before the run`, `open files`, `clock source`.
    pub facts: BTreeMap<String, String>,
}

/// The kind of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerKind {
    /// A real controller.
    Controller,
    /// A proxy under the laboratory's adapter, which acts as that proxy's controller.
    Adapter,
    /// A controller that the user described and that runs in the user's cluster.
    Described,
    /// Straight to the pods, without a proxy: shows the machine's own latency.
    Direct,
}

/// A peer as it was measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeerRecord {
    /// The name that measures use: `fairway`, `nginx-reload`, `haproxy`, `envoy`, `caddy`, `contour`, `traefik`, `direct`.
    pub name: String,
    /// For people, e.g. `nginx 1.22.1 under the adapter (reload)`.
    pub title: String,
    /// Its kind.
    pub kind: PeerKind,
    /// The controller it represents, e.g. `NGINX OSS`.
    pub stands_for: String,
    /// Versions by program.
    pub versions: BTreeMap<String, String>,
    /// Full configurations and manifests, as they were used.
    pub configurations: Vec<NamedText>,
}

/// A text with its name: a configuration, a manifest, a command line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NamedText {
    /// Its name, e.g. `nginx.conf (recommended)`.
    pub name: String,
    /// The complete text.
    pub text: String,
}

/// A peer that was not available, or a scenario that it could not take part in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// The peer.
    pub peer: String,
    /// The scenario, if it is about one.
    pub scenario: Option<String>,
    /// The round of that scenario, if there are rounds; else 0.
    #[serde(default, skip_serializing_if = "crate::results::run::is_zero")]
    pub round: u32,
    /// The reason, in a sentence that names what was tried.
    pub reason: String,
}
