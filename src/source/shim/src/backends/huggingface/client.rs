// SPDX-License-Identifier: Apache-2.0
//! Requests to a hub and its redirects. Only the hub itself gets the token. An object on another
//! host is requested without the token, by the URL that the hub has signed.
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, Method, Request, Response, Uri, header};
use opendal::raw::Operation;
use opendal::{Buffer, HttpTransporter};

use crate::attempt::exchange::EXCHANGE;
use crate::attempt::explain::explain;
use crate::attempt::transport::direct_transport;
use crate::backends::http_requests::check_status;
use crate::backends::huggingface::token::HubToken;
use crate::core::entry::usable_etag;
use crate::core::failure::{Code, Failure};
use crate::core::target::Target;

/// Redirects of a renamed repository and of the hub's own caches.
const REDIRECTS_MAX: usize = 5;
/// A URL is not used in this time before its expiry.
const END_MARGIN: Duration = Duration::from_secs(30);
const LOCATIONS_MAX: usize = 4096;

pub struct HubRequest {
    pub method: Method,
    /// URL on the hub: whole, or from its first slash.
    pub url: String,
    /// Body of a POST.
    pub form: String,
}

impl HubRequest {
    pub fn get(url: String) -> Self {
        Self {
            method: Method::GET,
            url,
            form: String::new(),
        }
    }
}

/// The location of the bytes of one version.
pub struct Location {
    url: String,
    pub version: String,
    /// On the hub itself, which needs the token.
    pub is_hub: bool,
    /// None: request it again each time.
    expires: Option<Instant>,
}

pub struct HubClient {
    endpoint: String,
    origin: Option<Origin>,
    token: HubToken,
    transport: HttpTransporter,
    locations: Mutex<HashMap<String, Arc<Location>>>,
}

type Origin = (String, String, u16);

impl HubClient {
    pub fn new(endpoint: &str, token: HubToken) -> Self {
        Self {
            endpoint: endpoint.to_string(),
            origin: endpoint.parse().ok().and_then(|uri| origin_of(&uri)),
            token,
            transport: direct_transport(),
            locations: Mutex::default(),
        }
    }

    /// Returns the response, after redirects within the hub.
    pub async fn send(&self, request: HubRequest) -> Result<Response<Buffer>, Failure> {
        let (_, response) = self.follow(request).await?;
        check_answer(&response)?;
        Ok(response)
    }

    /// Returns the final URL and the response: a redirect leads to another host.
    async fn follow(&self, wanted: HubRequest) -> Result<(String, Response<Buffer>), Failure> {
        let mut url = self.whole(&wanted.url);
        for _ in 0..=REDIRECTS_MAX {
            if !self.is_hub(&url) {
                return Err(Failure::new(
                    Code::Internal,
                    "the hub sends us to another host",
                ));
            }
            let mut request = self.request(wanted.method.clone(), &url, true).await?;
            if !wanted.form.is_empty() {
                request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
            }
            let request = request
                .body(Buffer::from(wanted.form.clone()))
                .map_err(|_| bad_url())?;
            let sent = self.transport.send(request).await;
            let response = sent.map_err(|error| explain(&error))?;
            let Some(location) = location_of(&response) else {
                return Ok((url, response));
            };
            let to = self.whole(&location);
            if !self.is_hub(&to) {
                return Ok((url, response));
            }
            url = to;
        }
        Err(Failure::new(
            Code::Internal,
            "the hub redirects without end",
        ))
    }

    async fn request(
        &self,
        method: Method,
        url: &str,
        with_token: bool,
    ) -> Result<http::request::Builder, Failure> {
        let uri: Uri = url.parse().map_err(|_| bad_url())?;
        let request = Request::builder().method(method).uri(uri);
        if !with_token {
            return Ok(request);
        }
        let token = self.token.header().await;
        Ok(
            match token.map_err(|why| Failure::new(Code::PermissionDenied, why))? {
                Some(token) => request.header(header::AUTHORIZATION, token),
                None => request,
            },
        )
    }

    fn whole(&self, url: &str) -> String {
        match url.starts_with('/') {
            true => format!("{}{url}", self.endpoint),
            false => url.to_string(),
        }
    }

    fn is_hub(&self, url: &str) -> bool {
        let origin = url.parse::<Uri>().ok().and_then(|uri| origin_of(&uri));
        origin.is_some() && origin == self.origin
    }

