//! The last good configuration on disk: written behind the publications, read once at a start without an answer from
//! the API. The file holds private keys and hashes of
//! passwords, and is for its owner only.
//!
//! A disk that is full or gone costs the memory of a restart and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fairway_model::{Certificate, CertificateKey, Config, PrivateKey};
use fairway_objects::issued::issued;
use serde::{Deserialize, Serialize};

use crate::secrets::GuardSecrets;
use crate::{digest, first_format};

/// The name of the file.
const FILE: &str = "configuration.json";
/// What the file is; another number is another program's. [`first_format`] reads files of the first one.
const FORMAT: u32 = 2;
/// The rest between two writes: under a storm of changes the disk sees few of them.
const REST: Duration = Duration::from_secs(2);

/// Keeps the latest configuration on disk, on a thread of its own.
#[derive(Clone, Debug)]
pub struct Keeper(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    latest: Mutex<Option<Config>>,
    changed: Condvar,
}

/// What the file holds beside the configuration, which never tells keys.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u32,
    /// Of the configuration as it is here. The file holds the secrets themselves; this tells damage, and is never shown.
    digest: String,
    config: Config,
    identities: Vec<Identity>,
    #[serde(flatten)]
    secrets: GuardSecrets,
}

/// The first that is read of a file.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct Identity {
    certificate: CertificateKey,
    chain: Vec<Vec<u8>>,
    private_key: Vec<u8>,
}

/// Why a kept configuration cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// It is not what was written.
    #[error("{0} is damaged or of another version ({1}); it is not served")]
    Damaged(PathBuf, String),
}

impl Keeper {
    /// Starts the thread, once the directory is known to take a file.
    ///
    /// # Errors
    /// The directory cannot be made or written to, or no thread can be started.
    pub fn start(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let probe = directory.join(".probe");
        private(&probe)?;
        fs::remove_file(&probe)?;
        let shared = Arc::new(Shared { latest: Mutex::new(None), changed: Condvar::new() });
        let (theirs, directory) = (shared.clone(), directory.to_path_buf());
        thread::Builder::new().name("fairway-state".into()).spawn(move || theirs.run(&directory))?;
        Ok(Self(shared))
    }

