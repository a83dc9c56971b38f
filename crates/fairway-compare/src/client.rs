//! One connection to a controller: HTTP/1.1, in the clear or over TLS with the probe's host as the name. A certificate is looked
//! at and judged, and never ends a connection. Follows no redirect.

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

use crate::answer::{self, Answer, Body, Part};
use crate::probe::{MARK, Probe};

/// So much of a body is compared; the connection ends with what is longer.
const LARGEST_BODY: usize = 1024 * 1024;
/// So much of it is kept to look at.
const KEPT: usize = 64 * 1024;

/// So long may the end of an answer take on a connection that is used again.
const READY: Duration = Duration::from_millis(200);

const AGENT: &str = concat!("fairway-compare/", env!("CARGO_PKG_VERSION"));

/// Why there was no answer. The same failure has the same words each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection.
    Connect(String),
    /// No TLS on it.
    Handshake(String),
    /// What came is not HTTP.
    NotHttp,
    /// The connection ended without an answer.
    Closed,
    /// No answer within the time.
    Late(Duration),
}

/// How connections are made.
pub(crate) struct Dialer {
    connector: TlsConnector,
    judge: Option<Arc<WebPkiServerVerifier>>,
    patience: Duration,
}

/// An open connection.
pub(crate) struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    /// Whether something came that nobody had asked for.
    foreign: Arc<AtomicBool>,
    /// Whether it has answered before.
    used: bool,
    certificate: Option<Shown>,
}

/// A certificate that a controller showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) digest: String,
    pub(crate) names: String,
    /// `None` is a certificate that clients trust.
    pub(crate) flaw: Option<String>,
}

impl Dialer {
    /// Connections that may take `patience` for each step; certificates are judged by `roots`.
    pub(crate) fn new(patience: Duration, roots: Arc<RootCertStore>) -> Self {
        let cryptography = Arc::new(provider::default_provider());
        let judge =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&cryptography)).build().ok();
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&cryptography))
            .with_safe_default_protocol_versions()
            .expect("the provider speaks the versions of rustls")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(cryptography)))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A session that is resumed shows no certificate.
        config.resumption = Resumption::disabled();
        Self { connector: TlsConnector::from(Arc::new(config)), judge, patience }
    }

    /// A connection in the clear.
    pub(crate) async fn plain(&self, address: SocketAddr) -> Result<Connection, Failure> {
        let socket = self.socket(address).await?;
        self.over(TokioIo::new(socket), None).await
    }

    /// A connection with TLS for `host`.
    pub(crate) async fn secure(&self, address: SocketAddr, host: &str) -> Result<Connection, Failure> {
        let refused = |error: &dyn fmt::Display| Failure::Handshake(error.to_string());
        let name = ServerName::try_from(host.to_owned()).map_err(|error| refused(&error))?;
        let socket = self.socket(address).await?;
        let stream = match timeout(self.patience, self.connector.connect(name.clone(), socket)).await {
            Ok(stream) => stream.map_err(|error| refused(&error))?,
            Err(_) => return Err(Failure::Late(self.patience)),
        };
        let shown = stream.get_ref().1.peer_certificates().map(|chain| self.judged(chain, &name));
        self.over(TokioIo::new(stream), shown).await
    }

    async fn socket(&self, address: SocketAddr) -> Result<TcpStream, Failure> {
        match timeout(self.patience, TcpStream::connect(address)).await {
            Ok(Ok(socket)) => {
                // Without it, requests are only later.
                _ = socket.set_nodelay(true);
                Ok(socket)
            }
            Ok(Err(error)) => Err(Failure::Connect(reason(&error))),
            Err(_) => Err(Failure::Late(self.patience)),
        }
    }

    async fn over<T>(&self, stream: T, certificate: Option<Shown>) -> Result<Connection, Failure>
    where
        T: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::handshake(stream).await.map_err(|error| failure(&error))?;
        let foreign = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&foreign);
        // It ends with its sender.
        tokio::spawn(async move {
            let spoke_first = connection.await.is_err_and(|error| spoke_first(&error));
            flag.store(spoke_first, Ordering::Relaxed);
        });
        Ok(Connection { sender, foreign, used: false, certificate })
    }

    fn judged(&self, chain: &[CertificateDer<'_>], name: &ServerName<'_>) -> Shown {
        let Some((leaf, others)) = chain.split_first() else {
            return Shown {
                digest: String::new(),
                names: String::new(),
                flaw: Some("none was shown".to_owned()),
            };
        };
        let verdict =
            self.judge.as_ref().map(|it| it.verify_server_cert(leaf, others, name, &[], UnixTime::now()));
        let flaw = match verdict {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("there are no authorities to trust".to_owned()),
        };
        let mut context = Context::new(&SHA256);
        context.update(leaf);
        Shown { digest: hexadecimal(context), names: names_of(leaf), flaw }
    }
}

