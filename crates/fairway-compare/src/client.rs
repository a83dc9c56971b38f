//! An HTTP/1.1 connection to a controller, plain or over TLS with the probe's host as the server name. Certificates are recorded
//! and verified, but an invalid one does not end the connection. Redirects are not followed.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use crate::probe::{PROBE_HEADER, Probe};
use crate::response::{self, Body, Part, ResponseParts};

/// Maximum size of a body that is compared; a longer body closes the connection.
const MAX_BODY_BYTES: usize = 1024 * 1024;
/// Number of bytes of a body that are kept for inspection.
const KEPT_BODY_BYTES: usize = 64 * 1024;

/// How long to wait for the end of the previous response before a connection is reused.
const REUSE_TIMEOUT: Duration = Duration::from_millis(200);

const AGENT: &str = concat!("fairway-compare/", env!("CARGO_PKG_VERSION"));

/// Why there was no response. The same failure always has the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The connection failed.
    Connect(String),
    /// The TLS handshake failed.
    Handshake(String),
    /// The peer does not speak HTTP.
    NotHttp,
    /// The connection ended without a response.
    Closed,
    /// There was no response within this time.
    Late(Duration),
}

/// Opens connections.
pub(crate) struct Dialer {
    connector: TlsConnector,
    verifier: Option<Arc<WebPkiServerVerifier>>,
    step_timeout: Duration,
}

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Whether the peer sent data before a request.
    sent_early: Arc<AtomicBool>,
    /// Whether a response has been received on it.
    used: bool,
    certificate: Option<PresentedCertificate>,
}

/// A certificate that a controller presented.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PresentedCertificate {
    pub(crate) digest: String,
    pub(crate) names: String,
    /// Why clients do not trust it; `None` if they do.
    pub(crate) flaw: Option<String>,
}

impl Dialer {
    /// Connections that may take `step_timeout` for each step; certificates are verified with `roots`.
    pub(crate) fn new(step_timeout: Duration, roots: Arc<RootCertStore>) -> Self {
        let cryptography = Arc::new(provider::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&cryptography)).build().ok();
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&cryptography))
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default TLS versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate(cryptography)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session presents no certificate.
        config.resumption = Resumption::disabled();
        Self { connector: TlsConnector::from(Arc::new(config)), verifier, step_timeout }
    }

    /// Opens a plain connection.
    pub(crate) async fn plain(&self, address: SocketAddr) -> Result<Connection, Failure> {
        let socket = self.socket(address).await?;
        self.start_http(TokioIo::new(socket), None).await
    }

    /// Opens a TLS connection for `host`.
    pub(crate) async fn secure(&self, address: SocketAddr, host: &str) -> Result<Connection, Failure> {
        let refused = |error: &dyn fmt::Display| Failure::Handshake(error.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|error| refused(&error))?;
        let socket = self.socket(address).await?;
        let stream = match timeout(self.step_timeout, self.connector.connect(name.clone(), socket)).await {
            Ok(stream) => stream.map_err(|error| refused(&error))?,
            Err(_) => return Err(Failure::Late(self.step_timeout)),
        };
        let shown = stream.get_ref().1.peer_certificates().map(|chain| self.verify_chain(chain, &name));
        self.start_http(TokioIo::new(stream), shown).await
    }

    async fn socket(&self, address: SocketAddr) -> Result<TcpStream, Failure> {
        match timeout(self.step_timeout, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                // Without TCP_NODELAY, requests are only slower.
                _ = socket.set_nodelay(true);
                Ok(socket)
            }
            Ok(Err(error)) => Err(Failure::Connect(reason(&error))),
            Err(_) => Err(Failure::Late(self.step_timeout)),
        }
    }

    async fn start_http<T>(
        &self,
        stream: T,
        certificate: Option<PresentedCertificate>,
    ) -> Result<Connection, Failure>
    where
        T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(stream).await.map_err(|error| failure(&error))?;
        let foreign = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&foreign);
        // The task ends with the sender.
        tokio::spawn(async move {
            let spoke_first = connection.await.is_err_and(|error| spoke_first(&error));
            flag.store(spoke_first, Ordering::Relaxed);
        });
        Ok(Connection { sender, sent_early: foreign, used: false, certificate })
    }

    fn verify_chain(&self, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> PresentedCertificate {
        let Some((leaf, others)) = chain.split_first() else {
            return PresentedCertificate {
                digest: String::new(),
                names: String::new(),
                flaw: Some("no certificate was presented".to_owned()),
            };
        };
        let verdict =
            self.verifier.as_ref().map(|it| it.verify_server_cert(leaf, others, name, &[], UnixTime::now()));
        let flaw = match verdict {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("there are no authorities to trust".to_owned()),
        };
        let mut context = Context::new(&SHA256);
        context.update(leaf);
        PresentedCertificate { digest: hexadecimal(context), names: names_of(leaf), flaw }
    }
}

