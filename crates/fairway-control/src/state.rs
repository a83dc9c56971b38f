//! The last good configuration on disk: written after publications, read once if the API does not answer at start. The file
//! contains private keys and password hashes, and only its owner may read it.
//!
//! A full or missing disk costs only the ability to restart without the API.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fairway_model::{Certificate, CertificateKey, Config, PrivateKey};
use fairway_objects::certificate_issuer::issued;
use serde::{Deserialize, Serialize};

use crate::secrets::GuardSecrets;
use crate::{digest, first_format};

/// The name of the file.
const FILE_NAME: &str = "configuration.json";
/// The format version; other versions are not read. [`first_format`] reads files of version 1.
const FORMAT_VERSION: u32 = 2;
/// The minimum interval between writes: a storm of changes causes few of them.
const MIN_WRITE_INTERVAL: Duration = Duration::from_secs(2);

/// Keeps the latest configuration on disk, on its own thread.
#[derive(Clone, Debug)]
pub struct StateWriter(Arc<WriterShared>);

#[derive(Debug)]
struct WriterShared {
    latest: Mutex<Option<Config>>,
    changed: Condvar,
}

/// The file: the configuration, and the keys that its serialized form omits.
#[derive(Serialize, Deserialize)]
struct StoredConfig {
    format: u32,
    /// The digest of the configuration as stored here, secrets included. It detects damage and is never published.
    digest: String,
    config: Config,
    identities: Vec<StoredCertificate>,
    #[serde(flatten)]
    secrets: GuardSecrets,
}

/// The part that is read first.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct StoredCertificate {
    certificate: CertificateKey,
    chain: Vec<Vec<u8>>,
    private_key: Vec<u8>,
}

/// Why a stored configuration cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// The content is not what was written.
    #[error("{0} is damaged or of another version ({1}); it is not served")]
    Damaged(PathBuf, String),
}

impl StateWriter {
    /// Starts the thread, after checking that the directory is writable.
    ///
    /// # Errors
    /// The directory cannot be created or written, or the thread cannot be started.
    pub fn start(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        let probe = directory.join(".probe");
        create_private_file(&probe)?;
        fs::remove_file(&probe)?;
        let shared = Arc::new(WriterShared { latest: Mutex::new(None), changed: Condvar::new() });
        let (theirs, directory) = (shared.clone(), directory.to_path_buf());
        thread::Builder::new().name("fairway-state".into()).spawn(move || theirs.run(&directory))?;
        Ok(Self(shared))
    }

    /// Stores this configuration in place of the previous one; returns at once.
    pub fn store(&self, config: Config) {
        *self.0.lock() = Some(config);
        self.0.changed.notify_one();
    }
}

impl WriterShared {
    fn lock(&self) -> MutexGuard<'_, Option<Config>> {
        // Only complete values are stored.
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
                    "--state-dir: the configuration cannot be stored; after a restart without the API an older one or none is served"
                );
            }
            thread::sleep(MIN_WRITE_INTERVAL);
        }
    }
}

/// Replaces the file atomically: a reader sees the old or the new one.
fn write(directory: &Path, config: Config) -> io::Result<()> {
    let digest = digest::config_digest(&config).to_string();
    let identities = config.certificates.values().map(|certificate| StoredCertificate {
        certificate: certificate.key.clone(),
        chain: certificate.chain.iter().map(|der| der.to_vec()).collect(),
        private_key: certificate.private_key.der().to_vec(),
    });
    let identities = identities.collect();
    let secrets = GuardSecrets::from_config(&config);
    let stored = StoredConfig { format: FORMAT_VERSION, digest, config, identities, secrets };
    let born = directory.join(".configuration.json.new");
    let mut file = BufWriter::new(create_private_file(&born)?);
    serde_json::to_writer(&mut file, &stored)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&born, directory.join(FILE_NAME))
}

/// Creates an empty file that only its owner can read.
fn create_private_file(path: &Path) -> io::Result<File> {
    // A leftover file may have been readable by others.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.flush()?;
    Ok(file)
}

