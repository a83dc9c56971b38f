//! Limits that the replicas of a fleet share. Each replica admits an equal share ([`size`]), and borrows the shares of a client
//! that the client does not use on other replicas (docs/design/0081-shares-that-replicas-lend.md). [`limits`] is the interface
//! for the rest of the process, [`borrow_queue`] has the clients that need more, [`borrower`] asks for their shares, [`lender`] lends
//! them, [`terms`] says for how long, and [`message`] has the encoding. It opens no connections.

mod borrow_queue;
mod borrower;
mod figures;
mod lender;
mod limits;
mod message;
mod size;
mod terms;
#[cfg(test)]
mod tests;

pub use borrower::{Borrower, Message, Round};
pub(crate) use figures::LeaseFigures;
pub use limits::FleetLimits;
pub use size::FleetSize;
