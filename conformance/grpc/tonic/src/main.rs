//! Client and server of gRPC's interoperability cases on tonic (doc/interop-test-descriptions.md of the gRPC project).
//!
//! ```text
//! interop version
//! interop server ADDRESS [CERTIFICATE KEY]
//! interop client ADDRESS HOST CASE [AUTHORITY]
//! ```
//!
//! HOST is the name that calls are for. With a certificate, or the authority that signed it, TLS is spoken.

mod cases;
mod compression;
mod messages;
mod metadata;
mod server;

use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};

/// What may go wrong, in words.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Twice the time that the longest case needs on a busy machine: a case that hangs fails.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["version"] => println!("{}", version()),
        ["server", address] => serve(address, None).await?,
        ["server", address, certificate, key] => serve(address, Some((certificate, key))).await?,
        ["client", address, host, case] => call(endpoint(address, host, None)?, case).await?,
        ["client", address, host, case, authority] => {
            call(endpoint(address, host, Some(authority))?, case).await?;
        }
        _ => {
            return Err(
                "usage: version | server ADDRESS [CERTIFICATE KEY] | client ADDRESS HOST CASE [AUTHORITY]"
                    .into(),
            );
        }
    }
    Ok(())
}

/// tonic's own, from the lock file.
fn version() -> &'static str {
    let after = include_str!("../Cargo.lock").split("name = \"tonic\"\nversion = \"").nth(1);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("unknown")
}

async fn serve(address: &str, certificate: Option<(&str, &str)>) -> Result<(), Failure> {
    let mut server = Server::builder();
    if let Some((certificate, key)) = certificate {
        let identity = Identity::from_pem(std::fs::read(certificate)?, std::fs::read(key)?);
        server = server.tls_config(ServerTlsConfig::new().identity(identity))?;
    }
    let server = server.layer(metadata::EchoLayer).add_service(server::service());
    Ok(server.serve(address.parse()?).await?)
}

fn endpoint(address: &str, host: &str, authority: Option<&str>) -> Result<Endpoint, Failure> {
    let scheme = if authority.is_some() { "https" } else { "http" };
    let endpoint =
        Endpoint::from_shared(format!("{scheme}://{address}"))?.origin(format!("{scheme}://{host}").parse()?);
    let Some(authority) = authority else { return Ok(endpoint) };
    let certificate = Certificate::from_pem(std::fs::read(authority)?);
    Ok(endpoint.tls_config(ClientTlsConfig::new().ca_certificate(certificate).domain_name(host))?)
}

async fn call(endpoint: Endpoint, case: &str) -> Result<(), Failure> {
    let run = cases::run(&endpoint, case);
    tokio::time::timeout(STEP_TIMEOUT, run).await.map_err(|_| format!("not done after {STEP_TIMEOUT:?}"))?
}
