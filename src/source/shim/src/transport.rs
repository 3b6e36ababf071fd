// SPDX-License-Identifier: Apache-2.0
//! The HTTP client of the process, wrapped so that a request of ours can watch its own exchange:
//! what was answered, whether it was the range that was asked, and where a page of a listing ends.
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures::stream;
use http::{HeaderMap, Request, Response, StatusCode, header};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};
use opendal_http_transport_reqwest::ReqwestTransport;

tokio::task_local! {
    /// Set around each attempt; requests outside of one are passed through.
    pub static EXCHANGE: Arc<Exchange>;
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: Option<u16>,
    pub request_id: Option<String>,
}

/// Names of a page of a listing in the order in which OpenDAL yields them; true: the XML reader has
/// changed the name on its way (see `altered_names`).
type AlteredNames = Vec<bool>;

#[derive(Default)]
struct Seen {
    answer: Answer,
    altered: AlteredNames,
    page_complete: bool,
    page_over: bool,
}

/// What one attempt sees of its traffic.
pub struct Exchange {
    is_list: bool,
    seen: Mutex<Seen>,
}

impl Exchange {
    pub fn new(is_list: bool) -> Arc<Self> {
        Arc::new(Self {
            is_list,
            seen: Mutex::default(),
        })
    }

    pub fn answer(&self) -> Answer {
        self.seen.lock().unwrap().answer.clone()
    }

    /// From now on the attempt gets no further page: OpenDAL's lister asks for the next page by
    /// itself when one is used up, and hides where one ends.
    pub fn complete_page(&self) {
        self.seen.lock().unwrap().page_complete = true;
    }

    /// Whether the lister wanted another page.
    pub fn page_is_over(&self) -> bool {
        self.seen.lock().unwrap().page_over
    }

    pub fn take_altered_names(&self) -> AlteredNames {
        std::mem::take(&mut self.seen.lock().unwrap().altered)
    }

    fn admit(&self) -> Result<()> {
        let mut seen = self.seen.lock().unwrap();
        if self.is_list && seen.page_complete {
            seen.page_over = true;
            return Err(Error::new(ErrorKind::Unexpected, "the page ends here"));
        }
        seen.answer = Answer::default();
        Ok(())
    }

    fn note(&self, response: &Response<HttpBody>) {
        let id = ["x-amz-request-id", "x-request-id"]
            .iter()
            .find_map(|name| {
                response
                    .headers()
                    .get(*name)
                    .and_then(|value| value.to_str().ok())
                    .map(str::to_string)
            });
        let mut seen = self.seen.lock().unwrap();
        seen.answer = Answer {
            status: Some(response.status().as_u16()),
            request_id: id,
        };
    }

    fn note_page(&self, body: &[u8]) {
        self.seen.lock().unwrap().altered = altered_names(&String::from_utf8_lossy(body));
    }
}

pub struct WatchedTransport {
    inner: ReqwestTransport,
}

impl HttpTransport for WatchedTransport {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let Ok(exchange) = EXCHANGE.try_with(Arc::clone) else {
            return self.inner.fetch(request).await;
        };
        exchange.admit()?;
        let range = request.headers().get(header::RANGE).cloned();
        let response = self.inner.fetch(request).await?;
        exchange.note(&response);
        if let Some(range) = range {
            check_range(
                range.to_str().unwrap_or_default(),
                response.status(),
                response.headers(),
            )?;
        }
        if !exchange.is_list || response.status() != StatusCode::OK {
            return Ok(response);
        }
        let (parts, mut body) = response.into_parts();
        let bytes = body.to_buffer().await?;
        exchange.note_page(&bytes.to_bytes());
        let size = bytes.len() as u64;
        Ok(Response::from_parts(
            parts,
            HttpBody::new(stream::iter([Ok(bytes)]), Some(size)),
        ))
    }
}

/// A success must carry exactly the bytes that were asked for; OpenDAL takes what comes.
fn check_range(asked: &str, status: StatusCode, headers: &HeaderMap) -> Result<()> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|v: &http::HeaderValue| v.to_str().ok())
    };
    let Some((first, last)) = asked.strip_prefix("bytes=").and_then(|r| r.split_once('-')) else {
        return Ok(());
    };
    let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else {
        return Ok(());
    };
    match status {
        StatusCode::OK => {
            // Lawful where the range is the whole object (RFC 9110, 14.2).
            let whole = text(header::CONTENT_LENGTH).and_then(|v| v.parse().ok());
            if first == 0 && whole == Some(last + 1) {
                return Ok(());
            }
            Err(Error::new(
                ErrorKind::Unsupported,
                "the store ignored the range and answered 200 with the whole object",
            ))
        }
        StatusCode::PARTIAL_CONTENT => {
            let got = text(header::CONTENT_RANGE).unwrap_or_default();
            let (range, total) = got
                .strip_prefix("bytes ")
                .and_then(|r| r.split_once('/'))
                .unwrap_or_default();
            if range == format!("{first}-{last}") {
                return Ok(());
            }
            if total.parse::<u64>().is_ok_and(|total| total <= last) {
                let message = format!("the object has only {total} bytes");
                return Err(Error::new(ErrorKind::RangeNotSatisfied, message));
            }
            let message = format!("the store answered with range '{got}' to '{asked}'");
            Err(Error::new(ErrorKind::Unexpected, message).set_temporary())
        }
        _ => Ok(()),
    }
}

/// Which names OpenDAL will have changed when it yields them: its XML reader trims white space, and
/// a leading '/' is taken for the root. Such a name would stand for another object. The order is
/// OpenDAL's: common prefixes, then objects.
fn altered_names(xml: &str) -> AlteredNames {
    let mut names = texts_between(xml, "<CommonPrefixes>", "<Prefix>");
    names.extend(texts_between(xml, "<Contents>", "<Key>"));
    names
        .iter()
        .map(|name| name.starts_with('/') || name.trim() != *name)
        .collect()
}

/// The text that follows `tag` in each element that `opening` begins.
fn texts_between<'a>(xml: &'a str, opening: &str, tag: &str) -> Vec<&'a str> {
    let after_tag = |element: &'a str| {
        let start = element.find(tag)? + tag.len();
        element[start..].split('<').next()
    };
    xml.split(opening)
        .skip(1)
        .map(|element| after_tag(element).unwrap_or_default())
        .collect()
}

/// One client, so that all stores share its connections.
pub fn http_transport() -> HttpTransporter {
    static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
    let client = CLIENT.get_or_init(|| {
        // Fails only when a provider is there already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        reqwest::Client::builder()
            .http1_only()
            .pool_max_idle_per_host(256)
            .pool_idle_timeout(Duration::from_secs(30))
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_secs(5))
            .build()
            .expect("constant settings of the HTTP client are valid")
    });
    HttpTransporter::new(WatchedTransport {
        inner: ReqwestTransport::new(client.clone()),
    })
}
