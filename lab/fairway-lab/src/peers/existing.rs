//! A controller that somebody else installed: where it is, and how its CPU can be read.

use std::net::IpAddr;

/// The location of a controller that is already installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing {
    /// The address of its Service, from where the laboratory runs.
    pub address: IpAddr,
    /// The namespace of its pods.
    pub namespace: String,
    /// Label selector of the data plane's pods; without it, CPU time is not reported.
    pub selector: Option<String>,
    /// Its Deployment, which `comparison` scales.
    pub deployment: Option<String>,
    /// Where the CPU of its pods is read.
    pub cpu: CpuSource,
}

/// Where CPU and memory of pods are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpuSource {
    /// Their cgroups where they run on this machine, else their kubelets.
    #[default]
    Automatic,
    /// Their cgroups.
    Cgroup,
    /// The counters of their kubelets, through the API server.
    Kubelet,
}

impl CpuSource {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "cgroup" => Some(Self::Cgroup),
            "kubelet" => Some(Self::Kubelet),
            _ => None,
        }
    }
}
