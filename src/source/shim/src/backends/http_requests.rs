// SPDX-License-Identifier: Apache-2.0
//! Requests to web servers and hubs: encoded paths, and error statuses as failures.
use http::{Response, StatusCode};
use opendal::Buffer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC};

use crate::core::failure::{Code, Failure};

/// Encoding of a path: all but unreserved characters and the slash (RFC 3986, 2.3).
pub const PATH: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

pub fn check_status(response: &Response<Buffer>) -> Result<(), Failure> {
    let status = response.status();
    let code = match status {
        _ if status.is_success() => return Ok(()),
        StatusCode::NOT_FOUND | StatusCode::GONE => Code::NotFound,
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::TOO_MANY_REQUESTS => Code::Throttled,
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => Code::Unsupported,
        _ if status.is_server_error() => Code::Unavailable,
        _ => Code::Internal,
    };
    Err(Failure::new(
        code,
        format!("the store answered {}", status.as_u16()),
    ))
}
