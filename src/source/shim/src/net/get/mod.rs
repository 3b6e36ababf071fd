// SPDX-License-Identifier: Apache-2.0
//! HEADs, and GETs of reads, without the stock client. A body goes from the socket straight into the
//! caller's memory. docs/design/0002-stores.md has the reasons and the rejected responses.
mod connect;
mod connection;
mod head;
mod pool;
mod response_reader;
mod route;
mod tls;

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, header};

use tokio::time::Instant;

use crate::core::target::Target;
use crate::core::timeouts::Timeouts;
use crate::net::lanes::{self, LANES_MAX};
use crate::net::traffic;
use connect::{Deadline, Resolver, connect};
use connection::until;
use head::{Framing, Head, write_request};
use pool::Pool;
use response_reader::{ResponseReader, Sink};
pub use route::Route;

/// Maximum size of an error response: the store's explanation.
pub const TEXT_MAX: usize = 64 << 10;

/// Idle connections that a store should have on each of the first lanes.
const WARM_OF_LANE: usize = 4;
/// Time limit of a connection that is made ahead.
const WARM_MAX: Duration = Duration::from_secs(10);

pub enum Fetched {
    /// The whole of the target is filled.
    Filled,
    /// Any response to a HEAD. Of those to a GET, all but successes, as far as they fit.
    Response(Response<Vec<u8>>),
    /// A redirect; the stock client follows it.
    Redirect,
}

#[derive(Default)]
pub struct Getter {
    /// One per lane: a connection belongs to the thread that made it.
    pools: [Arc<Pool>; LANES_MAX],
    resolver: Resolver,
}

impl Getter {
    /// Returns the getter of all stores of the process, so that they share connections.
    pub fn shared() -> &'static Self {
        static GETTER: OnceLock<Getter> = OnceLock::new();
        GETTER.get_or_init(Self::default)
    }

    /// Connects ahead, in the background. Otherwise a request to a far store waits for the
    /// connection as long as for the answer.
    pub fn warm(&'static self, route: &Route) {
        for lane in 0..lanes::LANES_MIN {
            let missing = self.pools[lane].take_missing(&route.origin, WARM_OF_LANE);
            for _ in 0..missing {
                lanes::spawn(lane, self.connect_ahead(lane, route.clone()));
            }
        }
    }

    async fn connect_ahead(&'static self, lane: usize, route: Route) {
        let deadline = Deadline {
            end: Instant::now() + WARM_MAX,
            limit: WARM_MAX,
        };
        let Route { origin, proxy } = route;
        let made = connect(&self.resolver, &origin, proxy.as_ref(), deadline).await;
        self.pools[lane].put_ahead(&origin, made.ok());
    }

    /// Sends one GET, or a HEAD, which has no target. `check` gets the head of a response before
    /// any of its body is used, and returns the number of body bytes before the target's.
    pub async fn get(
        &self,
        parts: &Parts,
        route: &Route,
        target: Option<&Target>,
        timeouts: Timeouts,
        check: impl FnOnce(StatusCode, &HeaderMap) -> opendal::Result<u64>,
    ) -> opendal::Result<Fetched> {
        let Route { origin, proxy } = route;
        let in_clear = proxy.as_ref().filter(|_| !origin.secure);
        let request = write_request(parts, in_clear.map(|proxy| proxy.basic_auth()));
        let what = "no bytes from the store";
        let limit = timeouts.first_byte;
        let end = Instant::now() + limit;
        let pool = &self.pools[lanes::current()];
        let mut idle = pool.take(origin);
        loop {
            let reused = idle.is_some();
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => {
                    let deadline = Deadline { end, limit };
                    // Large and rare.
                    let made = Box::pin(connect(&self.resolver, origin, proxy.as_ref(), deadline));
                    until(end, limit, what, made).await.map_err(broken)?
                }
            };
            let mut reader = ResponseReader::new(&mut connection, timeouts.idle);
            let response = send_and_read_head(&mut reader, &parts.method, &request);
            let head = match until(end, limit, what, response).await {
                // The server may have closed it while it was idle, without processing the request.
                Err(error) if reused && !reader.has_begun() && !is_timeout(&error) => continue,
                // A device on the path may have dropped all of them.
                Err(error) if reused && is_timeout(&error) => {
                    self.pools.iter().for_each(|pool| pool.close_idle(origin));
                    return Err(broken(error));
                }
                done => done.map_err(broken)?,
            };
            let skip = check(head.status, &head.headers)?;
            let keep_alive = head.keep_alive;
            let (fetched, ended) = take_body(&mut reader, head, target, skip)
                .await
                .map_err(broken)?;
            if reader.end() && ended && keep_alive {
                pool.put(origin, connection);
            }
            return Ok(fetched);
        }
    }
}

