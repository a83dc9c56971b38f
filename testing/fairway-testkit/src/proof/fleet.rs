//! Backends as processes: `fairway echo`, which ends at once when it is told to, as most containers do.
//!
//! Owns the processes. Lists nobody: what is an endpoint is the caller's business.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::task::JoinSet;

use crate::client::{Client, Request};
use crate::process::Program;
use crate::proof::site::Site;
use crate::wait::{PATIENCE, eventually};

/// The running backends, the oldest first.
pub struct Fleet {
    binary: PathBuf,
    number_file: PathBuf,
    members: VecDeque<Member>,
    /// Those that were told to end, until they are gone.
    leaving: JoinSet<()>,
}

/// One backend.
pub struct Member {
    program: Program,
    address: SocketAddr,
}

impl Member {
    /// Tells it to end: it answers nothing more.
    pub fn terminate(&self) {
        self.program.terminate().expect("nobody else ends a backend");
    }

    /// Ends it as a crash of the machine would: it gets no chance to do anything.
    pub fn kill(&self) {
        self.program.kill().expect("nobody else ends a backend");
    }
}

impl Fleet {
    /// None yet; all that will be append the numbers of requests to `number_file`.
    pub fn new(binary: &Path, number_file: &Path) -> Self {
        let (binary, number_file) = (binary.to_owned(), number_file.to_owned());
        Self { binary, number_file, members: VecDeque::new(), leaving: JoinSet::new() }
    }

    /// The first `count` endpoints of a site.
    pub(super) async fn of(site: &Site, binary: &Path, count: usize) -> Self {
        let mut fleet = Self::new(binary, &site.numbers());
        fleet.grow(count).await;
        site.list(&fleet.addresses());
        fleet
    }

    /// Starts `count` more at the same time, and returns when all of them answer.
    pub async fn grow(&mut self, count: usize) {
        let programs: Vec<Program> = (0..count).map(|_| self.start()).collect();
        for program in programs {
            let address = listening(&program).await;
            eventually("a new backend answers", PATIENCE, || healthy(address)).await;
            self.members.push_back(Member { program, address });
        }
    }

    fn start(&self) -> Program {
        let file = self.number_file.display().to_string();
        Program::start(&self.binary, &["echo", "--listen", "127.0.0.1:0", "--number-file", &file])
    }

    /// Takes the `count` oldest out; they go on running until they are told to end.
    pub(crate) fn take_oldest(&mut self, count: usize) -> Vec<Member> {
        self.members.drain(..count.min(self.members.len())).collect()
    }

    /// The same of the newest.
    pub(crate) fn take_newest(&mut self, count: usize) -> Vec<Member> {
        self.members.drain(self.members.len().saturating_sub(count)..).collect()
    }

    /// Waits in the background until `member`, which was told to end, is gone.
    pub(crate) fn bury(&mut self, mut member: Member) {
        self.leaving.spawn(async move {
            member.program.exit_within(PATIENCE).await;
        });
        while self.leaving.try_join_next().is_some() {}
    }

    /// Where the running ones are.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    /// The processes of the running ones.
    pub fn processes(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.program.id()).collect()
    }

    /// How many run.
    pub fn size(&self) -> usize {
        self.members.len()
    }
}

async fn listening(program: &Program) -> SocketAddr {
    let line = program.line_with("address=").await;
    let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
    address.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no address in {line:?}"))
}

async fn healthy(address: SocketAddr) -> bool {
    let Ok(mut client) = Client::connect(address).await else { return false };
    let answer = client.exchange(&Request::get("backend", "/health").close()).await;
    answer.is_ok_and(|answer| answer.status == 200)
}
