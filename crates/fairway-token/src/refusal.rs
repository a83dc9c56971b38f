//! Why a token is refused.

/// Why a token is refused, with a label for metrics and a description for the client (RFC 6750 §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It is not a signed token in compact form, or longer than [`crate::MAX_TOKEN_BYTES`].
    Malformed,
    /// Its header requires an unsupported extension (`crit`, RFC 7515 §4.1.11), or it is a token of another kind
    /// (`typ`, RFC 8725 §3.11).
    Unsupported,
    /// Its algorithm is not a public-key algorithm: `none`, HMAC, or unknown.
    Algorithm,
    /// The issuer publishes no key with this id and algorithm.
    UnknownKey,
    /// No key of the issuer made the signature.
    Signature,
    /// The issuer is not trusted.
    Issuer,
    /// It was issued for another audience.
    Audience,
    /// It has no expiry.
    NoExpiry,
    /// It has expired.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It belongs to another login.
    Nonce,
}

impl Refusal {
    /// All variants, in the order of the documentation.
    pub const ALL: [Self; 11] = [
        Self::Malformed,
        Self::Unsupported,
        Self::Algorithm,
        Self::UnknownKey,
        Self::Signature,
        Self::Issuer,
        Self::Audience,
        Self::NoExpiry,
        Self::Expired,
        Self::NotYetValid,
        Self::Nonce,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "token_malformed",
            Self::Unsupported => "token_unsupported",
            Self::Algorithm => "token_algorithm",
            Self::UnknownKey => "token_unknown_key",
            Self::Signature => "token_signature",
            Self::Issuer => "token_issuer",
            Self::Audience => "token_audience",
            Self::NoExpiry => "token_no_expiry",
            Self::Expired => "token_expired",
            Self::NotYetValid => "token_not_yet_valid",
            Self::Nonce => "token_nonce",
        }
    }

    /// The description for the client: visible ASCII without quotes, as `error_description` requires.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::Malformed => "the token is malformed",
            Self::Unsupported => "the token has a header that is not supported",
            Self::Algorithm => "the algorithm of the token is not allowed",
            Self::UnknownKey => "the key of the token is unknown",
            Self::Signature => "the signature of the token is wrong",
            Self::Issuer => "the issuer of the token is not trusted",
            Self::Audience => "the token is for another audience",
            Self::NoExpiry => "the token has no expiry",
            Self::Expired => "the token has expired",
            Self::NotYetValid => "the token is not valid yet",
            Self::Nonce => "the token belongs to another login",
        }
    }
}