impl Connection {
    /// The connection, if another request can be sent on it.
    pub(crate) async fn if_usable(mut self) -> Option<Self> {
        // The rest of an abandoned response may keep it from becoming ready.
        let ready = timeout(REUSE_TIMEOUT, self.sender.ready()).await.is_ok_and(|ready| ready.is_ok());
        ready.then_some(self)
    }

    /// Whether a response has been received on it; a failure may then be due to an idle timeout.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// The certificate of the handshake.
    pub(crate) fn certificate(&self) -> Option<&PresentedCertificate> {
        self.certificate.as_ref()
    }

    /// Sends a request and reads the response.
    pub(crate) async fn send(
        &mut self,
        probe: &Probe,
        step_timeout: Duration,
    ) -> Result<ResponseParts, Failure> {
        let Some(request) = request(probe) else { return Err(Failure::NotHttp) };
        let response = match timeout(step_timeout, self.sender.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if !self.used && self.sent_early.load(Ordering::Relaxed) => {
                return Err(Failure::NotHttp);
            }
            Ok(Err(error)) => return Err(failure(&error)),
            Err(_) => return Err(Failure::Late(step_timeout)),
        };
        self.used = true;
        let (head, body) = response.into_parts();
        let body = timeout(step_timeout, read(body)).await.unwrap_or_else(|_| Body {
            digest: format!("not ended within {} s", step_timeout.as_secs_f64()),
            start: Vec::new(),
        });
        Ok(response::response_parts(probe, &head, &body))
    }
}

/// The compared parts of a handshake.
pub(crate) fn handshake(shown: Option<&PresentedCertificate>) -> ResponseParts {
    let mut parts = ResponseParts::from([(Part::Exchange, "answered".to_owned())]);
    if let Some(PresentedCertificate { digest, names, flaw }) = shown {
        let trust = if flaw.is_none() { "trusted" } else { "not trusted" };
        parts.insert(Part::Certificate, digest.clone());
        parts.insert(Part::CertificateNames, names.clone());
        parts.insert(Part::CertificateTrust, trust.to_owned());
    }
    parts
}

/// Builds the request; `None` if it would be invalid.
fn request(probe: &Probe) -> Option<Request<Empty<Bytes>>> {
    let target = Uri::builder().path_and_query(probe.target.as_str()).build().ok()?;
    let mut request = Request::builder()
        .method(probe.kind.method()?)
        .uri(target)
        .header(HOST, &*probe.host)
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, "*/*")
        .header(PROBE_HEADER.0, PROBE_HEADER.1);
    for (name, value) in &probe.fields {
        request = request.header(name, value);
    }
    request.body(Empty::new()).ok()
}

async fn read(mut body: Incoming) -> Body {
    let mut context = Context::new(&SHA256);
    let (mut start, mut length) = (Vec::new(), 0);
    let ended = loop {
        let chunk = match body.frame().await {
            None => break "",
            Some(Err(_)) => break ", truncated",
            Some(Ok(frame)) => frame,
        };
        let Some(piece) = chunk.data_ref() else { continue };
        let chunk = &piece[..piece.len().min(MAX_BODY_BYTES - length)];
        context.update(chunk);
        length += chunk.len();
        start.extend_from_slice(&chunk[..chunk.len().min(KEPT_BODY_BYTES.saturating_sub(start.len()))]);
        if length == MAX_BODY_BYTES {
            break " and more";
        }
    };
    Body { digest: format!("{length} bytes{ended}, sha256 {}", &hexadecimal(context)[..16]), start }
}

fn hexadecimal(context: Context) -> String {
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The subject alternative names.
fn names_of(certificate: &[u8]) -> String {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return String::new() };
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return String::new() };
    let names = extension.value.general_names.iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    names.collect::<Vec<_>>().join(", ")
}

/// The text of a system error without its number.
fn reason(error: &io::Error) -> String {
    error.kind().to_string()
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse() || spoke_first(error) { Failure::NotHttp } else { Failure::Closed }
}

/// Whether the peer sent data before a request, as servers of other protocols do. hyper reports this only in its message.
fn spoke_first(error: &hyper::Error) -> bool {
    let mut error: Option<&dyn Error> = Some(error);
    while let Some(one) = error {
        if one.to_string().contains("unexpected message") {
            return true;
        }
        error = one.source();
    }
    false
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(why) => write!(f, "no connection: {why}"),
            Self::Handshake(why) => write!(f, "no TLS: {why}"),
            Self::NotHttp => f.write_str("the response is not HTTP/1.1"),
            Self::Closed => f.write_str("the connection ended without a response"),
            Self::Late(step_timeout) => {
                write!(f, "{} {} s", response::LATE_PREFIX, step_timeout.as_secs_f64())
            }
        }
    }
}

/// Accepts every certificate, but checks that the controller has its private key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
