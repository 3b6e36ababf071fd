// SPDX-License-Identifier: Apache-2.0
//! Explains errors: from an error of OpenDAL and the last response of the attempt to a failure.
use std::error::Error as _;
use std::time::Duration;

use opendal::ErrorKind;

use crate::attempt::exchange::{EXCHANGE, LastResponse};
use crate::attempt::hdfs_errors::name_node_exception;
use crate::attempt::response_check::UNVERIFIED;
use crate::core::failure::{Code, Failure};

/// OpenDAL's text about a HEAD without a Content-Length.
const NO_SIZE: &str = "does not contain file content length";
/// Maximum characters of a response to a credential provider.
const CAUSE_MAX: usize = 400;

/// Returns the failure of an attempt without a byte within `limit`.
pub fn timed_out(limit: Duration) -> Failure {
    let message = format!("no bytes from the store for {} ms", limit.as_millis());
    let proxy = EXCHANGE.try_with(|exchange| exchange.last_response().proxy);
    match proxy.ok().flatten() {
        Some(proxy) => Failure::new(
            Code::Unavailable,
            format!("through the proxy {proxy}: {message}"),
        ),
        None => Failure::new(Code::Unavailable, message),
    }
}

/// Explains an error of the running attempt by the last response of its exchange.
pub fn explain(error: &opendal::Error) -> Failure {
    explain_with(error, &EXCHANGE.get().last_response())
}

/// Explains an error by `response`, the last response on the wire.
pub fn explain_with(error: &opendal::Error, response: &LastResponse) -> Failure {
    if is_unsigned(error) {
        // The signers of the services do not report the reason.
        if let Some(why) = &response.unreachable {
            let message = format!("whoever hands out credentials was not reached: {why}");
            return Failure::new(Code::Unavailable, message);
        }
        let code = match is_transient(error) {
            true => Code::Unavailable,
            false => Code::PermissionDenied,
        };
        return Failure::new(code, describe_unsigned(error));
    }
    if let Some(failure) = name_node_exception(error) {
        return failure;
    }
    if error.message().contains(NO_SIZE) && matches!(response.status, Some(200..=299)) {
        let text = "the store names no size of the object: it makes or unpacks the content on \
                    demand";
        return Failure::new(Code::Unsupported, text);
    }
    if error.message() == UNVERIFIED {
        return Failure::new(Code::Unverified, UNVERIFIED);
    }
    let (store_code, store_text) = store_error(error.message());
    let code = code_of(error, store_code.as_deref(), response);
    let message = match response.status {
        Some(status) if status >= 300 => {
            let mut text = format!("the store answered {status}");
            if let Some(code) = &store_code {
                text.push_str(&format!(" {code}"));
            }
            if !store_text.is_empty() {
                text.push_str(&format!(": {store_text}"));
            }
            if let Some(id) = &response.request_id {
                text.push_str(&format!(" (request id {id})"));
            }
            text
        }
        _ => match &response.proxy {
            Some(proxy) => format!("through the proxy {proxy}: {}", with_sources(error)),
            None => with_sources(error),
        },
    };
    Failure {
        code,
        message,
        store_code: store_code.unwrap_or_default(),
    }
}

/// Nothing was sent to the store, and the reason is not the network. The last response, if any,
/// came from the machine that issues role credentials.
fn is_unsigned(error: &opendal::Error) -> bool {
    error.message() == "signing http request" && !error.is_temporary()
}

/// Whether the credential provider was not reached; OpenDAL drops that information.
fn is_transient(error: &opendal::Error) -> bool {
    let cause = error.source();
    let cause = cause.and_then(|cause| cause.downcast_ref::<reqsign_core::Error>());
    cause.is_some_and(reqsign_core::Error::is_retryable)
}

fn describe_unsigned(error: &opendal::Error) -> String {
    let cause = with_sources(error);
    if cause.contains("failed to load signing credential") {
        return "no credentials were found, so nothing was sent: neither in the environment, in \
                ~/.aws nor for a role of this machine; a public bucket needs anonymous=true"
            .to_string();
    }
    // A credential provider may echo the request.
    let echoes = [
        "AWS4-HMAC",
        "x-amz-security",
        "X-Amz-Security",
        "client_secret",
    ];
    let shown = match echoes.iter().any(|word| cause.contains(word)) {
        true => String::new(),
        false => cause.chars().take(CAUSE_MAX).collect(),
    };
    format!("the request could not be signed, so nothing was sent: {shown}")
}

fn code_of(error: &opendal::Error, store_code: Option<&str>, response: &LastResponse) -> Code {
    if matches!(
        store_code,
        Some("ExpiredToken" | "InvalidToken" | "TokenRefreshRequired")
    ) {
        return Code::PermissionDenied;
    }
    match error.kind() {
        ErrorKind::NotFound => Code::NotFound,
        // OpenDAL's interpretation of NoSuchBucket.
        ErrorKind::ConfigInvalid if response.status == Some(404) => Code::NotFound,
        ErrorKind::ConfigInvalid => Code::InvalidArgument,
        ErrorKind::PermissionDenied => Code::PermissionDenied,
        ErrorKind::ConditionNotMatch => Code::Changed,
        ErrorKind::AlreadyExists => Code::Exists,
        ErrorKind::IsSameFile => Code::InvalidArgument,
        ErrorKind::RangeNotSatisfied => Code::OutOfRange,
        ErrorKind::RateLimited => Code::Throttled,
        ErrorKind::Unsupported => Code::Unsupported,
        ErrorKind::NotADirectory => Code::NotDirectory,
        ErrorKind::IsADirectory => Code::NotFound,
        _ if response.status == Some(416) => Code::OutOfRange,
        _ if response.status == Some(401) => Code::PermissionDenied,
        _ if error.is_temporary() => Code::Unavailable,
        // A success with a body that did not match its head.
        ErrorKind::Unexpected if matches!(response.status, Some(200..=299)) => Code::Unavailable,
        _ => Code::Internal,
    }
}

/// The store's own code and text. OpenDAL's message is the debug form of the parsed XML,
/// `S3Error { code: "…", message: "…", … }`, or the raw body where that was not XML.
fn store_error(message: &str) -> (Option<String>, String) {
    if message.starts_with("S3Error {") {
        let code = debug_field(message, "code").filter(|code| !code.is_empty());
        return (code, debug_field(message, "message").unwrap_or_default());
    }
    // Possibly a proxy's page; it may echo the request, signature included.
    let suspicious = [
        "ignature",
        "customer-key",
        "uthorization",
        "AWS4-HMAC",
        "oken",
        "sig=",
        "delegation",
    ];
    if suspicious.iter().any(|word| message.contains(word)) {
        return (None, String::new());
    }
    let line: String = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    (None, line.trim().chars().take(200).collect())
}

fn debug_field(message: &str, name: &str) -> Option<String> {
    let start = message.find(&format!("{name}: \""))? + name.len() + 3;
    let mut value = String::new();
    let mut escaped = false;
    for c in message[start..].chars() {
        match c {
            _ if escaped => {
                value.push(if c == 'n' { ' ' } else { c });
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some(value),
            _ => value.push(c),
        }
    }
    None
}

/// "send http request: error sending request: connection refused": the message and its causes, each
/// text once.
pub fn with_sources(error: &opendal::Error) -> String {
    let mut parts = vec![error.message().to_string()];
    let mut below = error.source();
    while let Some(cause) = below {
        let text = cause.to_string();
        if !parts.iter().any(|known| known.contains(&text)) {
            parts.push(text);
        }
        below = cause.source();
    }
    parts.retain(|part| !part.is_empty());
    parts.join(": ")
}
