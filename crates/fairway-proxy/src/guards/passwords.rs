//! Verifies passwords on a few low-priority threads with a bounded queue; each worker remembers results for a while. Never
//! stores a password or anything from which one could be computed.
//!
//! Threads are started with the first password.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use fairway_model::BasicAuth;
use fairway_net::clock::Instant;
use fairway_password::{Hash, VerifyCost};
use tokio::sync::oneshot;

use crate::guards::queue::Queue;

/// Passwords that may wait for verification, of all workers and password files together.
const MAX_QUEUED_JOBS: usize = 64;
/// The number of verified passwords that a worker remembers.
const REMEMBERED_SLOTS: usize = 1024;
/// How long it remembers them.
const REMEMBER_TIME: Duration = Duration::from_secs(300);
/// The maximum length of a password, in bytes: longer ones are expensive to verify, and not typed by people.
const MAX_PASSWORD_BYTES: usize = 1024;
/// Users that are searched for one whose hash is slow, for the check of a user who does not exist.
const MAX_SEARCHED_USERS: usize = 16;
/// The niceness of the threads (`nice`).
const NICENESS: i32 = 10;

/// The user name and password of a request (RFC 7617 §2).
pub(crate) struct Claim {
    user: String,
    password: Vec<u8>,
}

/// The result of verifying a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PasswordVerdict {
    /// It is the user's password.
    Right,
    /// It is not, there is no such user, or the user's hash is unusable.
    Wrong,
    /// The queue is full.
    Overloaded,
}

/// The verification threads of all workers.
pub(crate) struct PasswordThreads {
    threads: usize,
    /// `None` if no thread could be started.
    jobs: OnceLock<Option<Arc<Queue<Job>>>>,
}

/// The password verification of a worker.
pub(crate) struct Passwords {
    pool: Arc<PasswordThreads>,
    key: hmac::Key,
    /// Allocated on first use.
    remembered: RefCell<Vec<Option<Remembered>>>,
}

/// A verified password. The tag is a keyed hash of user, password and stored hash.
#[derive(Clone, Copy)]
struct Remembered {
    tag: [u8; 16],
    until: Instant,
}

struct Job {
    password: Vec<u8>,
    hash: Arc<str>,
    reply: oneshot::Sender<bool>,
}

impl Claim {
    /// Reads the value of `Authorization`; `None` if it cannot be valid.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        const LENIENT: GeneralPurpose = GeneralPurpose::new(
            &base64::alphabet::STANDARD,
            GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
        );
        let (scheme, credentials) = value.split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let decoded = LENIENT.decode(credentials.trim_ascii()).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
        let password = decoded[colon + 1..].to_vec();
        (password.len() <= MAX_PASSWORD_BYTES).then_some(Self { user, password })
    }
}

impl PasswordThreads {
    /// One thread for every two workers; none is started yet.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { threads: (workers / 2).max(1), jobs: OnceLock::new() })
    }

    /// Queues a job for a password file, unless the file has used its share of the queue or there is no thread.
    fn submit(&self, policy: &Arc<str>, job: Job) -> bool {
        let jobs = self.jobs.get_or_init(|| start_threads(self.threads));
        jobs.as_ref().is_some_and(|jobs| jobs.push(policy, job).is_ok())
    }
}

impl Drop for PasswordThreads {
    fn drop(&mut self) {
        if let Some(Some(jobs)) = self.jobs.get() {
            jobs.close();
        }
    }
}

/// Starts the threads; `None` if none can be started.
fn start_threads(threads: usize) -> Option<Arc<Queue<Job>>> {
    let jobs = Arc::new(Queue::new(MAX_QUEUED_JOBS));
    let started = (0..threads).filter(|index| {
        let jobs = Arc::clone(&jobs);
        let builder = std::thread::Builder::new().name(format!("password-{index}"));
        builder.spawn(move || verify_jobs(&jobs)).is_ok()
    });
    (started.count() > 0).then_some(jobs)
}

/// Runs jobs until every worker is gone.
fn verify_jobs(jobs: &Queue<Job>) {
    // If this fails, verification only gets a full share of the processor.
    _ = rustix::process::nice(NICENESS);
    while let Some(Job { password, hash, reply }) = jobs.next() {
        // The request may have ended.
        if !reply.is_closed() {
            let fits =
                std::panic::catch_unwind(|| Hash::read(&hash).is_ok_and(|hash| hash.verify(&password)));
            _ = reply.send(fits.unwrap_or(false));
        }
    }
}

