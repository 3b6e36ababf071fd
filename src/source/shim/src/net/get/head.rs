// SPDX-License-Identifier: Apache-2.0
//! Heads of HTTP/1.1 messages (RFC 9112): writes requests, parses responses.
use std::io;
use std::mem::MaybeUninit;

use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

const HEADERS_MAX: usize = 100;

/// The end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Length(u64),
    Chunked,
    /// At the end of the connection.
    Close,
}

pub struct Head {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub framing: Framing,
    /// The connection may carry another request after this response.
    pub keep_alive: bool,
}

pub fn invalid_response(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Writes a request without a body. A proxy without a tunnel needs the whole URL and its own credentials.
pub fn write_request(parts: &Parts, through_proxy: Option<Option<&HeaderValue>>) -> Vec<u8> {
    let uri = &parts.uri;
    let authority = uri.authority().map(|a| a.as_str()).unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let mut head = Vec::with_capacity(1024);
    head.extend_from_slice(parts.method.as_str().as_bytes());
    head.push(b' ');
    if through_proxy.is_some() {
        head.extend_from_slice(b"http://");
        head.extend_from_slice(host.as_bytes());
    }
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    head.extend_from_slice(path.as_bytes());
    head.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    head.extend_from_slice(host.as_bytes());
    head.extend_from_slice(b"\r\n");
    if let Some(Some(auth)) = through_proxy {
        write_header(&mut head, &header::PROXY_AUTHORIZATION, auth);
    }
    for (name, value) in &parts.headers {
        if name != header::HOST {
            write_header(&mut head, name, value);
        }
    }
    head.extend_from_slice(b"\r\n");
    head
}

fn write_header(head: &mut Vec<u8>, name: &HeaderName, value: &HeaderValue) {
    head.extend_from_slice(name.as_str().as_bytes());
    head.extend_from_slice(b": ");
    head.extend_from_slice(value.as_bytes());
    head.extend_from_slice(b"\r\n");
}

/// The head at the start of `bytes` and its size; nothing while it is not there as a whole.
pub fn parse(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let mut found = [const { MaybeUninit::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let size = match config.parse_response_with_uninit_headers(&mut response, bytes, &mut found) {
        Ok(httparse::Status::Complete(size)) => size,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(invalid_response(format!("the answer is not HTTP: {error}"))),
    };
    let status = StatusCode::from_u16(response.code.unwrap_or_default())
        .map_err(|_| invalid_response("the answer has no status"))?;
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for one in response.headers.iter() {
        let name = HeaderName::from_bytes(one.name.as_bytes());
        let value = HeaderValue::from_bytes(one.value);
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(invalid_response(
                "the answer has a header that HTTP does not allow",
            ));
        };
        headers.append(name, value);
    }
    let has_word = |name: HeaderName, word: &str| {
        headers.get_all(name).iter().any(|value| {
            let text = value.to_str().unwrap_or_default();
            text.split(',')
                .any(|one| one.trim().eq_ignore_ascii_case(word))
        })
    };
    let keep_alive = if response.version == Some(1) {
        !has_word(header::CONNECTION, "close")
    } else {
        has_word(header::CONNECTION, "keep-alive")
    };
    let framing = framing_of(status, &headers)?;
    let head = Head {
        status,
        framing,
        keep_alive: keep_alive && framing != Framing::Close,
        headers,
    };
    Ok(Some((head, size)))
}

/// RFC 9112, 6.3, except that ambiguous framing is rejected.
fn framing_of(status: StatusCode, headers: &HeaderMap) -> io::Result<Framing> {
    if status.is_informational() || matches!(status.as_u16(), 204 | 304) {
        return Ok(Framing::Length(0));
    }
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(invalid_response("the answer has two lengths"));
    }
    let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (length, codings.next(), codings.next()) {
        (None, None, None) => Ok(Framing::Close),
        (Some(length), None, None) => length
            .to_str()
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .map(Framing::Length)
            .ok_or_else(|| invalid_response("the answer's length is not a number")),
        (None, Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked)
        }
        _ => Err(invalid_response("the answer's end can be read in two ways")),
    }
}
