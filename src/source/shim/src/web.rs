// SPDX-License-Identifier: Apache-2.0
//! Web servers: objects by HEAD, directories where the server shows an index of them. An index tells
//! names; sizes and versions are asked of each file, since indexes round them or leave them out.
use std::time::UNIX_EPOCH;

use futures::StreamExt;
use futures::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use opendal::raw::Timestamp;
use opendal::{Buffer, HttpRedirect, HttpTransporter};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::entry::{Dialect, Entry, check_kind, is_addressable, usable_etag};
use crate::failure::{Code, Failure};
use crate::listing::Page;
use crate::transport::http_transport;

/// HEADs of one index at a time.
const HEADS: usize = 16;
/// What the pages of nginx, Apache, lighttpd, Python and others say of themselves.
const INDEX_TITLES: [&str; 3] = ["index of", "directory listing", "directory:"];

/// Of a path: all but unreserved characters and the slash (RFC 3986, 2.3).
pub const PATH: AsciiSet = NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/');

pub struct Web {
    endpoint: String,
    transport: HttpTransporter,
    dialect: Dialect,
}

impl Web {
    pub fn new(endpoint: &str, dialect: Dialect) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            transport: http_transport(),
            dialect,
        }
    }

    pub async fn stat(&self, key: &str) -> Result<Entry, Failure> {
        let response = self.ask(Method::HEAD, key).await?;
        check_status(&response)?;
        // A directory without its slash is sent on to where it is.
        let is_directory = path_of(&response, key).ends_with('/');
        check_kind(key, is_directory)?;
        if is_directory {
            return Ok(Entry::directory(key.to_string()));
        }
        self.entry(key, response.headers())
    }

    /// A directory, in the order of its keys.
    pub async fn level(&self, prefix: &str) -> Result<Page, Failure> {
        let response = self.ask(Method::GET, prefix).await?;
        check_status(&response)?;
        let kind = text(response.headers(), header::CONTENT_TYPE).unwrap_or_default();
        let is_json = kind.starts_with("application/json");
        let body = response.into_body().to_bytes();
        let body = String::from_utf8_lossy(&body);
        let names = if is_json {
            names_of_json(&body)
        } else {
            names_of_html(&body)
        };
        let Some(mut names) = names else {
            return Err(Failure::new(
                Code::Unsupported,
                "the server shows no index of this directory; a file in it can be read by its name",
            ));
        };
        names.sort();
        names.dedup();
        let mut page = Page::default();
        let mut known = Vec::new();
        for name in names {
            let key = format!("{prefix}{name}");
            if is_addressable(&key, self.dialect) {
                known.push(key);
            } else {
                page.leave_out(key);
            }
        }
        let found: Vec<_> = stream::iter(known)
            .map(|key| async move {
                match key.ends_with('/') {
                    true => Ok(Entry::directory(key)),
                    false => self.stat(&key).await,
                }
            })
            .buffered(HEADS)
            .collect()
            .await;
        for entry in found {
            match entry {
                Ok(entry) => page.entries.push(entry),
                // Removed since, or not for us.
                Err(failure) if matches!(failure.code, Code::NotFound | Code::PermissionDenied) => {
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(page)
    }

    async fn ask(&self, method: Method, key: &str) -> Result<Response<Buffer>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!(
                "{}/{}",
                self.endpoint,
                utf8_percent_encode(key, &PATH)
            ))
            .header(
                header::ACCEPT,
                "application/json, text/html;q=0.9, */*;q=0.5",
            )
            .body(Buffer::new())
            .map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))?;
        let sent = self.transport.send(request).await;
        sent.map_err(|error| Failure::seen(&error))
    }

    fn entry(&self, key: &str, headers: &HeaderMap) -> Result<Entry, Failure> {
        let size = text(headers, header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
        let Some(size) = size else {
            return Err(Failure::new(
                Code::Unsupported,
                "the server tells no size of it, as of pages that it makes on demand",
            ));
        };
        let modified = text(headers, header::LAST_MODIFIED)
            .and_then(|value| Timestamp::parse_rfc2822(value).ok())
            .and_then(|time| {
                let time = std::time::SystemTime::from(time);
                time.duration_since(UNIX_EPOCH).ok()
            });
        Ok(Entry {
            key: key.to_string(),
            size,
            version: usable_etag(text(headers, header::ETAG).unwrap_or_default()),
            mtime_ns: modified.map(|since| since.as_secs() as i64 * 1_000_000_000),
            is_directory: false,
        })
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

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

/// Where the answer came from, after the redirections.
fn path_of(response: &Response<Buffer>, key: &str) -> String {
    let redirect = response.extensions().get::<HttpRedirect>();
    let target = redirect.and_then(|to| to.uri().original_uri().parse::<http::Uri>().ok());
    target.map_or_else(|| key.to_string(), |uri| uri.path().to_string())
}

/// nginx's `autoindex_format json`: [{"name": …, "type": "file" | "directory", …}, …]
fn names_of_json(body: &str) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Item {
        name: String,
        r#type: String,
    }
    let items: Vec<Item> = serde_json::from_str(body).ok()?;
    let named = items.into_iter().map(|item| match item.r#type.as_str() {
        "directory" => format!("{}/", item.name),
        _ => item.name,
    });
    Some(named.collect())
}

/// The targets of the links that name something directly in the directory. Nothing when the page
/// does not say that it is an index.
fn names_of_html(body: &str) -> Option<Vec<String>> {
    let lower = body.to_ascii_lowercase();
    let head = &lower[..lower.find("<a ").unwrap_or(lower.len())];
    if !INDEX_TITLES.iter().any(|title| head.contains(title)) {
        return None;
    }
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(found) = lower[at..].find("href=\"") {
        let start = at + found + "href=\"".len();
        let Some(size) = lower[start..].find('"') else {
            break;
        };
        at = start + size;
        names.extend(name_of_link(&body[start..at]));
    }
    Some(names)
}

fn name_of_link(link: &str) -> Option<String> {
    let link = unescaped(link);
    let relative = link.strip_prefix("./").unwrap_or(&link);
    let body = relative.strip_suffix('/').unwrap_or(relative);
    let elsewhere = body.is_empty()
        || body.starts_with('?')
        || body.starts_with('#')
        || body.contains('/')
        || body == ".."
        || body.split_once(':').is_some_and(|(scheme, _)| {
            scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) && !scheme.contains('%')
        });
    if elsewhere {
        return None;
    }
    let path = relative.split(['?', '#']).next().unwrap_or_default();
    let name = percent_decode_str(path).decode_utf8().ok()?;
    Some(name.into_owned())
}

/// The references that stand in attributes (HTML, 13.1.4).
fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}
