// SPDX-License-Identifier: Apache-2.0
//! Template: the common form of a store's reads. A service that does not sign sends the same
//! request for each object. So its request is captured once, and reads are written from it:
//! OpenDAL's layers cost as much as all else in a small read.
use std::sync::{Arc, Mutex};

use futures::{FutureExt, StreamExt};
use http::header::{IF_MATCH, RANGE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response, Uri};
use opendal::options::ReaderOptions;
use opendal::raw::percent_encode_path;
use opendal::{
    Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, OperationContext, Operator,
};

use crate::net::get::Route;

/// The placeholder of a key.
const KEY: &str = "leat-placeholder-key";

pub struct Template {
    /// The URL of an object without its key.
    before: String,
    headers: HeaderMap,
    pub route: Route,
}

impl Template {
    /// Returns None if reads have to be sent by `reader`. `reader` must not sign: its request is
    /// reused.
    pub fn of(reader: &Operator) -> Option<Self> {
        let captured = Arc::new(Mutex::new(None));
        let transport = HttpTransporter::new(CaptureTransport(captured.clone()));
        let context = OperationContext::new().with_http_transport(transport);
        let reader = reader.clone().with_context(context);
        let options = ReaderOptions {
            concurrent: 1,
            ..Default::default()
        };
        let request = async {
            let reader = reader.reader_options(KEY, options).await?;
            reader.into_stream(0..1).await?.next().await.transpose()
        };
        // Fails without waiting, since nothing is sent.
        let _ = request.now_or_never();
        let Parts { uri, headers, .. } = captured.lock().unwrap().take()?;
        let route = Route::to(&uri)?;
        let before = uri.to_string().strip_suffix(KEY)?.to_string();
        Some(Self {
            before,
            headers,
            route,
        })
    }

    /// Returns the GET of a range, which is not empty.
    pub fn request(
        &self,
        key: &str,
        offset: u64,
        size: u64,
        version: Option<&str>,
    ) -> Option<Parts> {
        let uri = format!("{}{}", self.before, percent_encode_path(key));
        let last = offset + (size - 1);
        let range = HeaderValue::try_from(format!("bytes={offset}-{last}")).ok()?;
        let mut request = Request::new(());
        *request.uri_mut() = Uri::try_from(uri).ok()?;
        let (mut parts, ()) = request.into_parts();
        parts.headers = self.headers.clone();
        parts.headers.insert(RANGE, range);
        if let Some(version) = version {
            parts
                .headers
                .insert(IF_MATCH, HeaderValue::try_from(version).ok()?);
        }
        Some(parts)
    }
}

/// Sends nothing.
struct CaptureTransport(Arc<Mutex<Option<Parts>>>);

impl HttpTransport for CaptureTransport {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        *self.0.lock().unwrap() = Some(request.into_parts().0);
        Err(Error::new(ErrorKind::NotFound, "nothing was sent"))
    }
}
