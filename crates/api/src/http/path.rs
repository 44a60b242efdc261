//! Paths, percent-encoded: names of branches and streams may hold `/` and `:`.

/// Liveness: answers as soon as the node serves.
pub const HEALTHZ: &str = "/healthz";
/// State of the node.
pub const STATUS: &str = "/v1/status";
/// Takes a checkpoint.
pub const CHECKPOINT: &str = "/v1/checkpoint";
/// Opens a session.
pub const SESSIONS: &str = "/v1/sessions";
/// Applied operations.
pub const HISTORY: &str = "/v1/history";
/// Lists branches, makes forks.
pub const BRANCHES: &str = "/v1/branches";

/// `/v1/sessions/{session}/close`.
#[must_use]
pub fn close_session(session: u64) -> String {
    format!("{SESSIONS}/{session}/close")
}

/// `/v1/branches/{branch}`.
#[must_use]
pub fn branch(branch: &str) -> String {
    format!("{BRANCHES}/{}", segment(branch))
}

/// `/v1/branches/{branch}/{verb}`; the verb may hold slashes.
#[must_use]
pub fn on_branch(branch: &str, verb: &str) -> String {
    format!("{BRANCHES}/{}/{verb}", segment(branch))
}

/// `/v1/branches/{branch}/streams/{stream}/{verb}`.
#[must_use]
pub fn on_stream(branch: &str, stream: &str, verb: &str) -> String {
    format!("{BRANCHES}/{}/streams/{}/{verb}", segment(branch), segment(stream))
}

/// `/v1/branches/{branch}/keys/{stream}/{verb}`.
#[must_use]
pub fn on_keys(branch: &str, stream: &str, verb: &str) -> String {
    format!("{BRANCHES}/{}/keys/{}/{verb}", segment(branch), segment(stream))
}

/// `/v1/branches/{branch}/checks/{name}/drop`.
#[must_use]
pub fn drop_check(branch: &str, name: &str) -> String {
    format!("{BRANCHES}/{}/checks/{}/drop", segment(branch), segment(name))
}

/// One path segment or query value: everything but unreserved characters as `%XX`.
///
/// The segments `.` and `..`, which URL parsers remove, are no valid names.
#[must_use]
pub fn segment(text: &str) -> String {
    use std::fmt::Write;

    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_one_segment() {
        assert_eq!(branch("team/a:1"), "/v1/branches/team%2Fa%3A1");
        assert_eq!(on_stream("m", "a/b", "read"), "/v1/branches/m/streams/a%2Fb/read");
        assert_eq!(segment("é %?#&"), "%C3%A9%20%25%3F%23%26");
    }
}
