//! What all streams of a connection have in common: limits, header compression and the abuse account. Never touches QUIC.

use crate::abuse::{Account, Standing, Weight};
use crate::code::{Code, Fault};
use crate::config::Config;
use crate::notes::Notes;
use crate::qpack::Decoder;

/// The common state of a connection's streams.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) qpack: Decoder,
    pub(crate) notes: Notes,
    pub(crate) account: Account,
    /// Microseconds since the connection was polled first.
    pub(crate) now: u64,
    /// Bytes that incomplete heads have announced.
    pub(crate) head_memory: usize,
    /// Streams that wait for insertions into the dynamic table.
    pub(crate) blocked: u32,
    /// Whether the account is nearly overdrawn.
    pub(crate) warned: bool,
}

impl Shared {
    pub(crate) fn new(config: Config) -> Self {
        Shared {
            config,
            qpack: Decoder::new(config.qpack_table as usize),
            notes: Notes::default(),
            account: Account::default(),
            now: 0,
            head_memory: 0,
            blocked: 0,
            warned: false,
        }
    }

    /// Charges something that costs the client little and us more.
    pub(crate) fn charge(&mut self, weight: Weight, rule: &'static str) -> Result<(), Fault> {
        let standing = self.account.charge(self.now, weight);
        self.judge(standing, rule)
    }

    /// Charges encoder instructions.
    pub(crate) fn charge_instructions(&mut self, count: u32) -> Result<(), Fault> {
        let standing = self.account.instructions(self.now, count);
        self.judge(standing, "encoder_instructions")
    }

    fn judge(&mut self, standing: Standing, rule: &'static str) -> Result<(), Fault> {
        match standing {
            Standing::Good => {}
            Standing::Warned => self.warned = true,
            Standing::Overdrawn => return Err(Fault::connection(Code::ExcessiveLoad, rule)),
        }
        Ok(())
    }
}
