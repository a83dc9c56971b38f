//! Certificates ready for use, made from the configuration away from the workers.
//!
//! A certificate whose content did not change keeps its parsed form from snapshot to snapshot; all of them share the
//! ticket keys of the process, so that a session resumes on every worker and after every change.

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
use crate::tls::tickets::{Group, SessionTickets};

/// What clients may agree on (ALPN), the best first. As in nginx since 1.21.4, a client that offers only others is refused
/// (RFC 7301 §3.2): its connection may be meant for a server of another protocol.
const PROTOCOLS: [&str; 3] = ["h2", "http/1.1", "http/1.0"];

/// Tickets of TLS 1.3 after each handshake. A client uses each only once (RFC 8446 §C.4), and opens two connections at a time
/// more often than more.
const TICKETS: usize = 2;

/// A certificate and key that the caller made for clients that name no known host.
#[derive(Clone, Debug)]
pub struct SelfSigned {
    /// The chain in DER, the end-entity certificate first.
    pub chain: Vec<Vec<u8>>,
    /// The key in DER.
    pub private_key: Vec<u8>,
}

/// Why a certificate cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IdentityError {
    /// The key is of no kind that TLS here can use.
    #[error("the private key cannot be used: {0}")]
    Key(String),
    /// The library refused the whole.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// What all certificates share.
#[derive(Clone)]
pub(crate) struct ServerTls {
    provider: Arc<CryptoProvider>,
    tickets: SessionTickets,
    /// Those of clients that are asked for no certificate.
    unasked: Arc<dyn ProducesTickets>,
    fallback: Arc<CertifiedKey>,
    stapling: Stapling,
}

/// The certificates of one snapshot.
#[derive(Clone)]
pub(crate) struct Identities {
    sources: OrdMap<CertificateKey, Arc<Certificate>>,
    by_key: OrdMap<CertificateKey, Arc<Identity>>,
    fallback: Arc<ServerConfig>,
    default: Arc<ServerConfig>,
    /// What clients may speak.
    spoken: Spoken,
    tickets: SessionTickets,
}

/// What of TLS is the same for all certificates.
#[derive(Clone)]
struct Spoken {
    versions: TlsVersions,
    key_exchange: Vec<KeyExchange>,
    /// With these groups.
    provider: Arc<CryptoProvider>,
    staples: bool,
}

struct Identity {
    server: Arc<ServerConfig>,
    certified: Arc<CertifiedKey>,
}