    /// Keeps this configuration instead of the one before; returns at once.
    pub fn keep(&self, config: Config) {
        *self.0.lock() = Some(config);
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Config>> {
        // Only whole values are ever put in.
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, directory: &Path) {
        loop {
            let mut latest = self.lock();
            let config = loop {
                match latest.take() {
                    Some(latest) => break latest,
                    None => latest = self.changed.wait(latest).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(latest);
            if let Err(error) = write(directory, config) {
                tracing::warn!(
                    directory = %directory.display(), %error,
                    "--state-dir: the configuration cannot be kept; after a restart without the API an older one or none is served"
                );
            }
            thread::sleep(REST);
        }
    }
}

/// Replaces the file as a whole: a reader sees the old one or the new one.
fn write(directory: &Path, config: Config) -> io::Result<()> {
    let digest = digest::of_config(&config).to_string();
    let identities = config.certificates.values().map(|certificate| Identity {
        certificate: certificate.key.clone(),
        chain: certificate.chain.iter().map(|der| der.to_vec()).collect(),
        private_key: certificate.private_key.der().to_vec(),
    });
    let identities = identities.collect();
    let secrets = GuardSecrets::of(&config);
    let stored = Stored { format: FORMAT, digest, config, identities, secrets };
    let born = directory.join(".configuration.json.new");
    let mut file = BufWriter::new(private(&born)?);
    serde_json::to_writer(&mut file, &stored)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&born, directory.join(FILE))
}

/// Makes an empty file that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    // One that was left behind may have been readable.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.flush()?;
    Ok(file)
}

/// The configuration that was kept last; `None` when there is none.
///
/// # Errors
/// It cannot be read, or is not what was written.
pub fn load(directory: &Path) -> Result<Option<Config>, StateError> {
    let path = directory.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StateError::Unreadable(path, error)),
    };
    let damaged = |why: String| StateError::Damaged(path.clone(), why);
    let Format { format } = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let stored = match format {
        FORMAT => serde_json::from_slice(&bytes),
        1 => serde_json::from_value(first_format::upgraded(&bytes).map_err(damaged)?),
        other => return Err(damaged(format!("format {other}"))),
    };
    let stored: Stored = stored.map_err(|error| damaged(error.to_string()))?;
    let mut config = stored.config;
    for identity in stored.identities {
        let Some(certificate) = config.certificates.get(&identity.certificate) else { continue };
        let whole = Certificate {
            issued: identity.chain.first().and_then(|der| issued(der)).unwrap_or_default().into(),
            chain: identity.chain.into_iter().map(Arc::from).collect(),
            private_key: PrivateKey::from_der(&identity.private_key),
            ..Certificate::clone(certificate)
        };
        config.certificates.insert(identity.certificate, Arc::new(whole));
    }
    stored.secrets.restore(&mut config);
    let digest = match format {
        1 => first_format::digest(config.clone(), &bytes).map_err(damaged)?,
        _ => digest::of_config(&config),
    };
    if digest.to_string() != stored.digest {
        return Err(damaged("its content has another digest".to_owned()));
    }
    Ok(Some(config))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use fairway_model::{
        Action, Answer, AnswerReason, AnyGuard, ApiKeyAuth, ApiKeys, BasicAuth, Guard, HostKey, HostPattern,
        Origin, PathForm, Phases, Route, Rule, RuleLabels, RuleOrder, SessionTickets, TicketSecret, Users,
        VirtualHost,
    };

    use super::*;

    fn config() -> Config {
        let key = CertificateKey("a/tls".into());
        let certificate = Certificate {
            key: key.clone(),
            origin: Origin::object("Secret", "a", "tls"),
            chain: vec![Arc::from(&b"chain"[..])],
            private_key: PrivateKey::from_der(b"key"),
            names: vec!["a.test".into()],
            not_after: 7,
            issued: Arc::default(),
        };
        let certificates = [(key, Arc::new(certificate))].into_iter().collect();
        Config {
            certificates,
            hosts: [(guarded().key, Arc::new(guarded()))].into_iter().collect(),
            ..Config::default()
        }
    }

    /// A host with passwords and API keys, alone and among several guards of which one is enough.
    fn guarded() -> VirtualHost {
        let basic = |policy: &str| BasicAuth {
            policy: policy.into(),
            realm: "".into(),
            users: Users::new([("alice".into(), Arc::from(format!("{{PLAIN}}{policy}")))]),
        };
        let api_key = |policy: &str, digest| {
            Arc::new(ApiKeyAuth {
                policy: policy.into(),
                locations: Vec::new(),
                client_header: None,
                keys: ApiKeys::new([([digest; 32], "billing".into())]),
            })
        };
        let any =
            AnyGuard { basic: Some(basic("two")), api_key: Some(api_key("b", 2)), ..AnyGuard::default() };
        let guards =
            vec![Guard::BasicAuth(basic("one")), Guard::ApiKey(api_key("a", 1)), Guard::Any(Box::new(any))];
        let rule = Rule {
            origin: Origin::default(),
            matches: Vec::new(),
            phases: Phases { guards, ..Phases::default() }.kept(),
            action: Action::Answer(Answer { status: 404, reason: AnswerReason::NoRoute }),
            policy: Arc::default(),
            labels: RuleLabels::default(),
        };
        let route = Route { origin: Origin::default(), created: None, hostname_rank: 0, rules: vec![rule] };
        VirtualHost {
            key: HostKey { table: "t".into(), host: HostPattern::Any },
            order: RuleOrder::Listed,
            path_form: PathForm::Decoded,
            routes: vec![Arc::new(route)],
            certificate: None,
            clients: None,
            suites: None,
            falls_through: false,
        }
    }

    #[test]
    fn what_was_kept_is_loaded_with_its_keys() {
        let directory = tempfile::tempdir().unwrap();
        assert!(load(directory.path()).unwrap().is_none());
        write(directory.path(), config()).unwrap();
        assert_eq!(load(directory.path()).unwrap().unwrap(), config());
    }

    #[test]
    fn the_ticket_key_of_an_operator_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut with_key = config();
        let secret = TicketSecret::new(vec![77; 80]);
        with_key.settings.tickets = SessionTickets::Fixed { secret };
        write(directory.path(), with_key).unwrap();
        let text = fs::read_to_string(directory.path().join(FILE)).unwrap();
        assert!(!text.contains("77,77") && !text.contains("MMMM"), "{text}");
        let mut without = config();
        without.settings.tickets = SessionTickets::Fixed { secret: TicketSecret::default() };
        assert_eq!(load(directory.path()).unwrap().unwrap(), without);
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), config()).unwrap();
        let mode = fs::metadata(directory.path().join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_refused_and_says_so() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), config()).unwrap();
        let path = directory.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        for damaged in [
            &text[..text.len() / 2],
            &text.replace("a.test", "b.test"),
            &text.replace("\"format\":2", "\"format\":9"),
        ] {
            fs::write(&path, damaged).unwrap();
            let error = load(directory.path()).unwrap_err().to_string();
            assert!(error.contains("configuration.json") && error.contains("not served"), "{error}");
        }
    }

    /// What a version with each format has kept of the same manifests, which use nearly all that rules can do.
    const KEPT: [&str; 2] =
        [include_str!("../tests/kept/state-1.json"), include_str!("../tests/kept/state-2.json")];

    fn load_text(text: &str) -> Result<Option<Config>, StateError> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE), text).unwrap();
        load(directory.path())
    }

    #[test]
    fn what_earlier_versions_have_kept_is_read_and_means_the_same() {
        let [first, second] = KEPT.map(|text| load_text(text).unwrap().unwrap());
        assert!(first.hosts.len() > 60);
        assert_eq!(first, second);
    }

    #[test]
    fn a_file_of_the_first_format_is_served_as_a_whole_or_not_at_all() {
        let [first, _] = KEPT;
        for (damaged, why) in [
            (first[..first.len() / 2].to_owned(), "EOF"),
            (
                first.replace("\"Unlogged\"", "\"Unheard\""),
                "a rule has the filter Unheard, which is not known",
            ),
            (first.replace("\"numerator\":1,", "\"numerator\":2,"), "another digest"),
            (first.replace("\"format\":1", "\"format\":2"), "another digest"),
            (first.replace("\"format\":1", "\"format\":3"), "format 3"),
        ] {
            assert_ne!(damaged, *first);
            let error = load_text(&damaged).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("not served"), "{error}");
        }
    }

    #[test]
    fn the_thread_keeps_the_latest() {
        let directory = tempfile::tempdir().unwrap();
        let keeper = Keeper::start(&directory.path().join("new")).unwrap();
        keeper.keep(config());
        let started = std::time::Instant::now();
        while !matches!(load(&directory.path().join("new")), Ok(Some(_))) {
            assert!(started.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }
}
