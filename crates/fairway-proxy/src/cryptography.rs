//! Which module does the cryptography of this build: AWS-LC, or with the feature `fips` its FIPS module.

/// The name of the module.
pub const MODULE: &str = match cfg!(feature = "fips") {
    true => "AWS-LC FIPS module",
    false => "AWS-LC",
};

/// Makes sure that the module is the one for which the binary was built, and that its self-tests passed.
///
/// # Errors
/// Only with the feature `fips`: says why the module cannot be used.
pub fn verify() -> Result<(), &'static str> {
    match cfg!(feature = "fips") {
        true => aws_lc_rs::try_fips_mode(),
        false => Ok(()),
    }
}
