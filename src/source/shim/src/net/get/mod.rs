// SPDX-License-Identifier: Apache-2.0
//! GETs of reads, without the stock client: the body goes from the socket straight into the
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

use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, header};

use tokio::time::Instant;

use crate::core::target::Target;
use crate::core::timeouts::Timeouts;
use crate::net::lanes::{self, LANES_MAX};
use crate::net::traffic;
use connect::{Patience, Resolver, connect};
use connection::until;
use head::{Framing, Head, write_request};
use pool::Pool;
use response_reader::{Answer, Sink};
pub use route::Way;

/// Maximum size of an error response: the store's explanation.
pub const TEXT_MAX: usize = 64 << 10;

pub enum Got {
    /// The whole of the target is filled.
    Bytes,
    /// Any response but a success, as far as it fits.
    Refusal(Response<Vec<u8>>),
    /// A redirect; the stock client follows it.
    Elsewhere,
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

    /// Sends one GET. `check` gets the head of a response before any of its body is used, and
    /// returns the number of body bytes before the target's.
    pub async fn get(
        &self,
        parts: &Parts,
        way: &Way,
        target: &Target,
        timeouts: Timeouts,
        check: impl FnOnce(StatusCode, &HeaderMap) -> opendal::Result<u64>,
    ) -> opendal::Result<Got> {
        let Way { origin, proxy } = way;
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
                    let patience = Patience { end, limit };
                    // Large and rare.
                    let made = Box::pin(connect(&self.resolver, origin, proxy.as_ref(), patience));
                    until(end, limit, what, made).await.map_err(broken)?
                }
            };
            let mut answer = Answer::new(&mut connection, timeouts.idle);
            let asked = ask(&mut answer, &request);
            let head = match until(end, limit, what, asked).await {
                // The server may have closed it while it was idle, without processing the request.
                Err(error) if reused && !answer.has_begun() && !is_silence(&error) => continue,
                // A device on the path may have dropped all of them.
                Err(error) if reused && is_silence(&error) => {
                    self.pools.iter().for_each(|pool| pool.forget(origin));
                    return Err(broken(error));
                }
                done => done.map_err(broken)?,
            };
            let skip = check(head.status, &head.headers)?;
            let keeps = head.keeps;
            let (got, ended) = take_body(&mut answer, head, target, skip)
                .await
                .map_err(broken)?;
            if answer.end() && ended && keeps {
                pool.give(origin, connection);
            }
            return Ok(got);
        }
    }
}

async fn ask(answer: &mut Answer<'_>, request: &[u8]) -> io::Result<Head> {
    answer.send(request).await?;
    traffic::note_sent(&Method::GET, 0);
    answer.head().await
}

fn is_silence(error: &io::Error) -> bool {
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
    answer: &mut Answer<'_>,
    head: Head,
    target: &Target,
    skip: u64,
) -> io::Result<(Got, bool)> {
    if head.status.is_redirection() && head.headers.contains_key(header::LOCATION) {
        return Ok((Got::Elsewhere, false));
    }
    if !head.status.is_success() {
        // A cut text does not change the error response.
        let (text, ended) = answer.text(head.framing, TEXT_MAX).await;
        let mut refusal = Response::new(text);
        *refusal.status_mut() = head.status;
        *refusal.headers_mut() = head.headers;
        return Ok((Got::Refusal(refusal), ended));
    }
    if skip > 0 || is_whole(&head, target) {
        return take_part_of_whole(answer, head.framing, target, skip).await;
    }
    // With another framing the length is verified only at the end.
    let tells = matches!(head.framing, Framing::Length(_));
    if let Framing::Length(length) = head.framing {
        if length != target.size() as u64 {
            let text = format!("the store sends {length} bytes for {}", target.size());
            return Err(head::bad_answer(text));
        }
    }
    let mut sink = Sink::Target {
        target,
        filled: 0,
        tells,
    };
    answer.body(head.framing, &mut sink).await?;
    if !sink.is_full() {
        return Err(sink.cut());
    }
    Ok((Got::Bytes, true))
}

/// A checked 200 that is longer than the target.
fn is_whole(head: &Head, target: &Target) -> bool {
    let is_longer = |length| length > target.size() as u64;
    head.status == StatusCode::OK
        && matches!(head.framing, Framing::Length(length) if is_longer(length))
}

/// Receives the bytes after `skip` others, and does not wait for the rest.
async fn take_part_of_whole(
    answer: &mut Answer<'_>,
    framing: Framing,
    target: &Target,
    skip: u64,
) -> io::Result<(Got, bool)> {
    answer.pass(skip, &mut Sink::nowhere()).await?;
    let mut sink = Sink::Target {
        target,
        filled: 0,
        tells: true,
    };
    let size = target.size() as u64;
    answer.pass(size, &mut sink).await?;
    Ok((Got::Bytes, framing == Framing::Length(skip + size)))
}
