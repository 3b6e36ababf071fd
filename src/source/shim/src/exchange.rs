// SPDX-License-Identifier: Apache-2.0
//! Exchange: what an attempt wants of its traffic, and what it sees of it: what was answered and
//! when, and where a page of a listing ends.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use opendal::raw::Timestamp;
use opendal::{Error, ErrorKind};
use reqsign_aws_v4::Credential;

use crate::entry::{IDENTITY, VersionKind};
use crate::get::Terms;
use crate::proxy::Proxies;
use crate::sign::Signer;
use crate::target::Target;

/// What a store may ask to wait for; a larger wish is a mistake.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

tokio::task_local! {
    /// Set around each attempt; requests outside of one are passed through.
    pub static EXCHANGE: Arc<Exchange>;
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub status: Option<u16>,
    pub request_id: Option<String>,
    /// Why none came.
    pub unreached: Option<String>,
    /// The proxy from which none came.
    pub proxy: Option<String>,
    /// Of the bucket, where a refusal says it.
    pub region: Option<String>,
    /// This machine's clock minus the store's, of a refusal, in seconds.
    pub clock_ahead_s: Option<i64>,
}

/// Names of a page of a listing in the order in which OpenDAL yields them; true: the XML reader has
/// changed the name on its way (see `altered_names`).
type AlteredNames = Vec<bool>;

#[derive(Default)]
struct Seen {
    answer: Answer,
    first_byte: Option<Duration>,
    retry_after: Option<Duration>,
    credential: Option<Arc<Credential>>,
    delivered: bool,
    /// That the service has yet to read.
    refusal: Option<Response<Vec<u8>>>,
    altered: AlteredNames,
    page_complete: bool,
    page_over: bool,
}

/// What an attempt wants of its exchange.
pub enum Purpose {
    Other,
    /// One page of a listing.
    Page,
    Read(Read),
}

/// Bytes, into the target.
pub struct Read {
    pub target: Arc<Target>,
    /// Where the service itself does not sign.
    pub signer: Option<Arc<Signer>>,
    /// That was demanded.
    pub version: Option<(VersionKind, String)>,
    /// Size of the whole object, as the caller knows it. 0: unknown.
    pub object_size: u64,
    /// The largest object of which a whole answer is taken for a part.
    pub whole_max: u64,
}

/// What one attempt sees of its traffic.
pub struct Exchange {
    pub purpose: Purpose,
    pub terms: Terms,
    /// Accept-Encoding of requests for objects.
    accepts: &'static str,
    start: Instant,
    seen: Mutex<Seen>,
}

impl Exchange {
    pub fn new(purpose: Purpose, terms: Terms) -> Arc<Self> {
        Self::accepting(IDENTITY, purpose, terms)
    }

    /// `accepts` is the Accept-Encoding with which the store returns objects as they are stored.
    pub fn accepting(accepts: &'static str, purpose: Purpose, terms: Terms) -> Arc<Self> {
        Arc::new(Self {
            purpose,
            terms,
            accepts,
            start: Instant::now(),
            seen: Mutex::default(),
        })
    }

    /// The Accept-Encoding of a request. Only objects are asked for as they are stored: a listing
    /// must not come compressed.
    pub fn encoding(&self, of_object: bool) -> HeaderValue {
        HeaderValue::from_static(if of_object { self.accepts } else { IDENTITY })
    }

    pub fn answer(&self) -> Answer {
        self.seen.lock().unwrap().answer.clone()
    }

    /// One more page may be asked for.
    pub fn begin_page(&self) {
        let mut seen = self.seen.lock().unwrap();
        (seen.page_complete, seen.page_over) = (false, false);
    }

    /// From now on requests for another page are held back.
    pub fn complete_page(&self) {
        self.seen.lock().unwrap().page_complete = true;
    }

    /// Whether a request for another page is held back.
    pub fn page_is_over(&self) -> bool {
        self.seen.lock().unwrap().page_over
    }

    pub fn take_altered_names(&self) -> AlteredNames {
        std::mem::take(&mut self.seen.lock().unwrap().altered)
    }

    /// Whether the target of a read is filled.
    pub fn is_delivered(&self) -> bool {
        self.seen.lock().unwrap().delivered
    }

    /// Of a request that went past the service: it is the service's next answer.
    pub fn hold_refusal(&self, refusal: Response<Vec<u8>>) {
        self.seen.lock().unwrap().refusal = Some(refusal);
    }

    pub fn take_refusal(&self) -> Option<Response<Vec<u8>>> {
        self.seen.lock().unwrap().refusal.take()
    }

    pub fn first_byte(&self) -> Option<Duration> {
        self.seen.lock().unwrap().first_byte
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.seen.lock().unwrap().retry_after
    }

    /// Who asked, where we signed.
    pub fn credential(&self) -> Option<Arc<Credential>> {
        self.seen.lock().unwrap().credential.clone()
    }

    pub fn note_credential(&self, used: Option<Arc<Credential>>) {
        self.seen.lock().unwrap().credential = used;
    }

    /// Whether a request may be sent now.
    pub fn admits(&self) -> bool {
        let mut seen = self.seen.lock().unwrap();
        if matches!(self.purpose, Purpose::Page) && seen.page_complete {
            seen.page_over = true;
            return false;
        }
        seen.answer = Answer::default();
        true
    }

    pub fn note(&self, status: StatusCode, headers: &HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let ids = [
            "x-amz-request-id",
            "x-ms-request-id",
            "x-guploader-uploadid",
            "x-oss-request-id",
            "x-cos-request-id",
            "x-request-id",
        ];
        let mut seen = self.seen.lock().unwrap();
        seen.answer = Answer {
            status: Some(status.as_u16()),
            request_id: ids.iter().find_map(|name| text(name)).map(str::to_string),
            ..Answer::default()
        };
        if status.is_redirection() || status.is_client_error() {
            seen.answer.region = text("x-amz-bucket-region").map(str::to_string);
            seen.answer.clock_ahead_s = text("date").and_then(clock_ahead);
        }
        seen.first_byte.get_or_insert_with(|| self.start.elapsed());
        // The other form, a date, is not used by stores.
        let seconds = text("retry-after").and_then(|value| value.parse().ok());
        seen.retry_after = seconds.map(|wish| Duration::from_secs(wish).min(RETRY_AFTER_MAX));
    }

    /// From where the next answer comes, if one does.
    pub fn note_sending(&self, uri: &Uri) {
        let proxy = Proxies::of_environment().name(uri);
        self.seen.lock().unwrap().answer.proxy = proxy;
    }

    /// No answer came, and another attempt may bring one.
    pub fn note_unreached(&self, why: String) {
        self.seen.lock().unwrap().answer.unreached = Some(why);
    }

    pub fn note_page(&self, body: &[u8]) {
        self.seen.lock().unwrap().altered = altered_names(&String::from_utf8_lossy(body));
    }

    pub fn deliver(&self) -> Error {
        self.seen.lock().unwrap().delivered = true;
        // Of a kind that records no backtrace.
        Error::new(ErrorKind::NotFound, "the bytes are delivered")
    }
}

/// By how many seconds this machine's clock is ahead of an answer's Date.
fn clock_ahead(date: &str) -> Option<i64> {
    let theirs = SystemTime::from(Timestamp::parse_rfc2822(date).ok()?);
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    Some(seconds(SystemTime::now())? - seconds(theirs)?)
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
