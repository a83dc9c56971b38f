//! Limits that the replicas of a fleet share. Each lets through its equal share ([`size`]), and borrows those of a client that the client
//! does not use elsewhere (docs/design/0081-shares-that-replicas-lend.md): [`limits`] is what
//! the rest of the process sees, [`wanted`] are the clients that need more, [`borrower`] asks for
//! them, [`lender`] answers, for as long as [`terms`] say, and [`message`] has the bytes. It opens no connection.

mod borrower;
mod figures;
mod lender;
mod limits;
mod message;
mod size;
mod terms;
#[cfg(test)]
mod tests;
mod wanted;

pub use borrower::{Borrower, Message, Round};
pub(crate) use figures::LeaseFigures;
pub use limits::FleetLimits;
pub use size::FleetSize;
