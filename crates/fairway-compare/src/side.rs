//! One of the two controllers: its connections, the rate of the probes, and when to give up.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::time::{Instant, sleep_until, timeout};

use crate::address::{Address, Schemes};
use crate::client::{self, Connection, Dialer, Failure, PresentedCertificate};
use crate::probe::{Probe, ProbeKind, Purpose, Scheme};
use crate::response::{self, ResponseParts};
use crate::stop::Stop;

/// Number of consecutive late probes after which a controller is given up, if a probe that was answered at first is late too.
const MAX_LATE_PROBES: u32 = 10;

/// A controller from the command line.
#[derive(Clone, Debug)]
pub struct Target {
    /// The flag, for messages.
    pub flag: &'static str,
    /// The address.
    pub address: Address,
}

/// Why a controller cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

/// A controller that has responded.
pub(crate) struct Side {
    target: Target,
    addresses: BTreeMap<Scheme, SocketAddr>,
    /// A probe that was answered at first.
    first_probe: Option<Probe>,
    dialer: Dialer,
    step_timeout: Duration,
    pace: Pace,
    late: Mutex<u32>,
    /// Hosts with an untrusted certificate, and why it is not trusted.
    untrusted: Mutex<BTreeMap<Arc<str>, String>>,
    stop: Stop,
}

/// The outcome of a probe.
pub(crate) struct ProbeOutcome {
    pub(crate) response: ResponseParts,
    /// Whether there was no response in time.
    pub(crate) is_late: bool,
}

/// The options for a side.
#[derive(Clone, Debug)]
pub(crate) struct SideOptions {
    pub(crate) rate: u32,
    pub(crate) step_timeout: Duration,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) stop: Stop,
}

/// Connections of one worker.
#[derive(Default)]
pub(crate) struct OpenConnections {
    plain: Option<Connection>,
    secure: Option<(Arc<str>, Connection)>,
}

impl Side {
    /// Resolves the address and checks that the peer speaks HTTP and TLS.
    ///
    /// # Errors
    /// The address cannot be resolved, or the peer does not.
    pub(crate) async fn open(
        target: &Target,
        first: &Arc<str>,
        schemes: Schemes,
        options: &SideOptions,
    ) -> Result<Self, Unusable> {
        let mut side = Self {
            target: target.clone(),
            addresses: BTreeMap::new(),
            first_probe: None,
            dialer: Dialer::new(options.step_timeout, Arc::clone(&options.roots)),
            step_timeout: options.step_timeout,
            pace: Pace::new(options.rate),
            late: Mutex::new(0),
            untrusted: Mutex::default(),
            stop: options.stop.clone(),
        };
        // If a name has several addresses, use the same one for both ports.
        let mut address = target.resolved(options.step_timeout).await?;
        for scheme in schemes.all() {
            address.set_port(target.address.port(scheme));
            side.addresses.insert(scheme, address);
            let probe = Probe::request(scheme, first, ProbeKind::Get, "/", Purpose::Path);
            if let Err(failure) = side.try_send(&mut OpenConnections::default(), &probe).await {
                return Err(target.unusable(scheme, &failure));
            }
            side.first_probe = Some(probe);
        }
        Ok(side)
    }

    /// Sends a probe at the configured rate. A failure is an outcome too. `None` if the comparison stops.
    pub(crate) async fn send_probe(&self, open: &mut OpenConnections, probe: &Probe) -> Option<ProbeOutcome> {
        let probing = async {
            self.pace.wait_turn().await;
            let outcome = self.try_send(open, probe).await;
            let is_late = matches!(outcome, Err(Failure::Late(_)));
            if self.count_late(is_late) {
                self.give_up_unless_it_answers().await;
            }
            let reply = outcome.unwrap_or_else(|failure| response::failure_parts(&failure.to_string()));
            ProbeOutcome { response: reply, is_late }
        };
        tokio::select! {
            biased;
            () = self.stop.wait() => None,
            outcome = probing => Some(outcome),
        }
    }