    /// Returns the location of the bytes of `resolve`, a URL of the hub.
    pub async fn locate(&self, resolve: &str) -> Result<Arc<Location>, Failure> {
        if let Some(cached) = self.locations.lock().unwrap().get(resolve) {
            if cached
                .expires
                .is_some_and(|expires| Instant::now() < expires)
            {
                return Ok(cached.clone());
            }
        }
        let request = HubRequest {
            method: Method::HEAD,
            url: resolve.to_string(),
            form: String::new(),
        };
        let (from, response) = self.follow(request).await?;
        let headers = response.headers();
        let etag = text(headers, "x-linked-etag").or_else(|| text(headers, "etag"));
        let version = version_of(etag.unwrap_or_default());
        let location = match location_of(&response) {
            Some(url) => Location {
                expires: expiry_of(&url),
                url,
                version,
                is_hub: false,
            },
            None => {
                check_answer(&response)?;
                Location {
                    url: from,
                    version,
                    is_hub: true,
                    // A commit never changes.
                    expires: Some(Instant::now() + Duration::from_secs(60)),
                }
            }
        };
        let location = Arc::new(location);
        let mut locations = self.locations.lock().unwrap();
        if locations.len() >= LOCATIONS_MAX {
            locations.clear();
        }
        locations.insert(resolve.to_string(), location.clone());
        Ok(location)
    }

    pub fn evict(&self, resolve: &str) {
        self.locations.lock().unwrap().remove(resolve);
    }

    /// Sends one GET, without the stock client unless that is forced.
    pub async fn get(
        &self,
        location: &Location,
        offset: u64,
        target: &Target,
    ) -> Result<Option<Response<Buffer>>, Failure> {
        let last = offset + target.size() as u64 - 1;
        let request = self
            .request(Method::GET, &location.url, location.is_hub)
            .await?
            .header(header::RANGE, format!("bytes={offset}-{last}"))
            .extension(Operation::Read)
            .body(Buffer::new())
            .map_err(|_| bad_url())?;
        match self.transport.fetch(request).await {
            Err(_) if EXCHANGE.get().is_delivered() => Ok(None),
            Err(error) => Err(explain(&error)),
            Ok(response) => Ok(Some(response.map(|_| Buffer::new()))),
        }
    }
}

/// Explains an error response to a read.
pub fn explain_rejection(response: &Response<Buffer>) -> Failure {
    if response.status().as_u16() == 416 {
        return Failure::new(Code::OutOfRange, "the object is shorter than the range");
    }
    let message = format!("the store answered {}", response.status().as_u16());
    check_answer(response)
        .err()
        .unwrap_or(Failure::new(Code::Unavailable, message))
}

/// A hub returns its error text in a header.
fn check_answer(response: &Response<Buffer>) -> Result<(), Failure> {
    let mut failure = match check_status(response) {
        Ok(()) => return Ok(()),
        Err(failure) => failure,
    };
    if let Some(text) = text(response.headers(), "x-error-message") {
        let text: String = text.chars().take(200).collect();
        failure.message = format!("{}: {text}", failure.message);
    }
    Err(failure)
}

fn location_of(response: &Response<Buffer>) -> Option<String> {
    let is_redirection = response.status().is_redirection();
    let location = text(response.headers(), "location").filter(|_| is_redirection);
    location.map(str::to_string)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn bad_url() -> Failure {
    Failure::new(
        Code::Internal,
        "the hub sends us to something that is no URL",
    )
}

fn origin_of(uri: &Uri) -> Option<Origin> {
    let scheme = uri.scheme_str()?;
    let port = uri
        .port_u16()
        .unwrap_or(if scheme == "https" { 443 } else { 80 });
    Some((scheme.to_string(), uri.host()?.to_ascii_lowercase(), port))
}

/// The expiry of a signed URL: `Expires`, seconds of the epoch, as CloudFront signs.
fn expiry_of(url: &str) -> Option<Instant> {
    let query = url.parse::<Uri>().ok()?.query()?.to_string();
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, second) = pairs.find(|(name, _)| *name == "Expires")?;
    let end = UNIX_EPOCH.checked_add(Duration::from_secs(second.parse().ok()?))?;
    let left = end.duration_since(SystemTime::now()).ok()?;
    Instant::now().checked_add(left.checked_sub(END_MARGIN)?)
}

/// The version of an object id, which has quotes in a header and none in JSON.
pub fn version_of(oid: &str) -> String {
    let oid = oid.trim_start_matches("W/").trim_matches('"');
    usable_etag(oid.trim_start_matches("sha256:"))
}