impl Passwords {
    /// The verification of a worker, without remembered passwords.
    pub(crate) fn new(pool: Arc<PasswordThreads>) -> Self {
        let key = hmac::Key::generate(HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new())
            .expect("the system gives random bytes, without which there is no TLS either");
        Self { pool, key, remembered: RefCell::new(Vec::new()) }
    }

    /// Verifies a claim.
    pub(crate) async fn verify(&self, basic: &BasicAuth, claim: Claim) -> PasswordVerdict {
        let Claim { user, password } = claim;
        let Some(hash) = basic.users.hash(&user) else {
            return self.verify_decoy(basic, password).await;
        };
        match Hash::read(hash).map(|read| (read.cost(), read)) {
            Err(_) => return PasswordVerdict::Wrong,
            Ok((VerifyCost::Nothing, read)) => {
                return if read.verify(&password) { PasswordVerdict::Right } else { PasswordVerdict::Wrong };
            }
            Ok((VerifyCost::Slow, _)) => {}
        }
        let tag = self.tag(basic, &user, hash, &password);
        if self.remembers(&tag) {
            return PasswordVerdict::Right;
        }
        let word = self.verify_on_threads(basic, password, hash).await;
        if word == PasswordVerdict::Right {
            self.remember(tag);
        }
        word
    }

    /// Takes as long for an unknown user as for a known one, so that timing does not reveal who is a user.
    async fn verify_decoy(&self, basic: &BasicAuth, password: Vec<u8>) -> PasswordVerdict {
        let slow = |hash: &&Arc<str>| Hash::read(hash).is_ok_and(|hash| hash.cost() == VerifyCost::Slow);
        let somebody = basic.users.iter().map(|(_, hash)| hash).take(MAX_SEARCHED_USERS).find(slow);
        match somebody {
            Some(hash)
                if self.verify_on_threads(basic, password, hash).await == PasswordVerdict::Overloaded =>
            {
                PasswordVerdict::Overloaded
            }
            _ => PasswordVerdict::Wrong,
        }
    }

    async fn verify_on_threads(
        &self,
        basic: &BasicAuth,
        password: Vec<u8>,
        hash: &Arc<str>,
    ) -> PasswordVerdict {
        let (reply, response) = oneshot::channel();
        if !self.pool.submit(&basic.policy, Job { password, hash: Arc::clone(hash), reply }) {
            return PasswordVerdict::Overloaded;
        }
        match response.await {
            Ok(true) => PasswordVerdict::Right,
            Ok(false) => PasswordVerdict::Wrong,
            Err(_) => PasswordVerdict::Overloaded,
        }
    }

    fn tag(&self, basic: &BasicAuth, user: &str, hash: &str, password: &[u8]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [basic.policy.as_bytes(), user.as_bytes(), hash.as_bytes(), password] {
            // With their lengths, no two lists of parts are the same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut tag = [0; 16];
        tag.copy_from_slice(&context.sign().as_ref()[..16]);
        tag
    }

    fn remembers(&self, tag: &[u8; 16]) -> bool {
        let remembered = self.remembered.borrow();
        let found = remembered.get(slot_of(tag)).copied().flatten();
        let is_it = |it: &Remembered| aws_lc_rs::constant_time::verify_slices_are_equal(&it.tag, tag).is_ok();
        found.is_some_and(|it| is_it(&it) && Instant::now() < it.until)
    }

    /// Replaces another one in the same slot.
    fn remember(&self, tag: [u8; 16]) {
        let mut remembered = self.remembered.borrow_mut();
        remembered.resize(REMEMBERED_SLOTS, None);
        remembered[slot_of(&tag)] = Some(Remembered { tag, until: Instant::now() + REMEMBER_TIME });
    }
}

fn slot_of(tag: &[u8; 16]) -> usize {
    usize::from(u16::from_be_bytes([tag[0], tag[1]])) % REMEMBERED_SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_a_name_and_a_password_that_may_have_colons() {
        let read = |value: &str| Claim::read(value.as_bytes()).map(|it| (it.user, it.password));
        assert_eq!(read("Basic dXNlcjpzZWNyZXQ="), Some(("user".to_owned(), b"secret".to_vec())));
        assert_eq!(read("basic  dXNlcjpzZWNyZXQ"), Some(("user".to_owned(), b"secret".to_vec())));
        assert_eq!(read("Basic YTpiOmM="), Some(("a".to_owned(), b"b:c".to_vec())));
        for wrong in ["", "Basic", "Bearer dXNlcjpzZWNyZXQ=", "Basic ****", "Basic dXNlcg==", "Basic /zph"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
        let long =
            base64::engine::general_purpose::STANDARD.encode([b"u:".to_vec(), vec![b'x'; 1025]].concat());
        assert_eq!(read(&format!("Basic {long}")), None);
    }
}
