// SPDX-License-Identifier: Apache-2.0
//! Route: the path of requests to a store, possibly through a proxy.
use http::Uri;
use hyper_util::client::proxy::matcher::Intercept;

use crate::net::proxy::Proxies;

/// The destination of a connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    pub secure: bool,
    pub host: String,
    pub port: u16,
    /// `host:port` of the proxy on the route.
    pub proxy: Option<String>,
}

#[derive(Clone)]
pub struct Route {
    pub origin: Origin,
    pub proxy: Option<Intercept>,
}

impl Route {
    /// Returns None if only the stock client knows a route.
    pub fn to(uri: &Uri) -> Option<Self> {
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return None,
        };
        let host = uri.host()?.to_string();
        let proxy = Proxies::of_environment().intercept(uri);
        if proxy.as_ref().is_some_and(|proxy| !can_use(proxy)) {
            return None;
        }
        let between = proxy.as_ref().and_then(|proxy| proxy.uri().authority());
        let origin = Origin {
            secure,
            host,
            port: uri.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            proxy: between.map(|authority| authority.to_string()),
        };
        Some(Self { origin, proxy })
    }
}

fn can_use(proxy: &Intercept) -> bool {
    proxy.uri().scheme_str() == Some("http") && proxy.uri().host().is_some()
}
