// SPDX-License-Identifier: Apache-2.0
//! Sends the requests of all stores, records each in its own exchange, and checks that a response
//! is the requested range. Bytes of reads go straight into the caller's memory (`get`); the stock
//! client does everything else.
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::stream;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use opendal::raw::Operation;
use opendal::raw::oio::ReadStream;
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};

use crate::attempt::exchange::{EXCHANGE, Exchange, Purpose, Read};
use crate::attempt::explain::with_sources;
use crate::attempt::listing_document::{altered_names, check_listing, is_http_time, with_times};
use crate::attempt::response_check::check;
use crate::net::get::{Fetched, Getter, Route, TEXT_MAX};
use crate::net::stock_client::{self, StockClient};

/// Maximum size of a response that holds no object's bytes. A listing page with 1,000 names of
/// 1,024 bytes and their metadata is far smaller.
const PAGE_MAX: usize = 32 << 20;

pub struct ObservedTransport {
    stock: StockClient,
    /// The stock client follows redirects.
    follows: bool,
    /// Use the stock client for everything.
    stock_only: bool,
}

impl HttpTransport for ObservedTransport {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        if let Ok(Some(error)) = EXCHANGE.try_with(|exchange| exchange.take_held_error()) {
            return Ok(error.map(text_body));
        }
        // A blocked request may be sent by another attempt than the one that began it.
        let exchange = poll_fn(|_| match EXCHANGE.try_with(Arc::clone) {
            Ok(exchange) if !exchange.may_send() => Poll::Pending,
            found => Poll::Ready(found.ok()),
        });
        let Some(exchange) = exchange.await else {
            return self.stock.fetch(request).await;
        };
        match &exchange.purpose {
            Purpose::Other => self.send_bounded(&exchange, request).await,
            Purpose::Page => self.page(&exchange, request).await,
            // Further requests of a service, such as for a token, do not fill the target.
            Purpose::Read(_) if !is_read(&request) => self.send_bounded(&exchange, request).await,
            Purpose::Read(read) => self.read(&exchange, request, read).await,
        }
    }
}

/// As marked by the services.
fn is_read(request: &Request<Buffer>) -> bool {
    matches!(request.extensions().get(), Some(Operation::Read))
}

impl ObservedTransport {
    async fn send_stock(
        &self,
        exchange: &Exchange,
        request: Request<Buffer>,
    ) -> Result<Response<HttpBody>> {
        exchange.note_sending(request.uri());
        let note_error = |error: &Error| {
            if error.is_temporary() {
                exchange.note_unreachable(with_sources(error));
            }
        };
        let mut request = accepting(exchange, request);
        if !self.stock_only
            && request.method() == Method::HEAD
            && let Some(route) = Route::to(request.uri())
        {
            let (parts, body) = request.into_parts();
            let response = head(exchange, &parts, &route).await;
            let response = response.inspect_err(note_error)?;
            if !self.follows || !is_redirect(&response) {
                return Ok(response);
            }
            request = Request::from_parts(parts, body);
        }
        let sent = self.stock.fetch(request);
        let sent = within(exchange.timeouts.first_byte, STORE, sent).await;
        let response = sent.inspect_err(note_error)?;
        exchange.note(response.status(), response.headers());
        let response = without_bad_time(response);
        if response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let text = explanation(body, exchange.timeouts.idle).await;
        Ok(Response::from_parts(parts, text_body(text)))
    }

    /// Sends a request with a response that the service reads to its end, which must arrive.
    async fn send_bounded(
        &self,
        exchange: &Exchange,
        request: Request<Buffer>,
    ) -> Result<Response<HttpBody>> {
        let response = self.send_stock(exchange, request).await?;
        let idle = exchange.timeouts.idle;
        Ok(response.map(|body| {
            let pieces = stream::try_unfold((body, 0), move |(mut body, read)| async move {
                let piece = within(idle, STORE, body.read()).await?;
                let read = read + piece.len();
                if read > PAGE_MAX {
                    return Err(wrong_length(format!(
                        "the answer is longer than {PAGE_MAX} bytes"
                    )));
                }
                Ok((!piece.is_empty()).then_some((piece, (body, read))))
            });
            HttpBody::new(Box::pin(pieces), None)
        }))
    }