impl ServerTls {
    /// With `fallback` for clients that name no host with a certificate, where the configuration has no default.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub(crate) fn new(fallback: &SelfSigned, tickets: SessionTickets) -> Result<Self, IdentityError> {
        let provider = Arc::new(suites::provider(&[]));
        let unasked = tickets.of_group(Group::UNASKED);
        let fallback = certified(&provider, fallback.chain.iter().map(Vec::as_slice), &fallback.private_key)?;
        let tls = Self { provider, tickets, unasked, fallback, stapling: Stapling::default() };
        // What holds for one choice of versions and groups holds for all.
        tls.server_config(alone(&tls.fallback), &tls.spoken(&DownstreamSettings::default()))?;
        Ok(tls)
    }

    /// The same, with OCSP responses where the configuration asks for them.
    pub(crate) fn with_stapling(self, stapling: Stapling) -> Self {
        Self { stapling, ..self }
    }

    /// The certificates of `config`. One that cannot be used is left out and reported; `previous` gives what did not
    /// change. With other versions of TLS than before, or groups, or stapling, all are made anew.
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
        let previous = previous.filter(|previous| previous.spoken.is_as(settings));
        let spoken = previous.map_or_else(|| self.spoken(settings), |previous| previous.spoken.clone());
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
            match self.identity(source, &spoken) {
                Ok(identity) => {
                    by_key.insert(key.clone(), Arc::new(identity));
                }
                Err(error) => problems.push((key.clone(), error)),
            }
        }
        let fallback = previous.map_or_else(
            || {
                let made = self.server_config(alone(&self.fallback), &spoken);
                made.expect("it was made when this began, and neither versions nor groups matter")
            },
            |known| Arc::clone(&known.fallback),
        );
        let chosen = config.default_certificate.as_ref().and_then(|key| by_key.get(key));
        let default = Arc::clone(chosen.map_or(&fallback, |identity| &identity.server));
        let (sources, tickets) = (config.certificates.clone(), self.tickets.clone());
        (Identities { sources, by_key, fallback, default, spoken, tickets }, problems)
    }

    fn spoken(&self, settings: &DownstreamSettings) -> Spoken {
        let kx_groups = suites::groups(&settings.key_exchange);
        Spoken {
            versions: settings.tls_versions,
            key_exchange: settings.key_exchange.clone(),
            provider: Arc::new(CryptoProvider { kx_groups, ..(*self.provider).clone() }),
            staples: settings.ocsp_stapling,
        }
    }

    fn identity(&self, source: &Arc<Certificate>, spoken: &Spoken) -> Result<Identity, IdentityError> {
        let chain = source.chain.iter().map(AsRef::as_ref);
        let certified = certified(&self.provider, chain, source.private_key.der())?;
        let stapled = if spoken.staples { self.stapling.staple(&source.key, &certified) } else { None };
        let resolver: Arc<dyn ResolvesServerCert> = match stapled {
            Some(staple) => staple,
            None => alone(&certified),
        };
        let server = self.server_config(resolver, spoken)?;
        Ok(Identity { server, certified })
    }

    fn server_config(
        &self,
        resolver: Arc<dyn ResolvesServerCert>,
        spoken: &Spoken,
    ) -> Result<Arc<ServerConfig>, IdentityError> {
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&spoken.provider))
            .with_protocol_versions(suites::versions(spoken.versions))?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = PROTOCOLS.map(|name| name.as_bytes().to_vec()).into();
        config.ticketer = Arc::clone(&self.unasked);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = TICKETS;
        Ok(Arc::new(config))
    }
}

impl Spoken {
    fn is_as(&self, settings: &DownstreamSettings) -> bool {
        self.versions == settings.tls_versions
            && self.key_exchange == settings.key_exchange
            && self.staples == settings.ocsp_stapling
    }
}

impl Identities {
    /// The settings for a host: its own certificate, else the default.
    #[must_use]
    pub(crate) fn server(&self, certificate: Option<&CertificateKey>) -> &Arc<ServerConfig> {
        certificate.and_then(|key| self.by_key.get(key)).map_or(&self.default, |identity| &identity.server)
    }

    /// The ticket keys of the process.
    #[must_use]
    pub(crate) fn tickets(&self) -> &SessionTickets {
        &self.tickets
    }

    /// The versions of TLS that clients may speak.
    #[must_use]
    pub(crate) fn versions(&self) -> TlsVersions {
        self.spoken.versions
    }

    /// Of several that can be used, the first that names exactly `name`, else the first with a wildcard for it, else the
    /// first.
    #[must_use]
    pub(crate) fn best<'k>(
        &self,
        certificates: &'k [CertificateKey],
        name: Option<&str>,
    ) -> Option<&'k CertificateKey> {
        let usable = || certificates.iter().filter(|key| self.by_key.contains_key(*key));
        let names = |key: &CertificateKey| self.sources.get(key).map_or(&[][..], |source| &source.names);
        let exact = |key: &&CertificateKey| names(key).iter().any(|of| name == Some(&**of));
        let wild =
            |key: &&CertificateKey| name.is_some_and(|name| names(key).iter().any(|of| is_for(of, name)));
        usable().find(exact).or_else(|| usable().find(wild)).or_else(|| usable().next())
    }

    /// A certificate to show to an endpoint.
    #[must_use]
    pub(crate) fn certified(&self, key: &CertificateKey) -> Option<&Arc<CertifiedKey>> {
        self.by_key.get(key).map(|identity| &identity.certified)
    }
}

/// Whether a certificate's name covers `name` (RFC 6125 §6.4.3).
fn is_for(of: &str, name: &str) -> bool {
    HostPattern::parse(of, WildcardSpan::OneLabel).is_ok_and(|pattern| pattern.covers(name))
}

/// Without OCSP responses.
fn alone(certified: &Arc<CertifiedKey>) -> Arc<dyn ResolvesServerCert> {
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