async fn send_and_read_head(
    reader: &mut ResponseReader<'_>,
    method: &Method,
    request: &[u8],
) -> io::Result<Head> {
    reader.send(request).await?;
    traffic::note_sent(method, 0);
    reader.head().await
}

fn is_timeout(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut
}

/// A network error is worth a retry; permanent errors have their own kind.
fn broken(error: io::Error) -> opendal::Error {
    let failure = opendal::Error::new(opendal::ErrorKind::Unexpected, error.to_string());
    match error.kind() {
        io::ErrorKind::InvalidInput => failure,
        _ => failure.set_temporary(),
    }
}

/// The second value: the response was read to its end.
async fn take_body(
    reader: &mut ResponseReader<'_>,
    head: Head,
    target: Option<&Target>,
    skip: u64,
) -> io::Result<(Fetched, bool)> {
    let Some(target) = target else {
        return Ok((Fetched::Response(response(head, Vec::new())), true));
    };
    if head.status.is_redirection() && head.headers.contains_key(header::LOCATION) {
        return Ok((Fetched::Redirect, false));
    }
    if !head.status.is_success() {
        // A cut text does not change the error response.
        let (text, ended) = reader.text(head.framing, TEXT_MAX).await;
        return Ok((Fetched::Response(response(head, text)), ended));
    }
    if skip > 0 || is_whole(&head, target) {
        return take_part_of_whole(reader, head.framing, target, skip).await;
    }
    // With another framing the length is verified only at the end.
    let reports_progress = matches!(head.framing, Framing::Length(_));
    if let Framing::Length(length) = head.framing {
        if length != target.size() as u64 {
            let text = format!("the store sends {length} bytes for {}", target.size());
            return Err(head::invalid_response(text));
        }
    }
    let mut sink = Sink::Target {
        target,
        filled: 0,
        reports_progress,
    };
    reader.body(head.framing, &mut sink).await?;
    if !sink.is_full() {
        return Err(sink.cut());
    }
    Ok((Fetched::Filled, true))
}

fn response(head: Head, text: Vec<u8>) -> Response<Vec<u8>> {
    let mut response = Response::new(text);
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

/// A checked 200 that is longer than the target.
fn is_whole(head: &Head, target: &Target) -> bool {
    let is_longer = |length| length > target.size() as u64;
    head.status == StatusCode::OK
        && matches!(head.framing, Framing::Length(length) if is_longer(length))
}

/// Receives the bytes after `skip` others, and does not wait for the rest.
async fn take_part_of_whole(
    reader: &mut ResponseReader<'_>,
    framing: Framing,
    target: &Target,
    skip: u64,
) -> io::Result<(Fetched, bool)> {
    reader.pass(skip, &mut Sink::discard()).await?;
    let mut sink = Sink::Target {
        target,
        filled: 0,
        reports_progress: true,
    };
    let size = target.size() as u64;
    reader.pass(size, &mut sink).await?;
    Ok((Fetched::Filled, framing == Framing::Length(skip + size)))
}
