// SPDX-License-Identifier: Apache-2.0
//! Proxies of the environment, for both clients. The variables are curl's: http_proxy, https_proxy,
//! all_proxy and no_proxy; lower case has priority.
use std::net::IpAddr;
use std::sync::OnceLock;

use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};

pub struct Proxies {
    matcher: Matcher,
    http: Option<Variable>,
    https: Option<Variable>,
    bypass: Vec<Bypass>,
}

/// A variable that is set.
#[derive(Clone)]
struct Variable {
    name: &'static str,
    value: String,
}

/// A host that is reached without a proxy.
enum Bypass {
    All,
    Network(IpAddr, u8),
    Name(String, Option<u16>),
    Address(IpAddr, Option<u16>),
}

impl Proxies {
    pub fn of_environment() -> &'static Self {
        static PROXIES: OnceLock<Proxies> = OnceLock::new();
        PROXIES.get_or_init(|| {
            let all = first_of(&["all_proxy", "ALL_PROXY"]);
            // In a CGI program HTTP_PROXY is a header of its request.
            let http = match std::env::var_os("REQUEST_METHOD") {
                None => first_of(&["http_proxy", "HTTP_PROXY"]),
                Some(_) => first_of(&["http_proxy"]),
            };
            let https = first_of(&["https_proxy", "HTTPS_PROXY"]);
            let no = first_of(&["no_proxy", "NO_PROXY"]);
            let value = |one: &Option<Variable>| one.as_ref().map(|one| one.value.clone());
            Self {
                matcher: Matcher::builder()
                    .all(value(&all).unwrap_or_default())
                    .http(value(&http).unwrap_or_default())
                    .https(value(&https).unwrap_or_default())
                    .build(),
                http: http.or_else(|| all.clone()),
                https: https.or(all),
                bypass: bypasses(&value(&no).unwrap_or_default()),
            }
        })
    }

    pub fn intercept(&self, uri: &Uri) -> Option<Intercept> {
        match self.is_bypassed(uri.host()?, port_of(uri)) {
            true => None,
            false => self.matcher.intercept(uri),
        }
    }

    /// Returns the proxy's URL as in the environment, credentials included.
    pub fn url(&self, host: &str, port: u16, is_secure: bool) -> Option<String> {
        let variable = match is_secure {
            true => self.https.as_ref(),
            false => self.http.as_ref(),
        };
        let variable = variable.filter(|_| !self.is_bypassed(host, port));
        variable.map(|variable| variable.value.clone())
    }

    /// Names the proxy for messages: "127.0.0.1:3128, which https_proxy names".
    pub fn name(&self, uri: &Uri) -> Option<String> {
        let proxy = self.intercept(uri)?;
        let authority = proxy.uri().authority()?.as_str();
        let variable = match uri.scheme_str() {
            Some("https") => self.https.as_ref(),
            _ => self.http.as_ref(),
        };
        let address = authority.rsplit('@').next().unwrap_or_default();
        Some(format!("{address}, which {} names", variable?.name))
    }

    /// As in curl (CURLOPT_NOPROXY), and by port if an entry has one.
    fn is_bypassed(&self, host: &str, port: u16) -> bool {
        let host = bare(host);
        let address = host.parse::<IpAddr>().ok();
        self.bypass.iter().any(|bypass| match bypass {
            Bypass::All => true,
            Bypass::Network(network, bits) => {
                address.is_some_and(|address| is_within(address, *network, *bits))
            }
            Bypass::Address(known, at) => address == Some(*known) && at.is_none_or(|at| at == port),
            Bypass::Name(name, at) => {
                address.is_none() && is_below(host, name) && at.is_none_or(|at| at == port)
            }
        })
    }
}

fn first_of(names: &[&'static str]) -> Option<Variable> {
    names.iter().copied().find_map(|name| {
        let value = std::env::var(name).ok()?;
        (!value.is_empty()).then_some(Variable { name, value })
    })
}

fn port_of(uri: &Uri) -> u16 {
    let default = match uri.scheme_str() {
        Some("https") => 443,
        _ => 80,
    };
    uri.port_u16().unwrap_or(default)
}

/// Returns the host without brackets and the root's dot.
fn bare(host: &str) -> &str {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn bypasses(list: &str) -> Vec<Bypass> {
    let entries = list.split([',', ' ', '\t', '\n']);
    entries
        .filter(|entry| !entry.is_empty())
        .map(bypass)
        .collect()
}

fn bypass(entry: &str) -> Bypass {
    if entry == "*" {
        return Bypass::All;
    }
    let network = entry.split_once('/').and_then(|(address, bits)| {
        Some(Bypass::Network(
            bare(address).parse().ok()?,
            bits.parse().ok()?,
        ))
    });
    if let Some(network) = network {
        return network;
    }
    if let Ok(address) = bare(entry).parse() {
        return Bypass::Address(address, None);
    }
    let with_port = entry.rsplit_once(':');
    let (host, port) = match with_port.and_then(|(host, port)| Some((host, port.parse().ok()?))) {
        Some((host, port)) => (host, Some(port)),
        None => (entry, None),
    };
    match bare(host).parse() {
        Ok(address) => Bypass::Address(address, port),
        Err(_) => Bypass::Name(bare(host).trim_start_matches('.').to_string(), port),
    }
}

/// Whether `host` is `name`, or a name in that domain.
fn is_below(host: &str, name: &str) -> bool {
    let Some(start) = host.len().checked_sub(name.len()) else {
        return false;
    };
    let is_end = host
        .get(start..)
        .is_some_and(|end| end.eq_ignore_ascii_case(name));
    !name.is_empty() && is_end && (start == 0 || host.as_bytes()[start - 1] == b'.')
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, size): (u128, u128, u32) = match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    match size.checked_sub(u32::from(bits)) {
        None => false,
        Some(128) => true,
        Some(free) => address >> free == network >> free,
    }
}
