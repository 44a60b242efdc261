//! Who may talk to us: requests addressed to a loopback name, from no foreign web page.
//!
//! A page of another site can make a browser resolve its own name to 127.0.0.1; the `Host` header
//! then still carries the page's name. `Origin` tells the same of direct requests.

use std::net::IpAddr;
use std::time::Instant;

use anabranch_api::Problem;
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::failure::Failure;

pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str));
    if !host.is_some_and(is_loopback) {
        let message = "the Host header names no loopback address";
        return refused(message, "use `localhost` or `127.0.0.1` with the port");
    }
    if !own_origin(request.headers()) {
        let message = "the Origin header names another site";
        return refused(message, "call from a program on this machine, not from a web page");
    }
    let began = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    tracing::debug!(
        %method, path, status = response.status().as_u16(),
        micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        "request"
    );
    response
}

fn refused(message: &str, hint: &str) -> Response {
    Failure(Problem::invalid(message).with_status(403).with_hint(hint)).into_response()
}

fn own_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(header::ORIGIN) else { return true };
    let site = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
    site.is_some_and(|(_, authority)| is_loopback(authority))
}

/// Whether `host` or `host:port` is a name of this machine only.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, port)) if port.is_empty() || is_port(port) => host,
            _ => return false,
        },
        None => match authority.find(':') {
            Some(colon) if is_port(&authority[colon..]) => &authority[..colon],
            Some(_) => return false,
            None => authority,
        },
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_port(text: &str) -> bool {
    text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for good in [
            "localhost",
            "LOCALHOST:7420",
            "127.0.0.1",
            "127.0.0.1:80",
            "127.8.8.8",
            "[::1]:7420",
            "[::1]",
        ] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "",
            "example.com",
            "localhost.example.com",
            "127.0.0.1.example.com",
            "10.0.0.1:7420",
            "localhost:",
            "localhost:x",
            "[::2]",
            "[::1",
            "[::1]x",
            "::1",
            "localhost:1:2",
            "0.0.0.0",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }

    #[test]
    fn origins() {
        let check = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ORIGIN, origin.parse().unwrap());
            own_origin(&headers)
        };
        assert!(own_origin(&HeaderMap::new()));
        assert!(check("http://localhost:3000"));
        assert!(!check("https://example.com"));
        assert!(!check("null"));
    }
}
