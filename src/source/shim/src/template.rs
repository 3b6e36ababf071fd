// SPDX-License-Identifier: Apache-2.0
//! Template: what the reads of a store have in common. A service that leaves signing to us asks for
//! each object in the same way, so it is asked once what it would send, and its reads are written
//! from that: OpenDAL's way through its layers costs as much as all else a small read does.
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

use crate::get::Way;

/// A key that stands for all.
const KEY: &str = "leat-asks-how-to-read";

pub struct Template {
    /// The URL of an object without its key.
    before: String,
    headers: HeaderMap,
    pub way: Way,
}

impl Template {
    /// Nothing where reads have to be left to `reader`, which must send what it sends unsigned.
    pub fn of(reader: &Operator) -> Option<Self> {
        let caught = Arc::new(Mutex::new(None));
        let transport = HttpTransporter::new(Catcher(caught.clone()));
        let context = OperationContext::new().with_http_transport(transport);
        let reader = reader.clone().with_context(context);
        let options = ReaderOptions {
            concurrent: 1,
            ..Default::default()
        };
        let asked = async {
            let reader = reader.reader_options(KEY, options).await?;
            reader.into_stream(0..1).await?.next().await.transpose()
        };
        // It fails, and never waits, since nothing is sent.
        let _ = asked.now_or_never();
        let Parts { uri, headers, .. } = caught.lock().unwrap().take()?;
        let way = Way::to(&uri)?;
        let before = uri.to_string().strip_suffix(KEY)?.to_string();
        Some(Self {
            before,
            headers,
            way,
        })
    }

    /// The GET of a range, which is not empty.
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
struct Catcher(Arc<Mutex<Option<Parts>>>);

impl HttpTransport for Catcher {
    async fn fetch(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        *self.0.lock().unwrap() = Some(request.into_parts().0);
        Err(Error::new(ErrorKind::NotFound, "nothing was sent"))
    }
}
