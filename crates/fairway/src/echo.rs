//! `fairway echo`: runs the echo server of `fairway-echo`.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use fairway_echo::{EchoOptions, EchoServer, EchoTls, Identity, OnSigterm};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{EchoArgs, LogFormat};
use crate::logging;

/// Runs the echo server until SIGTERM or SIGINT.
pub(crate) fn echo(args: EchoArgs) -> Result<ExitCode> {
    if args.listen.is_empty() && args.tls_listen.is_empty() {
        bail!("no address to listen on: give --listen ADDR");
    }
    logging::start(LogFormat::Text, "info")?;
    let options = options(args);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(serve(options))?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: EchoArgs) -> EchoOptions {
    let EchoArgs { listen, name, tls_listen, tls_cert, tls_key, tls_client_ca, drain, number_file } = args;
    let tls = tls_cert.zip(tls_key).map(|(certificate, key)| EchoTls {
        listen: tls_listen,
        certificate,
        key,
        client_authorities: tls_client_ca,
    });
    EchoOptions {
        listen,
        tls,
        identity: Identity::from_environment(name.as_deref()),
        on_sigterm: drain.map_or(OnSigterm::Immediately, OnSigterm::Drain),
        number_file,
    }
}

async fn serve(options: EchoOptions) -> Result<()> {
    let listen: Vec<_> = options.listen.iter().map(ToString::to_string).collect();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let server = EchoServer::bind(options).await.with_context(|| format!("--listen {}", listen.join(",")))?;
    for (what, addresses) in [("cleartext", server.addresses()), ("tls", server.tls_addresses())] {
        addresses.iter().for_each(|address| tracing::info!(%address, what, "listening"));
    }
    let stop_signal = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    server.run(stop_signal).await;
    Ok(())
}
