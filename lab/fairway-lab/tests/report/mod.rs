//! The report as readers meet it: in a real browser, as a file, and in README. Results are synthetic ([`fixture`]).

mod browser;
mod file;
mod fixture;
mod published;
mod reading;
mod readme;
