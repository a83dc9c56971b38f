//! Passwords that clients claim to know: verified off the workers by a few threads of low priority with a bounded queue, and
//! remembered by each worker for a while. Never keeps a password or what could be computed back to one.
//!
//! Nothing is started before the first password is verified.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_lc_rs::hmac::{self, HMAC_SHA256};
use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use fairway_model::BasicAuth;
use fairway_net::clock::Instant;
use fairway_password::{Cost, Hash};
use tokio::sync::oneshot;

use crate::guards::queue::Queue;

/// Passwords that wait to be verified, of all workers and all password files together.
const QUEUE: usize = 64;
/// How many verified passwords a worker remembers.
const REMEMBERED: usize = 1024;
/// How long it does.
const MEMORY: Duration = Duration::from_secs(300);
/// The longest password that is looked at: a longer one costs a multiple, and nobody types it.
const LONGEST: usize = 1024;
/// Among how many users one is looked for whose password takes as long as that of a user who does not exist.
const SEARCHED: usize = 16;
/// How much less urgent verifying is than serving (`nice`).
const NICENESS: i32 = 10;

/// What a client claims: its name and its password (RFC 7617 §2).
pub(crate) struct Claim {
    user: String,
    password: Vec<u8>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// It is the user's password.
    Right,
    /// It is not, or there is no such user, or nobody can tell from what is known of the user's password.
    Wrong,
    /// Too many others wait to be verified.
    None,
}

/// The threads that verify, for all workers.
pub(crate) struct Pool {
    threads: usize,
    /// `None` where the system gives no thread.
    jobs: OnceLock<Option<Arc<Queue<Job>>>>,
}

/// What a worker verifies passwords with.
pub(crate) struct Passwords {
    pool: Arc<Pool>,
    key: hmac::Key,
    /// Made when first used.
    remembered: RefCell<Vec<Option<Remembered>>>,
}

/// That a password was right. The tag says whose, which, and by which hash, to whoever has the key.
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
    /// Reads the value of `Authorization`; `None` where it claims nothing that could be right.
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
        (password.len() <= LONGEST).then_some(Self { user, password })
    }
}

impl Pool {
    /// One with a thread for every two workers, none of which runs yet.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self { threads: (workers / 2).max(1), jobs: OnceLock::new() })
    }

    /// Takes a job for a password file, unless it has its share of the queue or no thread can be had.
    fn take(&self, policy: &Arc<str>, job: Job) -> bool {
        let jobs = self.jobs.get_or_init(|| start(self.threads));
        jobs.as_ref().is_some_and(|jobs| jobs.push(policy, job).is_ok())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(Some(jobs)) = self.jobs.get() {
            jobs.close();
        }
    }
}

/// Starts the threads; `None` when the system gives none.
fn start(threads: usize) -> Option<Arc<Queue<Job>>> {
    let jobs = Arc::new(Queue::new(QUEUE));
    let started = (0..threads).filter(|index| {
        let jobs = Arc::clone(&jobs);
        let builder = std::thread::Builder::new().name(format!("password-{index}"));
        builder.spawn(move || run(&jobs)).is_ok()
    });
    (started.count() > 0).then_some(jobs)
}

/// Verifies until every worker is gone.
fn run(jobs: &Queue<Job>) {
    // Without it verifying only takes its full share of the processor.
    _ = rustix::process::nice(NICENESS);
    while let Some(Job { password, hash, reply }) = jobs.next() {
        // Whoever asked may have left.
        if !reply.is_closed() {
            let fits = std::panic::catch_unwind(|| Hash::read(&hash).is_ok_and(|hash| hash.fits(&password)));
            _ = reply.send(fits.unwrap_or(false));
        }
    }
}

impl Passwords {
    /// Those of a worker, which remembers none yet.
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        let key = hmac::Key::generate(HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new())
            .expect("the system gives random bytes, without which there is no TLS either");
        Self { pool, key, remembered: RefCell::new(Vec::new()) }
    }

    /// Verifies a claim.
    pub(crate) async fn verify(&self, basic: &BasicAuth, claim: Claim) -> Word {
        let Claim { user, password } = claim;
        let Some(hash) = basic.users.hash(&user) else {
            return self.waste(basic, password).await;
        };
        match Hash::read(hash).map(|read| (read.cost(), read)) {
            Err(_) => return Word::Wrong,
            Ok((Cost::Nothing, read)) => return if read.fits(&password) { Word::Right } else { Word::Wrong },
            Ok((Cost::Slow, _)) => {}
        }
        let tag = self.tag(basic, &user, hash, &password);
        if self.remembers(&tag) {
            return Word::Right;
        }
        let word = self.ask(basic, password, hash).await;
        if word == Word::Right {
            self.remember(tag);
        }
        word
    }

    /// Takes as long for a name that nobody has as for somebody's: who is a user is not told by the time.
    async fn waste(&self, basic: &BasicAuth, password: Vec<u8>) -> Word {
        let slow = |hash: &&Arc<str>| Hash::read(hash).is_ok_and(|hash| hash.cost() == Cost::Slow);
        let somebody = basic.users.iter().map(|(_, hash)| hash).take(SEARCHED).find(slow);
        match somebody {
            Some(hash) if self.ask(basic, password, hash).await == Word::None => Word::None,
            _ => Word::Wrong,
        }
    }

    async fn ask(&self, basic: &BasicAuth, password: Vec<u8>, hash: &Arc<str>) -> Word {
        let (reply, answer) = oneshot::channel();
        if !self.pool.take(&basic.policy, Job { password, hash: Arc::clone(hash), reply }) {
            return Word::None;
        }
        match answer.await {
            Ok(true) => Word::Right,
            Ok(false) => Word::Wrong,
            Err(_) => Word::None,
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
        let found = remembered.get(place(tag)).copied().flatten();
        let is_it = |it: &Remembered| aws_lc_rs::constant_time::verify_slices_are_equal(&it.tag, tag).is_ok();
        found.is_some_and(|it| is_it(&it) && Instant::now() < it.until)
    }

    /// Another one gives way to it where both have the same place.
    fn remember(&self, tag: [u8; 16]) {
        let mut remembered = self.remembered.borrow_mut();
        remembered.resize(REMEMBERED, None);
        remembered[place(&tag)] = Some(Remembered { tag, until: Instant::now() + MEMORY });
    }
}

fn place(tag: &[u8; 16]) -> usize {
    usize::from(u16::from_be_bytes([tag[0], tag[1]])) % REMEMBERED
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
