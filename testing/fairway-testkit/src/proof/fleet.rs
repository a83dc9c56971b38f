//! Backends as processes: `fairway echo`, which exits at once when stopped, as most containers do.
//!
//! Owns the processes. The caller decides which are endpoints.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::task::JoinSet;

use crate::client::{Client, Request};
use crate::process::Program;
use crate::proof::site::Site;
use crate::wait::{WAIT_TIMEOUT, eventually};

/// The running backends, the oldest first.
pub struct Fleet {
    binary: PathBuf,
    number_file: PathBuf,
    members: VecDeque<Member>,
    /// Stopped backends, until they have exited.
    leaving: JoinSet<()>,
}

/// One backend.
pub struct Member {
    program: Program,
    address: SocketAddr,
}

impl Member {
    /// Stops the replica without further responses.
    pub fn terminate(&self) {
        self.program.terminate().expect("nobody else ends a backend");
    }

    /// Ends it as a crash of the machine would: it gets no chance to do anything.
    pub fn kill(&self) {
        self.program.kill().expect("nobody else ends a backend");
    }
}

impl Fleet {
    /// An empty fleet; its backends will append request numbers to `number_file`.
    pub fn new(binary: &Path, number_file: &Path) -> Self {
        let (binary, number_file) = (binary.to_owned(), number_file.to_owned());
        Self { binary, number_file, members: VecDeque::new(), leaving: JoinSet::new() }
    }

    /// The first `count` endpoints of a site.
    pub(super) async fn start(site: &Site, binary: &Path, count: usize) -> Self {
        let mut fleet = Self::new(binary, &site.numbers());
        fleet.grow(count).await;
        site.list(&fleet.addresses());
        fleet
    }

    /// Starts `count` more backends at once and returns when all of them respond.
    pub async fn grow(&mut self, count: usize) {
        let programs: Vec<Program> = (0..count).map(|_| self.start_program()).collect();
        for program in programs {
            let address = listening(&program).await;
            eventually("a new backend answers", WAIT_TIMEOUT, || healthy(address)).await;
            self.members.push_back(Member { program, address });
        }
    }

    fn start_program(&self) -> Program {
        let file = self.number_file.display().to_string();
        Program::start(&self.binary, &["echo", "--listen", "127.0.0.1:0", "--number-file", &file])
    }

    /// Removes the `count` oldest; they keep running until stopped.
    pub(crate) fn take_oldest(&mut self, count: usize) -> Vec<Member> {
        self.members.drain(..count.min(self.members.len())).collect()
    }

    /// The same of the newest.
    pub(crate) fn take_newest(&mut self, count: usize) -> Vec<Member> {
        self.members.drain(self.members.len().saturating_sub(count)..).collect()
    }

    /// Waits in the background for the exit of `member`, which was stopped.
    pub(crate) fn bury(&mut self, mut member: Member) {
        self.leaving.spawn(async move {
            member.program.exit_within(WAIT_TIMEOUT).await;
        });
        while self.leaving.try_join_next().is_some() {}
    }

    /// The addresses of the running backends.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members.iter().map(|member| member.address).collect()
    }

    /// The processes of the running ones.
    pub fn processes(&self) -> Vec<u32> {
        self.members.iter().map(|member| member.program.id()).collect()
    }

    /// The number of running backends.
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
    let response = client.exchange(&Request::get("backend", "/health").close()).await;
    response.is_ok_and(|answer| answer.status == 200)
}