impl Connection {
    /// Itself, where another request can be sent on it.
    pub(crate) async fn if_usable(mut self) -> Option<Self> {
        // What is left of an answer that was given up may keep it from being ready.
        let ready = timeout(READY, self.sender.ready()).await.is_ok_and(|ready| ready.is_ok());
        ready.then_some(self)
    }

    /// Whether it has answered before: what fails on it then may be its age.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// What the handshake showed.
    pub(crate) fn certificate(&self) -> Option<&Shown> {
        self.certificate.as_ref()
    }

    /// Sends a request and reads its answer.
    pub(crate) async fn ask(&mut self, probe: &Probe, patience: Duration) -> Result<Answer, Failure> {
        let Some(request) = request(probe) else { return Err(Failure::NotHttp) };
        let response = match timeout(patience, self.sender.send_request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) if !self.used && self.foreign.load(Ordering::Relaxed) => return Err(Failure::NotHttp),
            Ok(Err(error)) => return Err(failure(&error)),
            Err(_) => return Err(Failure::Late(patience)),
        };
        self.used = true;
        let (head, body) = response.into_parts();
        let body = timeout(patience, read(body)).await.unwrap_or_else(|_| Body {
            digest: format!("not ended within {} s", patience.as_secs_f64()),
            start: Vec::new(),
        });
        Ok(answer::answer(probe, &head, &body))
    }
}

/// The parts of a handshake.
pub(crate) fn handshake(shown: Option<&Shown>) -> Answer {
    let mut parts = Answer::from([(Part::Exchange, "answered".to_owned())]);
    if let Some(Shown { digest, names, flaw }) = shown {
        let trust = if flaw.is_none() { "trusted" } else { "not trusted" };
        parts.insert(Part::Certificate, digest.clone());
        parts.insert(Part::CertificateNames, names.clone());
        parts.insert(Part::CertificateTrust, trust.to_owned());
    }
    parts
}

/// `None` for what no request can say.
fn request(probe: &Probe) -> Option<Request<Empty<Bytes>>> {
    let target = Uri::builder().path_and_query(probe.target.as_str()).build().ok()?;
    let mut request = Request::builder()
        .method(probe.ask.method()?)
        .uri(target)
        .header(HOST, &*probe.host)
        .header(USER_AGENT, AGENT)
        .header(ACCEPT, "*/*")
        .header(MARK.0, MARK.1);
    for (name, value) in &probe.fields {
        request = request.header(name, value);
    }
    request.body(Empty::new()).ok()
}

async fn read(mut body: Incoming) -> Body {
    let mut context = Context::new(&SHA256);
    let (mut start, mut length) = (Vec::new(), 0);
    let ended = loop {
        let piece = match body.frame().await {
            None => break "",
            Some(Err(_)) => break ", broken off",
            Some(Ok(frame)) => frame,
        };
        let Some(piece) = piece.data_ref() else { continue };
        let piece = &piece[..piece.len().min(LARGEST_BODY - length)];
        context.update(piece);
        length += piece.len();
        start.extend_from_slice(&piece[..piece.len().min(KEPT.saturating_sub(start.len()))]);
        if length == LARGEST_BODY {
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

/// An error of the system without its number.
fn reason(error: &io::Error) -> String {
    error.kind().to_string()
}

fn failure(error: &hyper::Error) -> Failure {
    if error.is_parse() || spoke_first(error) { Failure::NotHttp } else { Failure::Closed }
}

/// Whether something came before it was asked for, as from servers of other protocols. hyper says so in words alone.
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
            Self::NotHttp => f.write_str("the answer is not HTTP/1.1"),
            Self::Closed => f.write_str("the connection ended without an answer"),
            Self::Late(patience) => write!(f, "{} {} s", answer::LATE, patience.as_secs_f64()),
        }
    }
}

/// Takes every certificate, but checks that the controller has its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
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