    /// Counts consecutive late probes. Returns whether there were too many.
    fn count_late(&self, is_late: bool) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        *late = if is_late { *late + 1 } else { 0 };
        let enough = *late >= MAX_LATE_PROBES;
        if enough {
            *late = 0;
        }
        enough
    }

    /// Late probes may be due to slow backends, so check the controller itself before giving up.
    async fn give_up_unless_it_answers(&self) {
        let Some(probe) = &self.first_probe else { return };
        if self.try_send(&mut OpenConnections::default(), probe).await.is_err() {
            let (target, step_timeout) = (&self.target, self.step_timeout.as_secs_f64());
            self.stop.because(format!(
                "{target} did not respond to {MAX_LATE_PROBES} probes in a row within {step_timeout} s"
            ));
        }
    }

    /// Whether the comparison continues.
    pub(crate) fn may_continue(&self) -> bool {
        self.stop.reason().is_none()
    }

    async fn try_send(&self, open: &mut OpenConnections, probe: &Probe) -> Result<ResponseParts, Failure> {
        loop {
            let connection = self.connection(open, probe).await?;
            if probe.kind == ProbeKind::Handshake {
                let shown = connection.certificate().cloned();
                self.record_certificate(&probe.host, shown.as_ref());
                return Ok(client::handshake(shown.as_ref()));
            }
            let was_used = connection.is_used();
            let outcome = connection.send(probe, self.step_timeout).await;
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    open.close(probe.scheme);
                    // The server may close an idle connection while it is being reused (RFC 9112 §9.3.1).
                    if !(was_used && failure == Failure::Closed) {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// A connection for the probe: the open one or a new one. A handshake always gets a new one.
    async fn connection<'o>(
        &self,
        open: &'o mut OpenConnections,
        probe: &Probe,
    ) -> Result<&'o mut Connection, Failure> {
        let address =
            *self.addresses.get(&probe.scheme).ok_or_else(|| Failure::Connect("no address".to_owned()))?;
        match probe.scheme {
            Scheme::Http => {
                let pooled = match open.plain.take() {
                    Some(kept) => kept.if_usable().await,
                    None => None,
                };
                let connection = match pooled {
                    Some(kept) => kept,
                    None => self.dialer.plain(address).await?,
                };
                Ok(open.plain.insert(connection))
            }
            Scheme::Https => {
                let fits = |host: &Arc<str>| *host == probe.host && probe.kind != ProbeKind::Handshake;
                let pooled = match open.secure.take() {
                    Some((host, kept)) if fits(&host) => kept.if_usable().await,
                    _ => None,
                };
                let connection = match pooled {
                    Some(kept) => kept,
                    None => self.dialer.secure(address, &probe.host).await?,
                };
                Ok(&mut open.secure.insert((Arc::clone(&probe.host), connection)).1)
            }
        }
    }

    fn record_certificate(&self, host: &Arc<str>, shown: Option<&PresentedCertificate>) {
        if let Some(flaw) = shown.and_then(|shown| shown.flaw.clone()) {
            let mut untrusted = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
            untrusted.insert(Arc::clone(host), flaw);
        }
    }

    /// A note on untrusted certificates; `None` if all are trusted.
    pub(crate) fn untrusted(&self) -> Option<String> {
        let untrusted = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
        let (host, flaw) = untrusted.first_key_value()?;
        let names = if untrusted.len() == 1 { "name" } else { "names" };
        let (count, target) = (untrusted.len(), &self.target);
        Some(format!(
            "{target} shows a certificate that is not trusted for {count} {names}, as for {host}: {flaw}"
        ))
    }
}

impl OpenConnections {
    fn close(&mut self, scheme: Scheme) {
        match scheme {
            Scheme::Http => self.plain = None,
            Scheme::Https => self.secure = None,
        }
    }
}

impl Target {
    /// The first resolved address, without a port.
    async fn resolved(&self, step_timeout: Duration) -> Result<SocketAddr, Unusable> {
        let socket_name = (self.address.host.as_str(), 0);
        let found = timeout(step_timeout, tokio::net::lookup_host(socket_name)).await;
        let why = match found {
            Ok(Ok(mut addresses)) => match addresses.next() {
                Some(address) => return Ok(address),
                None => "has no address".to_owned(),
            },
            Ok(Err(error)) => format!("cannot be resolved: {error}"),
            Err(_) => "cannot be resolved in time".to_owned(),
        };
        Err(Unusable(format!("{self}: the name {why}")))
    }

    fn unusable(&self, scheme: Scheme, failure: &Failure) -> Unusable {
        let (port, name) = (self.address.port(scheme), scheme.as_str());
        let hint = match failure {
            Failure::Connect(_) => "; --only skips one of the two ports",
            Failure::Handshake(_) | Failure::NotHttp => "; is this the port of an ingress controller?",
            Failure::Closed | Failure::Late(_) => "",
        };
        Unusable(format!("{self}: port {port} cannot be probed with {name}: {failure}{hint}"))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.flag, self.address)
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unusable {}

/// Spaces probes evenly. A delayed probe does not make later ones come faster.
struct Pace {
    every: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { every: Duration::from_secs(1) / rate.max(1), next: Mutex::new(Instant::now()) }
    }

    async fn wait_turn(&self) {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*next).max(Instant::now());
            *next = at + self.every;
            at
        };
        sleep_until(at).await;
    }
}

/// The trusted CA certificates: those of a PEM file, otherwise those of the system.
///
/// # Errors
/// The file contains none.
pub fn system_roots(file: Option<&[u8]>) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(pem) => {
            let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
            let (good, _) = roots.add_parsable_certificates(certificates);
            if good == 0 {
                return Err(Unusable("contains no CA certificate in PEM".to_owned()));
            }
        }
        None => {
            // Without system certificates, no certificate is trusted on either side.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probes_are_spaced_evenly() {
        let pace = Pace::new(100);
        let began = Instant::now();
        for _ in 0..50 {
            pace.wait_turn().await;
        }
        assert!((490..=550).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let late = Instant::now();
        pace.wait_turn().await;
        pace.wait_turn().await;
        assert!(late.elapsed() >= Duration::from_millis(10), "{:?}", late.elapsed());
    }

    #[test]
    fn a_file_without_ca_certificates_is_refused() {
        assert!(system_roots(Some(b"nothing")).unwrap_err().to_string().contains("no CA certificate"));
    }
}
