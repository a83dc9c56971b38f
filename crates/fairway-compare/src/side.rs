//! One of the two controllers: how it is reached, how fast it is asked, and when it is given up. Compares nothing.

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
use crate::answer::{self, Answer};
use crate::client::{self, Connection, Dialer, Failure, Shown};
use crate::probe::{Ask, Probe, Purpose, Scheme};
use crate::stop::Stop;

/// So many probes in a row without an answer in time, and a controller is given up, if a host that answered at first does not, too.
const MOST_LATE: u32 = 10;

/// A controller as the command line names it.
#[derive(Clone, Debug)]
pub struct Target {
    /// The flag, for messages.
    pub flag: &'static str,
    /// Where it is.
    pub address: Address,
}

/// A controller that cannot be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable(String);

/// A controller that answered once.
pub(crate) struct Side {
    target: Target,
    addresses: BTreeMap<Scheme, SocketAddr>,
    /// Something that was answered at first.
    answered: Option<Probe>,
    dialer: Dialer,
    patience: Duration,
    pace: Pace,
    late: Mutex<u32>,
    /// Names with a certificate that clients do not trust, and why.
    untrusted: Mutex<BTreeMap<Arc<str>, String>>,
    stop: Stop,
}

/// What became of a probe.
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    /// Whether there was no answer in time.
    pub(crate) is_late: bool,
}

/// How a side is asked.
#[derive(Clone, Debug)]
pub(crate) struct Manner {
    pub(crate) rate: u32,
    pub(crate) patience: Duration,
    pub(crate) roots: Arc<RootCertStore>,
    pub(crate) stop: Stop,
}

/// Connections of one worker.
#[derive(Default)]
pub(crate) struct Open {
    plain: Option<Connection>,
    secure: Option<(Arc<str>, Connection)>,
}

impl Side {
    /// Resolves the address and makes sure that what is there speaks HTTP, and TLS, at once.
    ///
    /// # Errors
    /// It does not.
    pub(crate) async fn open(
        target: &Target,
        first: &Arc<str>,
        schemes: Schemes,
        manner: &Manner,
    ) -> Result<Self, Unusable> {
        let mut side = Self {
            target: target.clone(),
            addresses: BTreeMap::new(),
            answered: None,
            dialer: Dialer::new(manner.patience, Arc::clone(&manner.roots)),
            patience: manner.patience,
            pace: Pace::new(manner.rate),
            late: Mutex::new(0),
            untrusted: Mutex::default(),
            stop: manner.stop.clone(),
        };
        // Of a name with several addresses, both ports are those of one machine.
        let mut address = target.resolved(manner.patience).await?;
        for scheme in schemes.all() {
            address.set_port(target.address.port(scheme));
            side.addresses.insert(scheme, address);
            let probe = Probe::request(scheme, first, Ask::Get, "/", Purpose::Path);
            if let Err(failure) = side.once(&mut Open::default(), &probe).await {
                return Err(target.unusable(scheme, &failure));
            }
            side.answered = Some(probe);
        }
        Ok(side)
    }

    /// Asks, after its turn has come; what fails is an answer, too. `None` when the comparison stops.
    pub(crate) async fn ask(&self, open: &mut Open, probe: &Probe) -> Option<Outcome> {
        let asked = async {
            self.pace.turn().await;
            let outcome = self.once(open, probe).await;
            let is_late = matches!(outcome, Err(Failure::Late(_)));
            if self.has_enough_of(is_late) {
                self.give_up_unless_it_answers().await;
            }
            let answer = outcome.unwrap_or_else(|failure| answer::without(&failure.to_string()));
            Outcome { answer, is_late }
        };
        tokio::select! {
            biased;
            () = self.stop.wait() => None,
            outcome = asked => Some(outcome),
        }
    }

    /// Counts what is late in a row.
    fn has_enough_of(&self, is_late: bool) -> bool {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        *late = if is_late { *late + 1 } else { 0 };
        let enough = *late >= MOST_LATE;
        if enough {
            *late = 0;
        }
        enough
    }

    /// Many backends may be slow, and the controller is not.
    async fn give_up_unless_it_answers(&self) {
        let Some(probe) = &self.answered else { return };
        if self.once(&mut Open::default(), probe).await.is_err() {
            let (target, patience) = (&self.target, self.patience.as_secs_f64());
            self.stop
                .because(format!("{target} did not answer {MOST_LATE} probes in a row within {patience} s"));
        }
    }

    /// Whether the comparison goes on.
    pub(crate) fn goes_on(&self) -> bool {
        self.stop.why().is_none()
    }

