//! The report as readers meet it: as a file, and in README. Results are synthetic ([`fixture`]).

mod file;
mod fixture;
mod published;
mod readme;
