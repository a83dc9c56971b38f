//! The arguments of `fairway-lab backend`, and its life: it serves until it is told to end. Serves nothing itself.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::options::{Faults, Options, Spoken};
use super::server::Server;
use crate::load::flags::duration;

/// Arguments of `fairway-lab backend`.
#[derive(Args)]
pub struct BackendArguments {
    /// Where to listen; several times for several.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: Vec<SocketAddr>,
    /// What answers say in X-Lab-Backend. X-Lab-Pod is the environment's POD_NAME.
    #[arg(long, default_value = "backend")]
    name: String,
    /// Bytes of an answer; targets may say otherwise: /1kb.bin, /1mb.bin, ?size=BYTES.
    #[arg(long, default_value_t = 1_024)]
    size: u64,
    /// How long an answer takes, e.g. 5ms.
    #[arg(long, default_value = "0s", value_parser = duration)]
    delay: Duration,
    /// The fraction of requests that is answered with a reset.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    reset: f64,
    /// The fraction of answers that ends in the middle.
    #[arg(long, default_value_t = 0.0, value_parser = fraction)]
    truncate: f64,
    /// A status and the fraction of requests that is answered with it, e.g. 503:0.01; several times for several.
    #[arg(long, value_name = "CODE:RATE", value_parser = status)]
    status: Vec<(u16, f64)>,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Speak TLS, with a certificate that the backend signs itself.
    #[arg(long)]
    tls: bool,
    /// Speak HTTP/2 without TLS, with prior knowledge, and answer every call of gRPC at once with a message of 1 KiB.
    #[arg(long, conflicts_with_all = ["size", "delay", "reset", "truncate", "status", "tls", "record"])]
    grpc: bool,
    /// Tell the ids of requests (X-Lab-Id) to a collector of the laboratory.
    #[arg(long, value_name = "ADDR")]
    record: Option<SocketAddr>,
}

impl BackendArguments {
    /// Does what the arguments ask for.
    ///
    /// # Errors
    /// Input that cannot be used.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("listen to signals")?;
        runtime.block_on(async {
            // Before the first connection: as the first process of a pod nothing else would end this one.
            let mut terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
            let mut interrupt = signal(SignalKind::interrupt()).context("listen to Ctrl-C")?;
            let server = Server::start(self.options()?)?;
            for address in server.addresses() {
                writeln!(io::stderr(), "listening on {address}").context("say where the backend listens")?;
            }
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            server.end();
            Ok(ExitCode::SUCCESS)
        })
    }

    fn options(self) -> anyhow::Result<Options> {
        let sum = self.reset + self.truncate + self.status.iter().map(|(_, rate)| rate).sum::<f64>();
        anyhow::ensure!(sum <= 1.0, "--reset, --truncate and --status are more than all requests together");
        Ok(Options {
            listen: self.listen,
            name: self.name,
            pod: std::env::var("POD_NAME").unwrap_or_default(),
            size: self.size,
            delay: self.delay,
            faults: Faults { reset: self.reset, truncate: self.truncate, statuses: self.status },
            threads: self.threads,
            tls: self.tls,
            spoken: if self.grpc { Spoken::Grpc } else { Spoken::Http1 },
            record: self.record,
        })
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|fraction| (0.0..=1.0).contains(fraction))
        .ok_or_else(|| format!("{text:?} is no fraction from 0 to 1"))
}

fn status(text: &str) -> Result<(u16, f64), String> {
    let (code, rate) =
        text.split_once(':').ok_or_else(|| format!("{text:?} is not CODE:RATE, e.g. 503:0.01"))?;
    let code = code.parse().ok().filter(|code| (200..600).contains(code));
    Ok((code.ok_or_else(|| format!("{text:?} has no status from 200 to 599"))?, fraction(rate)?))
}