    async fn page(
        &self,
        exchange: &Exchange,
        request: Request<Buffer>,
    ) -> Result<Response<HttpBody>> {
        let response = self.send_bounded(exchange, request).await?;
        if response.status() != StatusCode::OK {
            return Ok(response);
        }
        let (parts, mut body) = response.into_parts();
        let mut text = Vec::new();
        loop {
            let piece = body.read().await?;
            if piece.is_empty() {
                break;
            }
            for bytes in piece {
                text.extend_from_slice(&bytes);
            }
        }
        check_listing(&String::from_utf8_lossy(&text))?;
        let text = with_times(text);
        exchange.note_page(altered_names(&String::from_utf8_lossy(&text)));
        Ok(Response::from_parts(parts, text_body(text)))
    }

    /// Fills the target and then fails with an unused error: the service would otherwise copy the
    /// bytes again. Error responses are returned, since the service knows its store's dialect.
    async fn read(
        &self,
        exchange: &Exchange,
        request: Request<Buffer>,
        read: &Read,
    ) -> Result<Response<HttpBody>> {
        let (mut parts, body) = request.into_parts();
        sign(exchange, read, &mut parts).await?;
        accept_as_stored(exchange, &mut parts);
        if !self.stock_only
            && parts.method == Method::GET
            && let Some(route) = Route::to(&parts.uri)
        {
            match get(exchange, read, &parts, &route).await? {
                Fetched::Filled => return Err(exchange.deliver()),
                Fetched::Response(error) => return Ok(error.map(text_body)),
                Fetched::Redirect => {}
            }
        }
        let requested = parts.headers.get(header::RANGE).cloned();
        let request = Request::from_parts(parts, body);
        let response = self.send_stock(exchange, request).await?;
        let target = &read.target;
        let mut skip = check(
            read,
            requested.as_ref(),
            response.status(),
            response.headers(),
        )?;
        if !response.status().is_success() {
            return Ok(response);
        }
        let is_whole = response.status() == StatusCode::OK;
        let mut body = response.into_body();
        let mut filled = 0;
        while filled < target.size() || !is_whole {
            let piece = within(exchange.timeouts.idle, STORE, body.read()).await?;
            if piece.is_empty() {
                break;
            }
            for bytes in piece {
                let skipped = bytes.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
                skip -= skipped as u64;
                let mut bytes = &bytes[skipped..];
                if is_whole {
                    bytes = &bytes[..bytes.len().min(target.size() - filled)];
                }
                if !target.write(filled, bytes) {
                    return Err(wrong_length(format!(
                        "the body is longer than the {} bytes asked",
                        target.size()
                    )));
                }
                filled += bytes.len();
            }
        }
        if filled < target.size() {
            return Err(wrong_length(format!(
                "the body ended after {filled} of {} bytes",
                target.size()
            )));
        }
        Err(exchange.deliver())
    }
}

/// Reads without the service. Any response but bytes is for the service to explain.
pub async fn read_directly(
    exchange: &Exchange,
    read: &Read,
    mut parts: Parts,
    route: &Route,
) -> Result<Fetched> {
    sign(exchange, read, &mut parts).await?;
    accept_as_stored(exchange, &mut parts);
    get(exchange, read, &parts, route).await
}

async fn sign(exchange: &Exchange, read: &Read, parts: &mut Parts) -> Result<()> {
    let Some(signer) = &read.signer else {
        return Ok(());
    };
    let signing = async {
        let signed = signer.sign(parts).await;
        signed.map_err(|error| unsigned(&error).with_temporary(error.is_retryable()))
    };
    let credential = within(exchange.timeouts.first_byte, "no credentials", signing).await?;
    if credential.is_none() {
        return Err(unsigned("failed to load signing credential"));
    }
    exchange.note_credential(credential);
    Ok(())
}

