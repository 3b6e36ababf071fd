// SPDX-License-Identifier: Apache-2.0
//! Exchange: the settings of one attempt's traffic and its observations: responses, times, and the
//! end of a listing page.
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use opendal::raw::Timestamp;
use opendal::{Error, ErrorKind};
use reqsign_aws_v4::Credential;

use crate::attempt::sign_read::SignRead;
use crate::core::kinds::{IDENTITY, VersionKind};
use crate::core::target::Target;
use crate::core::timeouts::Timeouts;
use crate::net::proxy::Proxies;

/// Maximum of Retry-After; a larger value is treated as a mistake.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

tokio::task_local! {
    /// Set around each attempt; requests outside of one are passed through.
    pub static EXCHANGE: Arc<Exchange>;
}

#[derive(Clone, Debug, Default)]
pub struct LastResponse {
    pub status: Option<u16>,
    pub request_id: Option<String>,
    /// The reason why no response arrived.
    pub unreachable: Option<String>,
    /// The proxy that sent no response.
    pub proxy: Option<String>,
    /// Region of the bucket, if an error response names it.
    pub region: Option<String>,
    /// This machine's clock minus the store's, from an error response, in seconds.
    pub clock_ahead_s: Option<i64>,
}

/// Names of a page of a listing in the order in which OpenDAL yields them; true: the XML reader has
/// changed the name on its way.
pub type AlteredNames = Vec<bool>;

#[derive(Default)]
struct Observations {
    response: LastResponse,
    first_byte: Option<Duration>,
    retry_after: Option<Duration>,
    credential: Option<Arc<Credential>>,
    delivered: bool,
    /// Not read by the service yet.
    held_error: Option<Response<Vec<u8>>>,
    altered: AlteredNames,
    page_complete: bool,
    page_over: bool,
}

/// The purpose of an attempt's exchange.
pub enum Purpose {
    Other,
    /// One page of a listing.
    Page,
    Read(Read),
}

/// A read of bytes into the target.
pub struct Read {
    pub target: Arc<Target>,
    /// Set if the service itself does not sign.
    pub signer: Option<Arc<dyn SignRead>>,
    /// The demanded version.
    pub version: Option<(VersionKind, String)>,
    /// Size of the whole object, as the caller knows it. 0: unknown.
    pub object_size: u64,
    /// The time of the last change that the response must show, in seconds since 1970.
    pub mtime_s: Option<i64>,
    /// Versions are ETags, of the objects that have one.
    pub has_etags: bool,
    /// Maximum object size for which a whole response is accepted instead of a part.
    pub whole_max: u64,
}

/// The observations of one attempt's traffic.
pub struct Exchange {
    pub purpose: Purpose,
    pub timeouts: Timeouts,
    /// Accept-Encoding of requests for objects.
    accepts: &'static str,
    start: Instant,
    observed: Mutex<Observations>,
}

impl Exchange {
    pub fn new(purpose: Purpose, timeouts: Timeouts) -> Arc<Self> {
        Self::accepting(IDENTITY, purpose, timeouts)
    }

    /// `accepts`: the Accept-Encoding with which the store returns objects as they are stored.
    pub fn accepting(accepts: &'static str, purpose: Purpose, timeouts: Timeouts) -> Arc<Self> {
        Arc::new(Self {
            purpose,
            timeouts,
            accepts,
            start: Instant::now(),
            observed: Mutex::default(),
        })
    }

    /// Returns the Accept-Encoding of a request. Only objects are requested as stored: a listing
    /// must not be compressed.
    pub fn encoding(&self, of_object: bool) -> HeaderValue {
        HeaderValue::from_static(if of_object { self.accepts } else { IDENTITY })
    }

    pub fn last_response(&self) -> LastResponse {
        self.observed.lock().unwrap().response.clone()
    }

    /// Permits one more page.
    pub fn begin_page(&self) {
        let mut observed = self.observed.lock().unwrap();
        (observed.page_complete, observed.page_over) = (false, false);
    }

    /// From now on blocks requests for another page.
    pub fn complete_page(&self) {
        self.observed.lock().unwrap().page_complete = true;
    }

    /// Whether a request for another page is blocked.
    pub fn page_is_over(&self) -> bool {
        self.observed.lock().unwrap().page_over
    }

    pub fn take_altered_names(&self) -> AlteredNames {
        std::mem::take(&mut self.observed.lock().unwrap().altered)
    }

    /// Whether the target of a read is filled.
    pub fn is_delivered(&self) -> bool {
        self.observed.lock().unwrap().delivered
    }

    /// Stores the error response of a request that bypassed the service: it becomes the service's
    /// next response.
    pub fn hold_error(&self, error: Response<Vec<u8>>) {
        self.observed.lock().unwrap().held_error = Some(error);
    }

    pub fn take_held_error(&self) -> Option<Response<Vec<u8>>> {
        self.observed.lock().unwrap().held_error.take()
    }

    pub fn first_byte(&self) -> Option<Duration> {
        self.observed.lock().unwrap().first_byte
    }

    pub fn retry_after(&self) -> Option<Duration> {
        self.observed.lock().unwrap().retry_after
    }

    /// The credential that signed, if this library signed.
    pub fn credential(&self) -> Option<Arc<Credential>> {
        self.observed.lock().unwrap().credential.clone()
    }

    pub fn note_credential(&self, used: Option<Arc<Credential>>) {
        self.observed.lock().unwrap().credential = used;
    }

    /// Whether a request may be sent now.
    pub fn may_send(&self) -> bool {
        let mut observed = self.observed.lock().unwrap();
        if matches!(self.purpose, Purpose::Page) && observed.page_complete {
            observed.page_over = true;
            return false;
        }
        observed.response = LastResponse::default();
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
        let mut observed = self.observed.lock().unwrap();
        observed.response = LastResponse {
            status: Some(status.as_u16()),
            request_id: ids.iter().find_map(|name| text(name)).map(str::to_string),
            ..LastResponse::default()
        };
        if status.is_redirection() || status.is_client_error() {
            observed.response.region = text("x-amz-bucket-region").map(str::to_string);
            observed.response.clock_ahead_s = text("date").and_then(clock_ahead);
        }
        observed
            .first_byte
            .get_or_insert_with(|| self.start.elapsed());
        // Stores do not use the other form, a date.
        let seconds = text("retry-after").and_then(|value| value.parse().ok());
        observed.retry_after = seconds.map(|wish| Duration::from_secs(wish).min(RETRY_AFTER_MAX));
    }

    /// Records the proxy that the next response passes.
    pub fn note_sending(&self, uri: &Uri) {
        let proxy = Proxies::of_environment().name(uri);
        self.observed.lock().unwrap().response.proxy = proxy;
    }

    /// Records that no response arrived; a retry may help.
    pub fn note_unreachable(&self, why: String) {
        self.observed.lock().unwrap().response.unreachable = Some(why);
    }

    pub fn note_page(&self, altered: AlteredNames) {
        self.observed.lock().unwrap().altered = altered;
    }

    pub fn deliver(&self) -> Error {
        self.observed.lock().unwrap().delivered = true;
        // This kind records no backtrace.
        Error::new(ErrorKind::NotFound, "the bytes are delivered")
    }
}

/// Returns by how many seconds this machine's clock is ahead of a response's Date.
fn clock_ahead(date: &str) -> Option<i64> {
    let theirs = SystemTime::from(Timestamp::parse_rfc2822(date).ok()?);
    let seconds = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_secs()).ok()
    };
    Some(seconds(SystemTime::now())? - seconds(theirs)?)
}