/// The stored configuration; `None` if there is none.
///
/// # Errors
/// The file cannot be read, or its content is not what was written.
pub fn load(directory: &Path) -> Result<Option<Config>, StateError> {
    let path = directory.join(FILE_NAME);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StateError::Unreadable(path, error)),
    };
    let damaged = |why: String| StateError::Damaged(path.clone(), why);
    let Format { format } = serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    let stored = match format {
        FORMAT_VERSION => serde_json::from_slice(&bytes),
        1 => serde_json::from_value(first_format::upgrade_file(&bytes).map_err(damaged)?),
        other => return Err(damaged(format!("format {other}"))),
    };
    let stored: StoredConfig = stored.map_err(|error| damaged(error.to_string()))?;
    let mut config = stored.config;
    for identity in stored.identities {
        let Some(certificate) = config.certificates.get(&identity.certificate) else { continue };
        let complete = Certificate {
            issued: identity.chain.first().and_then(|der| issued(der)).unwrap_or_default().into(),
            chain: identity.chain.into_iter().map(Arc::from).collect(),
            private_key: PrivateKey::from_der(&identity.private_key),
            ..Certificate::clone(certificate)
        };
        config.certificates.insert(identity.certificate, Arc::new(complete));
    }
    stored.secrets.restore(&mut config);
    let digest = match format {
        1 => first_format::digest(config.clone(), &bytes).map_err(damaged)?,
        _ => digest::config_digest(&config),
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
        Action, AnyGuard, ApiKeyAuth, ApiKeys, BasicAuth, FixedResponse, FixedResponseReason, Guard, HostKey,
        HostPattern, Origin, PathForm, Phases, Route, Rule, RuleLabels, RuleOrder, SessionTickets,
        TicketSecret, Users, VirtualHost,
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
            phases: Phases { guards, ..Phases::default() }.shared(),
            action: Action::FixedResponse(FixedResponse {
                status: 404,
                reason: FixedResponseReason::NoRoute,
            }),
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
    fn a_stored_configuration_is_loaded_with_its_keys() {
        let directory = tempfile::tempdir().unwrap();
        assert!(load(directory.path()).unwrap().is_none());
        write(directory.path(), config()).unwrap();
        assert_eq!(load(directory.path()).unwrap().unwrap(), config());
    }

    #[test]
    fn the_ticket_key_of_an_operator_is_not_stored() {
        let directory = tempfile::tempdir().unwrap();
        let mut with_key = config();
        let secret = TicketSecret::new(vec![77; 80]);
        with_key.settings.tickets = SessionTickets::Fixed { secret };
        write(directory.path(), with_key).unwrap();
        let text = fs::read_to_string(directory.path().join(FILE_NAME)).unwrap();
        assert!(!text.contains("77,77") && !text.contains("MMMM"), "{text}");
        let mut without = config();
        without.settings.tickets = SessionTickets::Fixed { secret: TicketSecret::default() };
        assert_eq!(load(directory.path()).unwrap().unwrap(), without);
    }

    #[test]
    fn only_the_owner_can_read_it() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), config()).unwrap();
        let mode = fs::metadata(directory.path().join(FILE_NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_damaged_file_is_refused_with_a_message() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), config()).unwrap();
        let path = directory.path().join(FILE_NAME);
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

    /// What each format stored for the same manifests, which use nearly every feature of rules.
    const STORED_FILES: [&str; 2] =
        [include_str!("../tests/kept/state-1.json"), include_str!("../tests/kept/state-2.json")];

    fn load_text(text: &str) -> Result<Option<Config>, StateError> {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join(FILE_NAME), text).unwrap();
        load(directory.path())
    }

    #[test]
    fn files_of_earlier_versions_are_read_with_the_same_meaning() {
        let [first, second] = STORED_FILES.map(|text| load_text(text).unwrap().unwrap());
        assert!(first.hosts.len() > 60);
        assert_eq!(first, second);
    }

    #[test]
    fn a_file_of_the_first_format_is_served_as_a_whole_or_not_at_all() {
        let [first, _] = STORED_FILES;
        for (damaged, why) in [
            (first[..first.len() / 2].to_owned(), "EOF"),
            (first.replace("\"Unlogged\"", "\"Unheard\""), "a rule has the unknown filter Unheard"),
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
    fn the_thread_stores_the_latest() {
        let directory = tempfile::tempdir().unwrap();
        let keeper = StateWriter::start(&directory.path().join("new")).unwrap();
        keeper.store(config());
        let started = std::time::Instant::now();
        while !matches!(load(&directory.path().join("new")), Ok(Some(_))) {
            assert!(started.elapsed() < Duration::from_secs(20));
            thread::sleep(Duration::from_millis(5));
        }
    }
}