async fn get(exchange: &Exchange, read: &Read, parts: &Parts, route: &Route) -> Result<Fetched> {
    exchange.note_sending(&parts.uri);
    let requested = parts.headers.get(header::RANGE);
    let check_head = |status: StatusCode, headers: &HeaderMap| {
        exchange.note(status, headers);
        check(read, requested, status, headers)
    };
    let target = Some(read.target.as_ref());
    Getter::shared()
        .get(parts, route, target, exchange.timeouts, check_head)
        .await
}

/// Sends a HEAD without the stock client, and follows no redirect.
async fn head(exchange: &Exchange, parts: &Parts, route: &Route) -> Result<Response<HttpBody>> {
    let note = |status: StatusCode, headers: &HeaderMap| {
        exchange.note(status, headers);
        Ok(0)
    };
    let fetched = Getter::shared()
        .get(parts, route, None, exchange.timeouts, note)
        .await?;
    match fetched {
        Fetched::Response(response) => Ok(without_bad_time(response.map(text_body))),
        _ => Err(wrong_length("a HEAD has a body".to_string())),
    }
}

fn is_redirect(response: &Response<HttpBody>) -> bool {
    response.status().is_redirection() && response.headers().contains_key(header::LOCATION)
}

/// An unreadable time counts as none; it does not fail the request.
fn without_bad_time(mut response: Response<HttpBody>) -> Response<HttpBody> {
    let headers = response.headers_mut();
    let time = headers.get(header::LAST_MODIFIED);
    if time.is_some_and(|value| !value.to_str().is_ok_and(is_http_time)) {
        headers.remove(header::LAST_MODIFIED);
    }
    response
}

/// After the signature, since proxies change this header.
fn accept_as_stored(exchange: &Exchange, parts: &mut Parts) {
    let encoding = exchange.encoding(true);
    parts.headers.insert(header::ACCEPT_ENCODING, encoding);
}

/// For a request of the stock client: a HEAD must return the size that a read will find.
fn accepting(exchange: &Exchange, mut request: Request<Buffer>) -> Request<Buffer> {
    let is_head = request.method() == Method::HEAD;
    if is_head || request.method() == Method::GET {
        let encoding = exchange.encoding(is_head);
        let headers = request.headers_mut();
        headers.entry(header::ACCEPT_ENCODING).or_insert(encoding);
    }
    request
}

fn text_body(text: Vec<u8>) -> HttpBody {
    let size = text.len() as u64;
    HttpBody::new(stream::iter([Ok(Buffer::from(text))]), Some(size))
}

/// Returns the store's text of an error response: up to the size limit, and within `limit`. A cut
/// text is better than none.
async fn explanation(mut body: HttpBody, limit: Duration) -> Vec<u8> {
    let mut text = Vec::new();
    let _ = tokio::time::timeout(limit, async {
        while let Ok(piece) = body.read().await {
            if piece.is_empty() || text.len() >= TEXT_MAX {
                break;
            }
            for bytes in piece {
                text.extend_from_slice(&bytes);
            }
        }
    })
    .await;
    text.truncate(TEXT_MAX);
    text
}

fn wrong_length(text: String) -> Error {
    Error::new(ErrorKind::Unexpected, text).set_temporary()
}

/// Returns an error in the form of OpenDAL's own signer.
fn unsigned(why: impl std::fmt::Display) -> Error {
    let error = Error::new(ErrorKind::Unexpected, "signing http request");
    error.set_source(std::io::Error::other(why.to_string()))
}

const STORE: &str = "no bytes from the store";

/// A timeout is worth a retry.
async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let message = format!("{what} for {} ms", limit.as_millis());
        Err(Error::new(ErrorKind::Unexpected, message).set_temporary())
    })
}

/// Returns the transport of all stores.
pub fn http_transport() -> HttpTransporter {
    observed(StockClient::following(), true)
}

/// Like http_transport(), without following redirects.
pub fn direct_transport() -> HttpTransporter {
    observed(StockClient::direct(), false)
}

fn observed(stock: StockClient, follows: bool) -> HttpTransporter {
    HttpTransporter::new(ObservedTransport {
        stock,
        follows,
        stock_only: stock_client::is_forced(),
    })
}
