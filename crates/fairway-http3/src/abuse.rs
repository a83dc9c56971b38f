//! The account of what a client does that costs more than it is worth. It leaks, and completed requests pay into it, because
//! counts over the life of a connection end honest ones. Never decides what an error means.

/// Points that the account may hold before the connection is closed.
const CAPACITY: u64 = 1_000;
/// From here on the connection goes away.
const WARNING: u64 = 750;
/// A point drains in this time: 50 in a second.
const MICROS_PER_POINT: u64 = 20_000;
/// Points that a completed request pays.
const COMPLETED: u64 = 4;
/// Encoder instructions that are free at first: two tables of small entries.
const FREE_INSTRUCTIONS: u32 = 256;
/// Those that every request makes free.
const INSTRUCTIONS_PER_REQUEST: u32 = 64;

/// What something costs, in points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Weight {
    /// An unknown frame, a control frame, a QPACK instruction too many, a reset after our head, a rejected request.
    Light = 1,
    /// An empty DATA frame, a stream of an unknown type.
    Medium = 2,
    /// A reset before our head, a stream that we reset by the client's fault.
    Heavy = 4,
}

/// How the account stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Good,
    /// The connection should end when its streams have.
    Warned,
    /// The connection ends now.
    Overdrawn,
}

/// The account of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Account {
    /// Time that what it holds takes to drain, in microseconds.
    level: u64,
    /// When it was last charged, in microseconds.
    charged_at: u64,
    free_instructions: u32,
}

impl Default for Account {
    fn default() -> Self {
        Account { level: 0, charged_at: 0, free_instructions: FREE_INSTRUCTIONS }
    }
}

impl Account {
    /// Charges something `now`, in microseconds.
    pub(crate) fn charge(&mut self, now: u64, weight: Weight) -> Standing {
        self.charge_many(now, weight, 1)
    }

    /// Charges the same several times.
    pub(crate) fn charge_many(&mut self, now: u64, weight: Weight, count: u32) -> Standing {
        let drained = self.level.saturating_sub(now.saturating_sub(self.charged_at));
        self.level =
            drained.saturating_add(u64::from(count).saturating_mul(weight as u64 * MICROS_PER_POINT));
        self.charged_at = self.charged_at.max(now);
        match self.level {
            level if level >= CAPACITY * MICROS_PER_POINT => Standing::Overdrawn,
            level if level >= WARNING * MICROS_PER_POINT => Standing::Warned,
            _ => Standing::Good,
        }
    }

    /// Charges those of the encoder instructions that are not free.
    pub(crate) fn instructions(&mut self, now: u64, count: u32) -> Standing {
        let free = count.min(self.free_instructions);
        self.free_instructions -= free;
        self.charge_many(now, Weight::Light, count - free)
    }

    /// A request arrived.
    pub(crate) fn requested(&mut self) {
        let free = self.free_instructions + INSTRUCTIONS_PER_REQUEST;
        self.free_instructions = free.min(FREE_INSTRUCTIONS);
    }

    /// A request was answered.
    pub(crate) fn completed(&mut self) {
        self.level = self.level.saturating_sub(COMPLETED * MICROS_PER_POINT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_warned_at_750_points_and_ended_at_1000() {
        let mut account = Account::default();
        let standings: Vec<_> = (0..250).map(|_| account.charge(0, Weight::Heavy)).collect();
        let first = |standing| standings.iter().position(|&it| it == standing).map(|at| at + 1);
        assert_eq!((first(Standing::Warned), first(Standing::Overdrawn)), (Some(188), Some(250)));
    }

    #[test]
    fn fifty_points_drain_in_a_second_and_requests_pay() {
        let mut account = Account::default();
        for second in 0..1_000 {
            assert_eq!(account.charge_many(second * 1_000_000, Weight::Light, 50), Standing::Good);
        }
        let mut account = Account::default();
        for _ in 0..10_000 {
            assert_eq!(account.charge(0, Weight::Heavy), Standing::Good);
            account.completed();
        }
    }

    #[test]
    fn encoder_instructions_are_free_as_long_as_requests_come() {
        let mut account = Account::default();
        for _ in 0..1_000 {
            assert_eq!(account.instructions(0, INSTRUCTIONS_PER_REQUEST), Standing::Good);
            account.requested();
        }
        assert_eq!(account.level, 0);
        assert_eq!(account.instructions(0, 100_000), Standing::Overdrawn);
    }
}
