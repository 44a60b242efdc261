//! Connections: one exchange of request and reply, and what is known when it fails.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anabranch_api::http::By;
use anabranch_api::{DEFAULT_ADDR, Problem};
use anabranch_log::{Happened, Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::session::Sessions;
use crate::{Error, Result};

/// Longest reply that is read, in bytes: far above what a server sends.
const REPLY_BYTES_MAX: u64 = 1 << 30;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How to reach a space, and in whose name.
#[derive(Clone, Debug)]
pub struct Options {
    /// `host:port`, or `http://host:port`.
    pub addr: String,
    /// Name of the person or agent, at most 128 bytes.
    pub actor: String,
    /// Why, in the actor's words, at most 1 KiB; may be empty.
    pub intent: String,
    /// Time limit of one exchange, apart from SQL calls, which bring their own.
    pub timeout: Duration,
    /// Exchanges tried for one call, at least 1.
    pub attempts: u32,
    /// Number writes within a session, so that a lost answer can be asked for again. Without, each
    /// write is sent exactly once.
    pub sessions: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            addr: DEFAULT_ADDR.to_owned(),
            actor: String::new(),
            intent: String::new(),
            timeout: Duration::from_mins(1),
            attempts: 5,
            sessions: true,
        }
    }
}

/// A client of one space; clones share connections and session.
///
/// The session ends when the last clone is dropped (best effort) or by [`Client::close`].
#[derive(Clone)]
pub struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) actor: String,
    pub(crate) intent: String,
}

pub(crate) struct Shared {
    pub(crate) http: Http,
    pub(crate) sessions: Option<Sessions>,
    pub(crate) attempts: u32,
}

impl Client {
    /// A client; connects at the first call.
    pub fn new(options: Options) -> Result<Client> {
        let base = base(&options.addr)?;
        // Never through a proxy: the default would read it from the environment.
        let agent = ureq::Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .user_agent(concat!("anabranch/", env!("CARGO_PKG_VERSION")))
            .build()
            .new_agent();
        let http = Http { agent, base, timeout: options.timeout };
        let sessions = options.sessions.then(Sessions::default);
        let shared = Shared { http, sessions, attempts: options.attempts.max(1) };
        Ok(Client { shared: Arc::new(shared), actor: options.actor, intent: options.intent })
    }

    /// The same client, writing with another reason.
    #[must_use]
    pub fn because(&self, intent: impl Into<String>) -> Client {
        Client { intent: intent.into(), ..self.clone() }
    }

    /// Address of the space, `http://host:port`.
    pub fn address(&self) -> &str {
        &self.shared.http.base
    }

    pub(crate) fn by(&self) -> By {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        By {
            actor: self.actor.clone(),
            intent: self.intent.clone(),
            time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            write: None,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.as_ref().and_then(Sessions::current) {
            // Best effort: a session that stays open only counts against the cap.
            let _ = self.http.close_session(session, &By::default());
        }
    }
}

fn base(addr: &str) -> Result<String> {
    let bare = addr.strip_prefix("http://").unwrap_or(addr).trim_end_matches('/');
    let plain = !bare.is_empty() && !bare.contains(['/', '?', '#', '@', ' ']);
    let port = bare.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    if addr.starts_with("https://") || !plain || port.is_none() {
        return Err(Error::invalid(format!(
            "`{}` is no address: write `host:port`, such as `{DEFAULT_ADDR}`",
            addr.escape_debug()
        )));
    }
    Ok(format!("http://{bare}"))
}

/// Why an exchange brought no result.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The request never left: nothing happened.
    NotSent(Error),
    /// It may have arrived; the answer did not.
    Lost(Error),
    /// The server said no, or that it does not know.
    Answered(Problem),
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Error {
        match failed {
            Failed::NotSent(error) | Failed::Lost(error) => error,
            Failed::Answered(problem) => problem.into(),
        }
    }
}

/// One server, reached over kept connections.
pub(crate) struct Http {
    agent: ureq::Agent,
    base: String,
    timeout: Duration,
}

impl Http {
    pub(crate) fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> std::result::Result<T, Failed> {
        let url = format!("{}{path}{}", self.base, query_text(query).map_err(Failed::NotSent)?);
        let request = self.agent.get(url).config().timeout_global(Some(self.timeout)).build();
        self.decode(request.call())
    }

