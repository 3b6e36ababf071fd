// SPDX-License-Identifier: Apache-2.0
//! ResponseReader: a response that is being received. Its body goes to its destination, without other
//! buffers except for the few bytes that arrived with the head.
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use http::StatusCode;

use super::connection::{Connection, within};
use super::head::{Framing, Head, invalid_response, parse};
use crate::core::target::Target;
use crate::net::traffic::Received;

const HEAD_MAX: usize = 64 << 10;
/// Size of one receive while the head is awaited: body bytes in it have to be copied.
const INBOX_STEP: usize = 4 << 10;
/// Size of one receive of unwanted bytes.
const DISCARD_BYTES: usize = 64 << 10;

/// The destination of a body.
pub enum Sink<'a> {
    Target {
        target: &'a Target,
        filled: usize,
        /// Report progress: filled bytes are final, whatever follows.
        reports_progress: bool,
    },
    /// The bytes and their maximum number.
    Text(Vec<u8>, usize),
    /// Buffer for unwanted bytes.
    Discard(Vec<MaybeUninit<u8>>),
}

pub struct ResponseReader<'a> {
    connection: &'a mut Connection,
    /// Received and not used yet: from `at`.
    inbox: Vec<u8>,
    at: usize,
    begun: bool,
    idle_timeout: Duration,
    /// Statistics of the body.
    received: Received,
}

impl<'a> ResponseReader<'a> {
    pub fn new(connection: &'a mut Connection, idle_timeout: Duration) -> Self {
        Self {
            inbox: connection.take_inbox(),
            connection,
            at: 0,
            begun: false,
            idle_timeout,
            received: Received::default(),
        }
    }

    pub async fn send(&mut self, request: &[u8]) -> io::Result<()> {
        self.connection.send(request).await
    }

    /// Whether any byte has arrived.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns the head of the final response; skips interim ones. Has no limit of its own.
    pub async fn head(&mut self) -> io::Result<Head> {
        loop {
            match parse(&self.inbox[self.at..])? {
                Some((head, size)) => {
                    self.at += size;
                    if head.status == StatusCode::SWITCHING_PROTOCOLS {
                        return Err(invalid_response(
                            "the store answered 101 and speaks something else",
                        ));
                    }
                    if !head.status.is_informational() {
                        return Ok(head);
                    }
                }
                None => {
                    if self.inbox.len() - self.at >= HEAD_MAX {
                        return Err(invalid_response("the answer's head is too long"));
                    }
                    self.fill(Duration::MAX).await?;
                }
            }
        }
    }

    pub async fn body(&mut self, framing: Framing, sink: &mut Sink<'_>) -> io::Result<()> {
        match framing {
            Framing::Length(length) => self.pass(length, sink).await,
            // Rare, and a large future.
            Framing::Chunked => Box::pin(self.chunks(sink)).await,
            Framing::Close => self.until_closed(sink).await,
        }
    }

    /// Returns the text of an error response, up to `most` bytes and within one idle timeout: a
    /// cut text is better than none. The second value: the text is complete.
    pub async fn text(&mut self, framing: Framing, most: usize) -> (Vec<u8>, bool) {
        let mut sink = Sink::Text(Vec::new(), most);
        let timeout = self.idle_timeout;
        let body = Box::pin(self.body(framing, &mut sink));
        let ended = within(timeout, "no end of the store's text", body).await;
        (sink.into_text(), ended.is_ok())
    }

    /// Returns true if no unsolicited bytes followed the response: the connection may be reused.
    pub fn end(mut self) -> bool {
        let is_spent = self.at == self.inbox.len();
        self.inbox.clear();
        self.connection.return_inbox(self.inbox);
        is_spent
    }

