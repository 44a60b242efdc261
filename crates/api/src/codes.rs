//! The HTTP status of each kind of error.

use anabranch_log::Kind;

/// The status that a reply with this kind carries. Statuses are coarse; `code` in the body is what
/// to act on.
#[must_use]
pub fn status(kind: Kind) -> u16 {
    match kind {
        Kind::InvalidArgument | Kind::Sql => 400,
        Kind::UnknownBranch => 404,
        Kind::BranchClosing
        | Kind::NameTaken
        | Kind::Conflict
        | Kind::CheckFailed
        | Kind::NotANumber
        | Kind::TablesMoved
        | Kind::Held => 409,
        Kind::BranchClosed | Kind::RootGone | Kind::SessionExpired => 410,
        Kind::OffsetMismatch | Kind::VersionMismatch | Kind::StaleToken => 412,
        Kind::TooLarge => 413,
        Kind::TooMany => 429,
        Kind::Corrupt | Kind::Internal => 500,
        Kind::Unavailable | Kind::Locked | Kind::Poisoned => 503,
        Kind::Timeout | Kind::UnknownOutcome => 504,
        Kind::DiskFull => 507,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_an_error_status() {
        for kind in Kind::ALL {
            assert!((400..600).contains(&status(*kind)), "{kind}");
        }
    }
}
