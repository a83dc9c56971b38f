//! The proxies behind one set of verbs. Never decides when something changes.

use crate::adapter::caddy::Caddy;
use crate::adapter::desired::DesiredState;
use crate::adapter::envoy::Envoy;
use crate::adapter::frame::Frame;
use crate::adapter::haproxy::Haproxy;
use crate::adapter::nginx::Nginx;
use crate::adapter::process::Process;

/// The kind of proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// A new configuration and a reload for each change.
    Nginx,
    /// The runtime API for endpoints, a reload for everything else.
    Haproxy,
    /// Files that it watches.
    Envoy,
    /// The complete configuration through its admin API.
    Caddy,
}

/// A proxy that runs.
pub(crate) enum Proxy {
    Nginx(Nginx),
    Haproxy(Haproxy),
    Envoy(Envoy),
    Caddy(Caddy),
}

impl Proxy {
    /// Configures and starts it, and waits until it serves.
    pub(crate) async fn start(kind: Kind, frame: Frame, desired: &DesiredState) -> anyhow::Result<Self> {
        Ok(match kind {
            Kind::Nginx => Self::Nginx(Nginx::start(frame, desired).await?),
            Kind::Haproxy => Self::Haproxy(Haproxy::start(frame, desired).await?),
            Kind::Envoy => Self::Envoy(Envoy::start(frame, desired).await?),
            Kind::Caddy => Self::Caddy(Caddy::start(frame, desired).await?),
        })
    }

    /// Applies a new configuration.
    pub(crate) async fn apply(&mut self, desired: &DesiredState) -> anyhow::Result<()> {
        match self {
            Self::Nginx(nginx) => nginx.apply(desired).await,
            Self::Haproxy(haproxy) => haproxy.apply(desired).await,
            Self::Envoy(envoy) => envoy.apply(desired).await,
            Self::Caddy(caddy) => caddy.apply(desired).await,
        }
    }

    /// Waits for an unexpected exit.
    pub(crate) async fn wait_for_exit(&mut self) -> String {
        self.process().wait_for_exit().await
    }

    /// Stops the proxy in the way its controller does.
    pub(crate) async fn drain(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Nginx(nginx) => nginx.drain().await,
            Self::Haproxy(haproxy) => haproxy.drain().await,
            Self::Envoy(envoy) => envoy.drain().await,
            Self::Caddy(caddy) => caddy.drain().await,
        }
    }

    fn process(&mut self) -> &mut Process {
        match self {
            Self::Nginx(nginx) => nginx.process(),
            Self::Haproxy(haproxy) => haproxy.process(),
            Self::Envoy(envoy) => envoy.process(),
            Self::Caddy(caddy) => caddy.process(),
        }
    }
}