    /// Receives more bytes into the inbox; fails if there are none.
    async fn fill(&mut self, timeout: Duration) -> io::Result<()> {
        if self.at > 0 {
            self.inbox.drain(..self.at);
            self.at = 0;
        }
        self.inbox.reserve(INBOX_STEP);
        let room = &mut self.inbox.spare_capacity_mut()[..INBOX_STEP];
        let received = receive(self.connection, timeout, room).await?;
        if received == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the store closed the connection before the end of its answer",
            ));
        }
        // SAFETY: that many bytes were received into it.
        unsafe { self.inbox.set_len(self.inbox.len() + received) };
        self.begun = true;
        Ok(())
    }

    pub async fn pass(&mut self, mut count: u64, sink: &mut Sink<'_>) -> io::Result<()> {
        while count > 0 {
            let waiting = self.inbox.len() - self.at;
            let direct = sink.room(count);
            if waiting == 0 && !direct.is_empty() {
                let received = receive(self.connection, self.idle_timeout, direct).await?;
                if received == 0 {
                    return Err(sink.cut());
                }
                self.received.add(received);
                sink.filled(received);
                count -= received as u64;
                continue;
            }
            if waiting == 0 {
                self.fill(self.idle_timeout).await?;
                continue;
            }
            let taken = waiting.min(usize::try_from(count).unwrap_or(usize::MAX));
            self.received.add(taken);
            sink.take(&self.inbox[self.at..self.at + taken])?;
            self.at += taken;
            count -= taken as u64;
        }
        Ok(())
    }

    async fn chunks(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        loop {
            let size = loop {
                let line = &self.inbox[self.at..];
                match httparse::parse_chunk_size(line) {
                    Ok(httparse::Status::Complete((used, size))) => {
                        self.at += used;
                        break size;
                    }
                    Ok(httparse::Status::Partial) if line.len() < HEAD_MAX => {
                        self.fill(self.idle_timeout).await?;
                    }
                    _ => return Err(invalid_response("the answer's chunks have no proper sizes")),
                }
            };
            if size == 0 {
                return self.trailers().await;
            }
            self.pass(size, sink).await?;
            self.end_of_chunk().await?;
        }
    }

    async fn end_of_chunk(&mut self) -> io::Result<()> {
        while self.inbox.len() - self.at < 2 {
            self.fill(self.idle_timeout).await?;
        }
        if !self.inbox[self.at..].starts_with(b"\r\n") {
            return Err(invalid_response(
                "a chunk of the answer is longer than its size",
            ));
        }
        self.at += 2;
        Ok(())
    }

    async fn trailers(&mut self) -> io::Result<()> {
        let mut read = 0;
        loop {
            match self.line().await? {
                0 => return Ok(()),
                size => read += size,
            }
            if read > HEAD_MAX {
                return Err(invalid_response("the answer's trailer is too long"));
            }
        }
    }

    /// Skips a line and returns its size without its end.
    async fn line(&mut self) -> io::Result<usize> {
        loop {
            let rest = &self.inbox[self.at..];
            if let Some(size) = rest.windows(2).position(|two| two == b"\r\n") {
                self.at += size + 2;
                return Ok(size);
            }
            if rest.len() > HEAD_MAX {
                return Err(invalid_response("a line of the answer is too long"));
            }
            self.fill(self.idle_timeout).await?;
        }
    }

    async fn until_closed(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        loop {
            let rest = &self.inbox[self.at..];
            self.received.add(rest.len());
            sink.take(rest)?;
            self.at = self.inbox.len();
            match self.fill(self.idle_timeout).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                done => done?,
            }
        }
    }
}

async fn receive(
    connection: &mut Connection,
    timeout: Duration,
    into: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    within(timeout, "no bytes from the store", connection.receive(into)).await
}

impl Sink<'_> {
    pub fn discard() -> Self {
        Sink::Discard(vec![MaybeUninit::uninit(); DISCARD_BYTES])
    }

    /// Returns memory for the next received bytes, if this sink has any.
    fn room(&mut self, count: u64) -> &mut [MaybeUninit<u8>] {
        match self {
            Sink::Target { target, filled, .. } => {
                // SAFETY: this sink is the only one of its target.
                let room = unsafe { target.from(*filled) };
                let size = room.len().min(usize::try_from(count).unwrap_or(usize::MAX));
                &mut room[..size]
            }
            Sink::Text(..) => &mut [],
            Sink::Discard(room) => {
                let size = room.len().min(usize::try_from(count).unwrap_or(usize::MAX));
                &mut room[..size]
            }
        }
    }

    fn filled(&mut self, count: usize) {
        if let Sink::Target {
            target,
            filled,
            reports_progress,
        } = self
        {
            *filled += count;
            if *reports_progress {
                target.arrived(*filled);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Target { target, filled, .. } => {
                if !target.write(*filled, bytes) {
                    let size = target.size();
                    return Err(invalid_response(format!(
                        "the body is longer than the {size} bytes asked"
                    )));
                }
                self.filled(bytes.len());
            }
            Sink::Text(text, most) => {
                let room = *most - text.len();
                text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    return Err(invalid_response("the store's explanation is too long"));
                }
            }
            Sink::Discard(_) => {}
        }
        Ok(())
    }

    fn into_text(self) -> Vec<u8> {
        match self {
            Sink::Text(text, _) => text,
            Sink::Target { .. } | Sink::Discard(_) => Vec::new(),
        }
    }

    /// Error text for a body that ended too early.
    pub fn cut(&self) -> io::Error {
        let text = match self {
            Sink::Target { target, filled, .. } => {
                format!("the body ended after {filled} of {} bytes", target.size())
            }
            Sink::Text(..) | Sink::Discard(_) => "the answer was cut".to_string(),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, text)
    }

    pub fn is_full(&self) -> bool {
        match self {
            Sink::Target { target, filled, .. } => *filled == target.size(),
            Sink::Text(..) | Sink::Discard(_) => true,
        }
    }
}
