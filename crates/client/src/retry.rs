//! When an exchange is repeated: reads always, writes only under the number they had.

use std::time::Duration;

use anabranch_api::REQUEST_BYTES;
use anabranch_api::http::{Bare, By, SessionClosed, SessionOpened, path};
use anabranch_log::{Happened, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::connect::{Failed, Http, Shared};
use crate::session::Ticket;
use crate::{Client, Error, Result};

const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(800);

/// The pause before attempt number `attempt` (0 is the first, which has none). No jitter: a client
/// does few attempts, and a run can be reproduced.
pub(crate) fn pause_before(attempt: u32) -> Duration {
    match attempt {
        0 => Duration::ZERO,
        n => PAUSE.saturating_mul(1 << (n - 1).min(10)).min(PAUSE_MAX),
    }
}

impl Client {
    /// A read: repeated while answers get lost.
    pub(crate) fn read_call<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T> {
        self.shared.repeat(|http| http.get(path, query))
    }

    /// A read that needs a body.
    pub(crate) fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
        extra: Duration,
    ) -> Result<T> {
        let body = encode(body)?;
        self.shared.repeat(|http| http.post(path, &body, extra))
    }

    /// A write. `body` makes the request for an identity.
    pub(crate) fn write_call<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        extra: Duration,
        body: impl Fn(By) -> B,
    ) -> Result<T> {
        let mut reopened = false;
        loop {
            let ticket = self.ticket()?;
            let write = ticket.as_ref().map(|ticket| ticket.write);
            let bytes = encode(&body(By { write, ..self.by() }))?;
            let attempts = if write.is_some() { self.shared.attempts } else { 1 };
            let (failed, lost) = match attempt(&self.shared.http, path, &bytes, extra, attempts) {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            let expired = matches!(
                &failed, Failed::Answered(problem) if problem.kind() == Kind::SessionExpired
            );
            if expired && let (Some(sessions), Some(write)) = (&self.shared.sessions, write) {
                sessions.forget(write.session);
                // Never executed, and no earlier attempt could have been: a new number is safe.
                if !lost && !reopened {
                    reopened = true;
                    continue;
                }
            }
            return Err(verdict(failed, lost));
        }
    }

    fn ticket(&self) -> Result<Option<Ticket<'_>>> {
        let Some(sessions) = &self.shared.sessions else { return Ok(None) };
        let open = || {
            let body = encode(&Bare { by: self.by() })?;
            // Opening twice leaves an unused session behind, nothing worse.
            let opened: SessionOpened =
                self.shared.repeat(|http| http.post(path::SESSIONS, &body, Duration::ZERO))?;
            Ok(opened.session)
        };
        // No write was sent yet, so whatever befell the opening, the write did not happen.
        let no = |error: Error| Error { happened: Happened::No, ..error };
        sessions.take(open).map(Some).map_err(no)
    }

    /// Ends the session, if one is open; the next write opens another.
    pub fn close(&self) -> Result<()> {
        let Some(sessions) = &self.shared.sessions else { return Ok(()) };
        let Some(session) = sessions.current() else { return Ok(()) };
        sessions.forget(session);
        self.shared.http.close_session(session, &self.by()).map_err(Error::from)
    }
}

impl Http {
    pub(crate) fn close_session(&self, session: u64, by: &By) -> std::result::Result<(), Failed> {
        let body = encode(&Bare { by: by.clone() }).map_err(Failed::NotSent)?;
        let path = path::close_session(session);
        self.post::<SessionClosed>(&path, &body, Duration::ZERO).map(|_| ())
    }
}

impl Shared {
    fn repeat<T>(&self, exchange: impl Fn(&Http) -> std::result::Result<T, Failed>) -> Result<T> {
        let mut last = None;
        for number in 0..self.attempts {
            std::thread::sleep(pause_before(number));
            match exchange(&self.http) {
                Ok(reply) => return Ok(reply),
                Err(Failed::Lost(error)) => last = Some(error),
                Err(failed) => return Err(failed.into()),
            }
        }
        // A read changes nothing, whatever became of it.
        let error = last.unwrap_or_else(|| Error::invalid("no attempt is allowed"));
        Err(Error { kind: Kind::Unavailable, happened: Happened::No, ..error })
    }
}

/// Sends a write until it is answered; returns also whether an attempt may have taken effect.
fn attempt<T: DeserializeOwned>(
    http: &Http,
    path: &str,
    body: &[u8],
    extra: Duration,
    attempts: u32,
) -> std::result::Result<T, (Failed, bool)> {
    let mut lost = false;
    let mut number = 0;
    loop {
        std::thread::sleep(pause_before(number));
        number += 1;
        let failed = match http.post(path, body, extra) {
            Ok(reply) => return Ok(reply),
            Err(failed) => failed,
        };
        let open = match &failed {
            // Refused before anything was sent: only worth waiting for if an attempt is open.
            Failed::NotSent(_) => lost,
            Failed::Lost(_) => true,
            Failed::Answered(problem) => {
                problem.outcome() == Happened::Unknown
                    && matches!(problem.kind(), Kind::UnknownOutcome | Kind::Timeout)
            }
        };
        if !open || number >= attempts {
            return Err((failed, lost));
        }
        lost = true;
    }
}

/// What is known after the last attempt; `lost`: an earlier one may have taken effect.
fn verdict(failed: Failed, lost: bool) -> Error {
    let error = Error::from(failed);
    if !lost || error.happened != Happened::No {
        return error;
    }
    Error {
        happened: Happened::Unknown,
        message: format!("an earlier attempt was not answered; the last one: {}", error.message),
        hint: "read the state to learn whether the write took effect".to_owned(),
        ..error
    }
}

fn encode(body: &impl Serialize) -> Result<Vec<u8>> {
    let bytes =
        serde_json::to_vec(body).map_err(|error| Error::invalid(format!("request: {error}")))?;
    // A server hangs up on a larger body, which would look like a lost answer.
    if bytes.len() > REQUEST_BYTES {
        let message = format!("the request is larger than {REQUEST_BYTES} bytes");
        return Err(Error::new(Kind::TooLarge, Happened::No, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses: Vec<_> = (0..8).map(|n| pause_before(n).as_millis()).collect();
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 800, 800]);
        assert_eq!(pause_before(u32::MAX), PAUSE_MAX);
    }

    #[test]
    fn refusal_after_a_lost_attempt_is_unknown() {
        let no = || Failed::NotSent(Error::new(Kind::BranchClosed, Happened::No, "closed"));
        assert_eq!(verdict(no(), false).happened, Happened::No);
        let unsure = verdict(no(), true);
        assert_eq!((unsure.kind, unsure.happened), (Kind::BranchClosed, Happened::Unknown));
    }
}
