//! The arguments of `fairway-lab adapter`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use fairway_lab_measure::results::Settings;

use crate::adapter::frame::{Frame, Listen};
use crate::adapter::proxy::Kind;
use crate::adapter::run::serve;

/// Arguments of `fairway-lab adapter`.
#[derive(clap::Args)]
pub(crate) struct AdapterArguments {
    /// The proxy.
    kind: Kind,
    /// The IngressClass whose Ingresses are served.
    #[arg(long)]
    class: String,
    /// The namespace of Ingresses, Services, EndpointSlices and Secrets.
    #[arg(long)]
    namespace: String,
    /// Worker threads or processes; the proxy decides when it is absent.
    #[arg(long)]
    workers: Option<u32>,
    /// `recommended` or `defaults`.
    #[arg(long, value_parser = settings)]
    settings: Settings,
    /// Folder for configurations and sockets.
    #[arg(long, default_value = "/run/lab")]
    folder: PathBuf,
}

impl AdapterArguments {
    /// Runs the adapter.
    ///
    /// # Errors
    /// No API server, a proxy that does not start or ends by itself.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_target(false).with_ansi(false).init();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("start the adapter's event loop")?;
        let any = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let frame = Frame {
            listen: Listen { http: any(8080), https: any(8443) },
            workers: self.workers,
            settings: self.settings,
            folder: self.folder,
        };
        runtime.block_on(serve(self.kind, &self.class, &self.namespace, frame))
    }
}

fn settings(text: &str) -> Result<Settings, String> {
    match text {
        "recommended" => Ok(Settings::Recommended),
        "defaults" => Ok(Settings::Defaults),
        _ => Err("it is either recommended or defaults".to_owned()),
    }
}
