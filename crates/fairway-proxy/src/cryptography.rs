//! The cryptographic module of this build: AWS-LC, or its FIPS module with the feature `fips`.

/// Name of the module.
pub const MODULE: &str = match cfg!(feature = "fips") {
    true => "AWS-LC FIPS module",
    false => "AWS-LC",
};

/// Checks that the linked module is the one this binary was built for and that its self-tests passed.
///
/// # Errors
/// Only with the feature `fips`: the reason why the module cannot be used.
pub fn verify() -> Result<(), &'static str> {
    match cfg!(feature = "fips") {
        true => aws_lc_rs::try_fips_mode(),
        false => Ok(()),
    }
}
