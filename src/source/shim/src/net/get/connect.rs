// SPDX-License-Identifier: Apache-2.0
//! Connect: from an origin to a connection: names, addresses, proxies, TLS.
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use hyper_util::client::proxy::matcher::Intercept;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::connection::{Connection, until};
use super::route::Origin;
use crate::net::tls_roots::tls_config;
use crate::net::traffic;

/// Per address; the next one may answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);
const NAMES_MAX_AGE: Duration = Duration::from_secs(30);
const CONNECT_HEAD_MAX: usize = 16 << 10;

/// Time limit of a connection set-up.
#[derive(Clone, Copy)]
pub struct Deadline {
    pub end: Instant,
    /// The whole limit from the start, for messages.
    pub limit: Duration,
}

impl Deadline {
    /// Runs one of the steps; `alternatives` share the time that is left.
    async fn step<T>(
        self,
        alternatives: usize,
        what: &str,
        work: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let now = Instant::now();
        let share = self.end.saturating_duration_since(now) / alternatives as u32;
        let limit = CONNECT_MAX.min(self.limit / alternatives as u32);
        until(now + CONNECT_MAX.min(share), limit, what, work).await
    }
}

struct Resolved {
    addresses: Vec<SocketAddr>,
    since: Instant,
    next: usize,
}

/// Resolves names when a connection is made and caches them for a while; connections use the
/// addresses of a name in turn.
#[derive(Default)]
pub struct Resolver {
    cache: Mutex<HashMap<(String, u16), Resolved>>,
}

impl Resolver {
    /// Returns all addresses, the next in turn first.
    async fn addresses(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let key = (host.to_string(), port);
        if let Some(addresses) = self.cached(&key) {
            return Ok(addresses);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let mut addresses: Vec<_> = tokio::net::lookup_host((bare, port))
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("resolving {host}: {error}")))?
            .collect();
        addresses.dedup();
        if addresses.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{host} has no address"),
            ));
        }
        self.cache.lock().unwrap().insert(
            key,
            Resolved {
                addresses: addresses.clone(),
                since: Instant::now(),
                next: 1,
            },
        );
        Ok(addresses)
    }

    fn cached(&self, key: &(String, u16)) -> Option<Vec<SocketAddr>> {
        let mut cache = self.cache.lock().unwrap();
        let resolved = cache.get_mut(key)?;
        if resolved.since.elapsed() >= NAMES_MAX_AGE {
            cache.remove(key);
            return None;
        }
        let count = resolved.addresses.len();
        let first = resolved.next % count;
        resolved.next = first + 1;
        let rotated = resolved.addresses.iter().cycle().skip(first).take(count);
        Some(rotated.copied().collect())
    }

    /// Moves an address that did not answer to the end, so that the next connection starts with
    /// another.
    fn demote(&self, host: &str, port: u16, unresponsive: SocketAddr) {
        let mut cache = self.cache.lock().unwrap();
        if let Some(resolved) = cache.get_mut(&(host.to_string(), port)) {
            if let Some(at) = resolved
                .addresses
                .iter()
                .position(|one| *one == unresponsive)
            {
                let address = resolved.addresses.remove(at);
                resolved.addresses.push(address);
                resolved.next = 0;
            }
        }
    }

    async fn connect(&self, host: &str, port: u16, deadline: Deadline) -> io::Result<TcpStream> {
        let what = format!("resolving {host}: no answer from the name service");
        let addresses = deadline.step(1, &what, self.addresses(host, port)).await?;
        let mut last = None;
        let count = addresses.len();
        for (index, address) in addresses.into_iter().enumerate() {
            let attempt = TcpStream::connect(address);
            let step = deadline.step(count - index, "no answer to a connection", attempt);
            match step.await {
                Ok(socket) => {
                    traffic::note_connection();
                    socket.set_nodelay(true)?;
                    return Ok(socket);
                }
                Err(error) => {
                    self.demote(host, port, address);
                    let text = format!("connecting to {address}: {error}");
                    last = Some(io::Error::new(error.kind(), text));
                }
            }
        }
        Err(last.expect("there was an address"))
    }
}

pub async fn connect(
    resolver: &Resolver,
    origin: &Origin,
    proxy: Option<&Intercept>,
    deadline: Deadline,
) -> io::Result<Connection> {
    let (host, port) = match proxy {
        None => (origin.host.as_str(), origin.port),
        Some(proxy) => (
            proxy.uri().host().unwrap_or_default(),
            proxy.uri().port_u16().unwrap_or(80),
        ),
    };
    let socket = resolver.connect(host, port, deadline).await?;
    let mut connection = Connection::plain(socket);
    if !origin.secure {
        return Ok(connection);
    }
    if let Some(proxy) = proxy {
        let tunnelled = tunnel(&mut connection, origin, proxy);
        deadline
            .step(1, "no answer from the proxy", tunnelled)
            .await?;
    }
    let bare = origin.host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(bare.to_string())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let handshake = connection.secure(tls_config(), name);
    deadline
        .step(1, "no end of the handshake", handshake)
        .await
        .map_err(|error| no_tls(&origin.host, error))
}

/// An untrusted certificate is also untrusted in the next attempt.
fn no_tls(host: &str, error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    if matches!(cause, Some(rustls::Error::InvalidCertificate(_))) {
        let text = format!(
            "TLS with {host}: {error}; authorities beyond the system's are trusted when \
             AWS_CA_BUNDLE names a file with them"
        );
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    io::Error::new(error.kind(), format!("TLS with {host}: {error}"))
}

/// Asks an HTTP proxy to carry bytes to the origin (RFC 9110, 9.3.6).
async fn tunnel(connection: &mut Connection, origin: &Origin, proxy: &Intercept) -> io::Result<()> {
    let target = format!("{}:{}", origin.host, origin.port);
    let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
    if let Some(auth) = proxy.basic_auth().and_then(|value| value.to_str().ok()) {
        head.push_str(&format!("Proxy-Authorization: {auth}\r\n"));
    }
    head.push_str("\r\n");
    connection.send(head.as_bytes()).await?;
    // Reads byte by byte: bytes after the head belong to the origin, and there is only one head.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [MaybeUninit::new(0)];
        if connection.receive(&mut byte).await? == 0 || answer.len() == CONNECT_HEAD_MAX {
            return Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                "the proxy did not answer as a proxy",
            ));
        }
        // SAFETY: it was initialised above.
        answer.push(unsafe { byte[0].assume_init() });
    }
    let line = String::from_utf8_lossy(&answer);
    let line = line.lines().next().unwrap_or_default();
    // For messages: limited in length, without control characters.
    let shown: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
    if line
        .split(' ')
        .nth(1)
        .is_some_and(|status| status.starts_with('2'))
    {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::ConnectionRefused,
        format!("the proxy refused to connect to {target}: {shown}"),
    ))
}
