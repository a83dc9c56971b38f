//! Server certificates ready for use, prepared away from the workers.
//!
//! An unchanged certificate keeps its parsed form from snapshot to snapshot; all share the ticket keys of the
//! process, so that sessions resume on every worker and after every change.

use std::sync::Arc;

use fairway_model::{
    Certificate, CertificateKey, Config, DownstreamSettings, HostPattern, KeyExchange, TlsVersions,
    WildcardSpan,
};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{NoServerSessionStorage, ProducesTickets, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::tls::ocsp::Stapling;
use crate::tls::suites;
use crate::tls::tickets::{SessionTickets, TicketGroup};

/// ALPN protocols by preference. As in nginx since 1.21.4, a client that offers only others is refused (RFC
/// 7301 §3.2): its connection may be meant for a server of another protocol.
const ALPN_PROTOCOLS: [&str; 3] = ["h2", "http/1.1", "http/1.0"];

/// TLS 1.3 tickets per handshake. A client uses each only once (RFC 8446 §C.4), and more often opens two
/// connections at a time than more.
const TICKETS_PER_HANDSHAKE: usize = 2;

/// Certificate and key, made by the caller, for clients whose SNI has no certificate.
#[derive(Clone, Debug)]
pub struct SelfSigned {
    /// Chain in DER, end-entity certificate first.
    pub chain: Vec<Vec<u8>>,
    /// Key in DER.
    pub private_key: Vec<u8>,
}

/// Why a certificate cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// Unsupported key type.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// rustls rejected the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// State shared by all certificates.
#[derive(Clone)]
pub(crate) struct ServerTls {
    provider: Arc<CryptoProvider>,
    tickets: SessionTickets,
    /// Tickets of clients without client authentication.
    default_ticketer: Arc<dyn ProducesTickets>,
    fallback: Arc<CertifiedKey>,
    stapling: Stapling,
}

/// Certificates of one snapshot.
#[derive(Clone)]
pub(crate) struct Identities {
    sources: OrdMap<CertificateKey, Arc<Certificate>>,
    by_key: OrdMap<CertificateKey, Arc<Identity>>,
    fallback: Arc<ServerConfig>,
    default: Arc<ServerConfig>,
    /// TLS parameters for clients.
    parameters: TlsParameters,
    tickets: SessionTickets,
}

/// TLS parameters common to all certificates.
#[derive(Clone)]
struct TlsParameters {
    versions: TlsVersions,
    key_exchange: Vec<KeyExchange>,
    /// Provider with these key exchange groups.
    provider: Arc<CryptoProvider>,
    staples: bool,
}

struct Identity {
    server: Arc<ServerConfig>,
    certified: Arc<CertifiedKey>,
}

impl ServerTls {
    /// Uses `fallback` for clients whose SNI has no certificate, if the configuration has no default.
    ///
    /// # Errors
    /// The fallback certificate cannot be used.
    pub(crate) fn new(fallback: &SelfSigned, tickets: SessionTickets) -> Result<Self, IdentityError> {
        let provider = Arc::new(suites::provider(&[]));
        let default_ticketer = tickets.ticketer(TicketGroup::NO_CLIENT_AUTH);
        let fallback = certified(&provider, fallback.chain.iter().map(Vec::as_slice), &fallback.private_key)?;
        let tls = Self { provider, tickets, default_ticketer, fallback, stapling: Stapling::default() };
        // If one choice of versions and groups works, all do.
        tls.server_config(
            single_certificate(&tls.fallback),
            &tls.parameters(&DownstreamSettings::default()),
        )?;
        Ok(tls)
    }

    /// Adds OCSP stapling, where the configuration enables it.
    pub(crate) fn with_stapling(self, stapling: Stapling) -> Self {
        Self { stapling, ..self }
    }

    /// Prepares the certificates of `config`. Unusable ones are left out and reported; unchanged ones are
    /// reused from `previous`. A change of TLS versions, groups or stapling rebuilds all.
    #[must_use]
    pub(crate) fn identities(
        &self,
        config: &Config,
        previous: Option<&Identities>,
    ) -> (Identities, Vec<(CertificateKey, IdentityError)>) {
        self.tickets.configure(&config.settings.tickets);
        let mut problems = Vec::new();
        let nothing = OrdMap::new();
        let settings = &config.settings.downstream;
        let previous = previous.filter(|previous| previous.parameters.matches(settings));
        let parameters =
            previous.map_or_else(|| self.parameters(settings), |previous| previous.parameters.clone());
        let (sources, mut by_key) = previous
            .map_or_else(|| (&nothing, OrdMap::new()), |known| (&known.sources, known.by_key.clone()));
        for change in sources.diff(&config.certificates) {
            let (key, source) = match change {
                DiffItem::Add(key, source) | DiffItem::Update { new: (key, source), .. } => (key, source),
                DiffItem::Remove(key, _) => {
                    by_key.remove(key);
                    continue;
                }
            };
            match self.identity(source, &parameters) {
                Ok(identity) => {
                    by_key.insert(key.clone(), Arc::new(identity));
                }
                Err(error) => problems.push((key.clone(), error)),
            }
        }
        let fallback = previous.map_or_else(
            || {
                let server_config = self.server_config(single_certificate(&self.fallback), &parameters);
                server_config
                    .expect("the fallback worked at the start, and neither versions nor groups matter")
            },
            |known| Arc::clone(&known.fallback),
        );
        let default_certificate = config.default_certificate.as_ref().and_then(|key| by_key.get(key));
        let default = Arc::clone(default_certificate.map_or(&fallback, |identity| &identity.server));
        let (sources, tickets) = (config.certificates.clone(), self.tickets.clone());
        (Identities { sources, by_key, fallback, default, parameters, tickets }, problems)
    }

    fn parameters(&self, settings: &DownstreamSettings) -> TlsParameters {
        let kx_groups = suites::key_exchange_groups(&settings.key_exchange);
        TlsParameters {
            versions: settings.tls_versions,
            key_exchange: settings.key_exchange.clone(),
            provider: Arc::new(CryptoProvider { kx_groups, ..(*self.provider).clone() }),
            staples: settings.ocsp_stapling,
        }
    }

    fn identity(&self, source: &Arc<Certificate>, spoken: &TlsParameters) -> Result<Identity, IdentityError> {
        let chain = source.chain.iter().map(AsRef::as_ref);
        let certified = certified(&self.provider, chain, source.private_key.der())?;
        let stapled = if spoken.staples { self.stapling.staple(&source.key, &certified) } else { None };
        let resolver: Arc<dyn ResolvesServerCert> = match stapled {
            Some(staple) => staple,
            None => single_certificate(&certified),
        };
        let server = self.server_config(resolver, spoken)?;
        Ok(Identity { server, certified })
    }

    fn server_config(
        &self,
        resolver: Arc<dyn ResolvesServerCert>,
        parameters: &TlsParameters,
    ) -> Result<Arc<ServerConfig>, IdentityError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&parameters.provider))
            .with_protocol_versions(suites::protocol_versions(parameters.versions))?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = ALPN_PROTOCOLS.map(|name| name.as_bytes().to_vec()).into();
        config.ticketer = Arc::clone(&self.default_ticketer);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = TICKETS_PER_HANDSHAKE;
        Ok(Arc::new(config))
    }
}