    async fn once(&self, open: &mut Open, probe: &Probe) -> Result<Answer, Failure> {
        loop {
            let connection = self.connection(open, probe).await?;
            if probe.ask == Ask::Handshake {
                let shown = connection.certificate().cloned();
                self.note(&probe.host, shown.as_ref());
                return Ok(client::handshake(shown.as_ref()));
            }
            let was_used = connection.is_used();
            let outcome = connection.ask(probe, self.patience).await;
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    open.close(probe.scheme);
                    // A kept connection may end just when it is used again (RFC 9112 §9.3.1).
                    if !(was_used && failure == Failure::Closed) {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// A connection for the probe: the one that is open, or a new one. A handshake is always a new one.
    async fn connection<'o>(&self, open: &'o mut Open, probe: &Probe) -> Result<&'o mut Connection, Failure> {
        let address =
            *self.addresses.get(&probe.scheme).ok_or_else(|| Failure::Connect("no address".to_owned()))?;
        match probe.scheme {
            Scheme::Http => {
                let kept = match open.plain.take() {
                    Some(kept) => kept.if_usable().await,
                    None => None,
                };
                let connection = match kept {
                    Some(kept) => kept,
                    None => self.dialer.plain(address).await?,
                };
                Ok(open.plain.insert(connection))
            }
            Scheme::Https => {
                let fits = |host: &Arc<str>| *host == probe.host && probe.ask != Ask::Handshake;
                let kept = match open.secure.take() {
                    Some((host, kept)) if fits(&host) => kept.if_usable().await,
                    _ => None,
                };
                let connection = match kept {
                    Some(kept) => kept,
                    None => self.dialer.secure(address, &probe.host).await?,
                };
                Ok(&mut open.secure.insert((Arc::clone(&probe.host), connection)).1)
            }
        }
    }

    fn note(&self, host: &Arc<str>, shown: Option<&Shown>) {
        if let Some(flaw) = shown.and_then(|shown| shown.flaw.clone()) {
            let mut untrusted = self.untrusted.lock().unwrap_or_else(PoisonError::into_inner);
            untrusted.insert(Arc::clone(host), flaw);
        }
    }

    /// A sentence on certificates that clients do not trust; `None` where all are.
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

impl Open {
    fn close(&mut self, scheme: Scheme) {
        match scheme {
            Scheme::Http => self.plain = None,
            Scheme::Https => self.secure = None,
        }
    }
}

impl Target {
    /// The first of its addresses, without a port.
    async fn resolved(&self, patience: Duration) -> Result<SocketAddr, Unusable> {
        let place = (self.address.host.as_str(), 0);
        let found = timeout(patience, tokio::net::lookup_host(place)).await;
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
            Failure::Connect(_) => "; --only leaves one of the two ports out",
            Failure::Handshake(_) | Failure::NotHttp => "; is this the port of an ingress controller?",
            Failure::Closed | Failure::Late(_) => "",
        };
        Unusable(format!("{self}: port {port} cannot be asked with {name}: {failure}{hint}"))
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

/// Turns, evenly spread: whoever is late makes no other one earlier.
struct Pace {
    every: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    fn new(rate: u32) -> Self {
        Self { every: Duration::from_secs(1) / rate.max(1), next: Mutex::new(Instant::now()) }
    }

    async fn turn(&self) {
        let at = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let at = (*next).max(Instant::now());
            *next = at + self.every;
            at
        };
        sleep_until(at).await;
    }
}

/// The authorities that clients trust: those of a PEM file, else those of the system.
///
/// # Errors
/// The file holds none.
pub fn system_roots(file: Option<&[u8]>) -> Result<RootCertStore, Unusable> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(pem) => {
            let certificates = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
            let (good, _) = roots.add_parsable_certificates(certificates);
            if good == 0 {
                return Err(Unusable("holds no certificate of an authority in PEM".to_owned()));
            }
        }
        None => {
            // Without any, no certificate is trusted, on either side.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_evenly_spread_and_never_come_together() {
        let pace = Pace::new(100);
        let began = Instant::now();
        for _ in 0..50 {
            pace.turn().await;
        }
        assert!((490..=550).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let late = Instant::now();
        pace.turn().await;
        pace.turn().await;
        assert!(late.elapsed() >= Duration::from_millis(10), "{:?}", late.elapsed());
    }

    #[test]
    fn a_file_without_authorities_is_refused() {
        assert!(system_roots(Some(b"nothing")).unwrap_err().to_string().contains("no certificate"));
    }
}
