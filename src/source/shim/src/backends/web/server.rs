// SPDX-License-Identifier: Apache-2.0
//! Web servers: objects by HEAD, directories from the server's index pages. An index has names;
//! sizes and versions come from a HEAD of each file, since indexes round or omit them.
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, Uri, header};
use opendal::raw::Timestamp;
use opendal::{Buffer, HttpRedirect, HttpTransporter, services};
use percent_encoding::utf8_percent_encode;

use crate::attempt::explain::explain;
use crate::attempt::transport::http_transport;
use crate::backends::http_requests::{PATH, check_status};
use crate::backends::namespace::Namespace;
use crate::backends::options::{Options, operator};
use crate::backends::parts::{StoreParts, WriteMode};
use crate::backends::web::index::IndexPage;
use crate::core::entry::{Entry, check_kind, is_addressable, usable_etag};
use crate::core::failure::{Code, Failure};
use crate::core::kinds::{Dialect, ListStyle, VersionKind};
use crate::core::page::Page;

/// Limit for a server that ignores ranges: each read gets the object from its beginning.
const WHOLE_MAX: u64 = 64 << 20;
/// Concurrent HEADs of one index.
const HEADS: usize = 16;

pub struct Web {
    endpoint: String,
    transport: HttpTransporter,
    dialect: Dialect,
}

pub fn build(options: &Options<'_>) -> Result<StoreParts, String> {
    let endpoint = options.text("endpoint");
    let operator = operator(services::Http::default().endpoint(endpoint))?;
    let parts = StoreParts::new(operator, ListStyle::Index, VersionKind::Etag);
    let dialect = Dialect {
        whole_max: WHOLE_MAX,
        ..parts.dialect
    };
    Ok(StoreParts {
        dialect,
        namespace: Some(Arc::new(Web::new(endpoint, dialect))),
        writes: WriteMode::ReadOnly,
        ..parts
    })
}

impl Namespace for Web {
    fn stat<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Entry, Failure>> {
        Box::pin(self.head(key))
    }

    fn list_directory<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Page, Failure>> {
        Box::pin(self.read_index(prefix))
    }
}

impl Web {
    fn new(endpoint: &str, dialect: Dialect) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            transport: http_transport(),
            dialect,
        }
    }

    async fn head(&self, key: &str) -> Result<Entry, Failure> {
        let response = self.send(Method::HEAD, key).await?;
        check_status(&response)?;
        // A directory without its slash is redirected.
        let is_directory = self.url_of(&response, key)?.path().ends_with('/');
        check_kind(key, is_directory)?;
        if is_directory {
            return Ok(Entry::directory(key.to_string()));
        }
        self.entry(key, response.headers())
    }

    async fn read_index(&self, prefix: &str) -> Result<Page, Failure> {
        let response = self.send(Method::GET, prefix).await?;
        check_status(&response)?;
        let kind = text(response.headers(), header::CONTENT_TYPE).unwrap_or_default();
        let is_json = kind.starts_with("application/json");
        let url = self.url_of(&response, prefix)?;
        let body = response.into_body().to_bytes();
        let index = IndexPage {
            host: url.authority().map_or("", |host| host.as_str()),
            path: url.path(),
            body: &String::from_utf8_lossy(&body),
        };
        let mut names = index.names(is_json)?;
        names.sort();
        names.dedup();
        let mut page = Page::default();
        let mut known = Vec::new();
        for name in names {
            let key = format!("{prefix}{name}");
            if is_addressable(&key, self.dialect) {
                known.push(key);
            } else {
                page.skip(key);
            }
        }
        let found: Vec<_> = stream::iter(known)
            .map(|key| async move {
                match key.ends_with('/') {
                    true => Ok(Entry::directory(key)),
                    false => self.head(&key).await,
                }
            })
            .buffered(HEADS)
            .collect()
            .await;
        for entry in found {
            match entry {
                Ok(entry) => page.entries.push(entry),
                // Removed since, or not permitted.
                Err(failure) if matches!(failure.code, Code::NotFound | Code::PermissionDenied) => {
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(page)
    }

    fn url(&self, key: &str) -> String {
        format!("{}/{}", self.endpoint, utf8_percent_encode(key, &PATH))
    }

    /// The URL of the response, after the redirects.
    fn url_of(&self, response: &Response<Buffer>, key: &str) -> Result<Uri, Failure> {
        let redirect = response.extensions().get::<HttpRedirect>();
        let there = redirect.and_then(|to| to.uri().original_uri().parse().ok());
        match there {
            Some(url) => Ok(url),
            None => (self.url(key).parse::<Uri>())
                .map_err(|error| Failure::new(Code::InvalidArgument, error.to_string())),
        }
    }

    async fn send(&self, method: Method, key: &str) -> Result<Response<Buffer>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(self.url(key))
            .header(
                header::ACCEPT,
                "application/json, text/html;q=0.9, */*;q=0.5",
            )
            .body(Buffer::new())
            .map_err(|error| Failure::new(Code::InvalidArgument, error.to_string()))?;
        let sent = self.transport.send(request).await;
        sent.map_err(|error| explain(&error))
    }

    fn entry(&self, key: &str, headers: &HeaderMap) -> Result<Entry, Failure> {
        let size = text(headers, header::CONTENT_LENGTH).and_then(|value| value.parse().ok());
        let Some(size) = size else {
            return Err(Failure::new(
                Code::Unsupported,
                "the server sends no size of it, as for pages that it makes on demand",
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
            metadata: String::new(),
        })
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
