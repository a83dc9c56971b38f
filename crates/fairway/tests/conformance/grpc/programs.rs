//! The programs of `conformance/grpc`: built, started as servers, and run as clients, one process per case.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use fairway_testkit::process::Program;
use fairway_testkit::wait::{eventually, free_address};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::conformance::report::checkout;

/// A case ends by itself before this timeout.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(90);

/// A gRPC library, as client and server.
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) version: String,
    program: PathBuf,
}

/// A running server.
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) tls: bool,
    /// The host for calls to it.
    pub(super) host: String,
    _running: Program,
}

/// The programs of a library.
pub(super) struct Certificate {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
}

/// The programs of grpc-go and tonic.
pub(super) async fn built() -> [Side; 2] {
    let sources = checkout().join("conformance/grpc");
    // Next to this test's own directory in the target directory.
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_path_buf();
    let go = target.join("debug/interop-go");
    build(Command::new("go").arg("build").arg("-o").arg(&go).arg(".").current_dir(sources.join("go"))).await;
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked"]).arg("--target-dir").arg(&target);
    build(cargo.current_dir(sources.join("tonic"))).await;
    [Side::new("grpc-go", go).await, Side::new("tonic", target.join("debug/interop-tonic")).await]
}

async fn build(command: &mut Command) {
    let status = command.status().await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

impl Side {
    async fn new(name: &'static str, program: PathBuf) -> Self {
        let output = Command::new(&program).arg("version").output().await.unwrap();
        let version = String::from_utf8(output.stdout).unwrap();
        Self { name, version: version.trim().trim_start_matches('v').to_owned(), program }
    }

    /// Starts the server of a library.
    pub(super) async fn serve(&self, certificate: Option<&Certificate>) -> Server {
        let address = free_address();
        let mut arguments = vec!["server".to_owned(), address.to_string()];
        if let Some(certificate) = certificate {
            arguments.extend([&certificate.chain, &certificate.key].map(|file| file.display().to_string()));
        }
        let running = Program::start(&self.program, &arguments);
        eventually(&format!("{} listens", self.name), Duration::from_secs(20), || async {
            TcpStream::connect(address).await.is_ok()
        })
        .await;
        let tls = certificate.is_some();
        let host = format!("{}-{}.interop.test", self.name, if tls { "tls" } else { "h2c" });
        Server { name: self.name, address, tls, host, _running: running }
    }

    /// Runs one case against `host` at `address` and returns the last output if it fails.
    pub(super) fn call(
        &self,
        address: &str,
        host: &str,
        case: &str,
        authority: Option<&Path>,
    ) -> impl Future<Output = Result<(), String>> + use<> {
        let mut command = Command::new(&self.program);
        command.args(["client", address, host, case]).args(authority);
        command.stdin(Stdio::null()).kill_on_drop(true);
        async move {
            let Ok(ended) = tokio::time::timeout(PROGRAM_TIMEOUT, command.output()).await else {
                return Err(format!("still running after {PROGRAM_TIMEOUT:?}"));
            };
            let output = ended.unwrap();
            let words = String::from_utf8_lossy(&output.stderr);
            let last = words.lines().last().unwrap_or("no word of it");
            if output.status.success() { Ok(()) } else { Err(last.to_owned()) }
        }
    }
}

impl Server {
    /// The name for `backend-protocol`.
    pub(super) fn protocol(&self) -> &'static str {
        if self.tls { "GRPCS" } else { "GRPC" }
    }
}