impl TlsParameters {
    fn matches(&self, settings: &DownstreamSettings) -> bool {
        self.versions == settings.tls_versions
            && self.key_exchange == settings.key_exchange
            && self.staples == settings.ocsp_stapling
    }
}

impl Identities {
    /// TLS configuration for a host: its own certificate, otherwise the default.
    #[must_use]
    pub(crate) fn server(&self, certificate: Option<&CertificateKey>) -> &Arc<ServerConfig> {
        certificate.and_then(|key| self.by_key.get(key)).map_or(&self.default, |identity| &identity.server)
    }

    /// Ticket keys of the process.
    #[must_use]
    pub(crate) fn tickets(&self) -> &SessionTickets {
        &self.tickets
    }

    /// TLS versions for clients.
    #[must_use]
    pub(crate) fn versions(&self) -> TlsVersions {
        self.parameters.versions
    }

    /// Of the usable certificates, the first that names exactly `name`, otherwise the first with a wildcard for
    /// it, otherwise the first.
    #[must_use]
    pub(crate) fn best_match<'k>(
        &self,
        certificates: &'k [CertificateKey],
        name: Option<&str>,
    ) -> Option<&'k CertificateKey> {
        let usable = || certificates.iter().filter(|key| self.by_key.contains_key(*key));
        let names = |key: &CertificateKey| self.sources.get(key).map_or(&[][..], |source| &source.names);
        let exact = |key: &&CertificateKey| names(key).iter().any(|pattern| name == Some(&**pattern));
        let wild = |key: &&CertificateKey| {
            name.is_some_and(|name| names(key).iter().any(|pattern| covers(pattern, name)))
        };
        usable().find(exact).or_else(|| usable().find(wild)).or_else(|| usable().next())
    }

    /// A client certificate for an endpoint.
    #[must_use]
    pub(crate) fn certified(&self, key: &CertificateKey) -> Option<&Arc<CertifiedKey>> {
        self.by_key.get(key).map(|identity| &identity.certified)
    }
}

/// Whether a certificate's name covers `name` (RFC 6125 §6.4.3).
fn covers(pattern: &str, name: &str) -> bool {
    HostPattern::parse(pattern, WildcardSpan::OneLabel).is_ok_and(|pattern| pattern.covers(name))
}

/// A resolver without OCSP responses.
fn single_certificate(certified: &Arc<CertifiedKey>) -> Arc<dyn ResolvesServerCert> {
    Arc::new(SingleCertAndKey::from(Arc::clone(certified)))
}

fn certified<'a>(
    provider: &CryptoProvider,
    chain: impl Iterator<Item = &'a [u8]>,
    key: &[u8],
) -> Result<Arc<CertifiedKey>, IdentityError> {
    let key = PrivateKeyDer::try_from(key).map_err(|why| IdentityError::Key(why.to_owned()))?.clone_key();
    let signer = provider.key_provider.load_private_key(key)?;
    let chain = chain.map(|der| CertificateDer::from(der.to_vec())).collect();
    Ok(Arc::new(CertifiedKey::new(chain, signer)))
}
