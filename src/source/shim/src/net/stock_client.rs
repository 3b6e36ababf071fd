// SPDX-License-Identifier: Apache-2.0
//! StockClient: reqwest with our proxies, TLS roots and counters. It sends everything but the reads
//! of `get`.
use std::error::Error as _;
use std::sync::OnceLock;
use std::time::Duration;

use futures::TryStreamExt;
use http::{Method, Request, Response};
use opendal::{Buffer, Error, HttpBody, HttpTransport, Result};
use opendal_http_transport_reqwest::ReqwestTransport;
use tower::util::MapResponseLayer;

use crate::net::proxy::Proxies;
use crate::net::tls_roots::tls_config;
use crate::net::traffic::{Received, note_connection, note_sent};

/// Counted at its end, when it is known whether it found a connection. A request that was abandoned
/// counts as sent.
struct Sending {
    method: Method,
    body: usize,
    was_sent: bool,
}

impl Drop for Sending {
    fn drop(&mut self) {
        if self.was_sent {
            note_sent(&self.method, self.body);
        }
    }
}

/// Requests of redirects that it follows by itself are not counted.
pub struct StockClient(ReqwestTransport);

impl StockClient {
    /// Returns the client that follows redirects. All stores share its connections.
    pub fn following() -> Self {
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        Self::of(CLIENT.get_or_init(|| client(reqwest::redirect::Policy::default())))
    }

    /// Like following(), but returns redirects to the caller.
    pub fn direct() -> Self {
        static CLIENT: OnceLock<reqwest::Client> = OnceLock::new();
        Self::of(CLIENT.get_or_init(|| client(reqwest::redirect::Policy::none())))
    }

    fn of(client: &reqwest::Client) -> Self {
        Self(ReqwestTransport::new(client.clone()))
    }

    pub async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let mut sending = Sending {
            method: request.method().clone(),
            body: request.body().len(),
            was_sent: true,
        };
        let response = self.0.fetch(request).await;
        sending.was_sent = !response.as_ref().is_err_and(was_not_sent);
        drop(sending);
        let mut received = Received::default();
        Ok(response?.map(|body| {
            body.map_inner(|pieces| {
                Box::new(pieces.inspect_ok(move |piece| received.add(piece.len())))
            })
        }))
    }
}

/// There was no connection, or the request was invalid.
fn was_not_sent(error: &Error) -> bool {
    let mut below = error.source();
    while let Some(cause) = below {
        if let Some(cause) = cause.downcast_ref::<reqwest::Error>() {
            return cause.is_connect() || cause.is_builder();
        }
        below = cause.source();
    }
    true
}

fn client(redirections: reqwest::redirect::Policy) -> reqwest::Client {
    reqwest::Client::builder()
        .tls_backend_preconfigured(rustls::ClientConfig::clone(&tls_config()))
        .http1_only()
        .redirect(redirections)
        .no_proxy()
        .proxy(reqwest::Proxy::custom(proxy_of))
        .pool_max_idle_per_host(256)
        .pool_idle_timeout(Duration::from_secs(30))
        .tcp_nodelay(true)
        .connect_timeout(Duration::from_secs(5))
        .connector_layer(connections())
        .build()
        .expect("constant settings of the HTTP client are valid")
}

fn proxy_of(url: &reqwest::Url) -> Option<String> {
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    Proxies::of_environment().url(host, port, url.scheme() == "https")
}

/// Whether LEAT_TRANSPORT forces the stock client for everything.
pub fn is_forced() -> bool {
    std::env::var("LEAT_TRANSPORT").is_ok_and(|value| value == "stock")
}

/// Counts the connections of a client.
fn connections<C>() -> MapResponseLayer<fn(C) -> C> {
    MapResponseLayer::new(|connection| {
        note_connection();
        connection
    })
}