    /// Sends JSON; `extra` is allowed on top of the usual time limit.
    pub(crate) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &[u8],
        extra: Duration,
    ) -> std::result::Result<T, Failed> {
        let timeout = self.timeout.saturating_add(extra);
        let request = self
            .agent
            .post(format!("{}{path}", self.base))
            .content_type("application/json")
            .config()
            .timeout_global(Some(timeout))
            .build();
        self.decode(request.send(body))
    }

    /// Opens an endless reply; `silence` is how long it may be quiet.
    pub(crate) fn stream(
        &self,
        path: &str,
        query: &impl Serialize,
        silence: Duration,
    ) -> std::result::Result<ureq::BodyReader<'static>, Failed> {
        let url = format!("{}{path}{}", self.base, query_text(query).map_err(Failed::NotSent)?);
        let request = self
            .agent
            .get(url)
            .header("accept", "text/event-stream")
            .config()
            .timeout_per_read(Some(silence))
            .build();
        let response = request.call().map_err(|error| self.failed(&error))?;
        if response.status() == 200 {
            return Ok(response.into_body().into_reader());
        }
        Err(refused(response))
    }

    fn decode<T: DeserializeOwned>(
        &self,
        response: std::result::Result<ureq::http::Response<ureq::Body>, ureq::Error>,
    ) -> std::result::Result<T, Failed> {
        let mut response = response.map_err(|error| self.failed(&error))?;
        if !response.status().is_success() {
            return Err(refused(response));
        }
        let text = response
            .body_mut()
            .with_config()
            .limit(REPLY_BYTES_MAX)
            .read_to_vec()
            .map_err(|error| self.failed(&error))?;
        serde_json::from_slice(&text).map_err(|error| {
            let message = format!("the answer of {} was not understood: {error}", self.base);
            Failed::Lost(Error::new(Kind::Internal, Happened::Unknown, message))
        })
    }

    fn failed(&self, error: &ureq::Error) -> Failed {
        use ureq::{Error as E, Timeout};

        let not_sent = match error {
            E::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
            E::Timeout(at) => matches!(at, Timeout::Resolve | Timeout::Connect),
            E::HostNotFound | E::ConnectionFailed | E::BadUri(_) | E::Http(_) => true,
            _ => false,
        };
        if not_sent {
            let message = format!("cannot reach {}: {error}", self.base);
            let mut unreachable = Error::new(Kind::Unavailable, Happened::No, message);
            "start a node with `anabranch dev`, or give the address of one"
                .clone_into(&mut unreachable.hint);
            return Failed::NotSent(unreachable);
        }
        let message = format!("the answer of {} was lost: {error}", self.base);
        Failed::Lost(Error::new(Kind::UnknownOutcome, Happened::Unknown, message))
    }
}

fn refused(mut response: ureq::http::Response<ureq::Body>) -> Failed {
    let status = response.status().as_u16();
    let text = response.body_mut().read_to_vec().unwrap_or_default();
    match serde_json::from_slice::<Problem>(&text) {
        Ok(problem) => Failed::Answered(problem),
        Err(_) => Failed::Lost(Error::new(
            Kind::UnknownOutcome,
            Happened::Unknown,
            format!("status {status} without an explanation: is this an anabranch node?"),
        )),
    }
}

/// `?a=1&b=x` of a flat struct; `None` and null are left out.
fn query_text(query: &impl Serialize) -> Result<String> {
    let invalid = |message: &str| Error::invalid(format!("query: {message}"));
    let value = serde_json::to_value(query).map_err(|error| invalid(&error.to_string()))?;
    let mut text = String::new();
    for (name, value) in value.as_object().into_iter().flatten() {
        let value = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(number) => number.to_string(),
            serde_json::Value::Bool(truth) => truth.to_string(),
            _ => return Err(invalid("a nested value")),
        };
        text.push(if text.is_empty() { '?' } else { '&' });
        text.push_str(name);
        text.push('=');
        text.push_str(&anabranch_api::http::path::segment(&value));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use anabranch_api::http::ScanQuery;

    use super::*;

    #[test]
    fn addresses() {
        for (addr, expected) in [
            ("127.0.0.1:7420", "http://127.0.0.1:7420"),
            ("http://localhost:1/", "http://localhost:1"),
            ("[::1]:7420", "http://[::1]:7420"),
        ] {
            assert_eq!(base(addr).unwrap(), expected);
        }
        for bad in ["", "localhost", "https://x:1", "a:b", "http://h:1/path", "u@h:1", "h:99999"] {
            assert_eq!(base(bad).unwrap_err().kind, Kind::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn queries_are_encoded_and_leave_out_what_is_not_set() {
        let query =
            ScanQuery { prefix: Some("a&b=é".into()), limit: Some(3), ..ScanQuery::default() };
        assert_eq!(query_text(&query).unwrap(), "?limit=3&prefix=a%26b%3D%C3%A9");
        assert_eq!(query_text(&ScanQuery::default()).unwrap(), "");
    }

    #[test]
    fn refused_connection_says_that_nothing_happened() {
        // A port that was free a moment ago.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let addr = format!("127.0.0.1:{port}");
        let client = Client::new(Options { addr, ..Options::default() }).unwrap();
        let error = client.put("main", "kv", "a", "1").unwrap_err();
        assert_eq!((error.kind, error.happened), (Kind::Unavailable, Happened::No));
        let error = client.status().unwrap_err();
        assert_eq!((error.kind, error.happened), (Kind::Unavailable, Happened::No));
    }
}
