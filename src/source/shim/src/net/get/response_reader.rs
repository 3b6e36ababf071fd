// SPDX-License-Identifier: Apache-2.0
//! Answer: a response that is being received. Its body goes to its destination, without other
//! buffers except for the few bytes that arrived with the head.
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use http::StatusCode;

use super::connection::{Connection, within};
use super::head::{Framing, Head, bad_answer, parse};
use crate::core::target::Target;
use crate::net::traffic::Received;

const HEAD_MAX: usize = 64 << 10;
/// Size of one receive while the head is awaited: body bytes in it have to be copied.
const INBOX_STEP: usize = 4 << 10;
/// Size of one receive of unwanted bytes.
const NOWHERE_BYTES: usize = 64 << 10;

/// Where a body goes.
pub enum Sink<'a> {
    Target {
        target: &'a Target,
        filled: usize,
        /// Report progress: filled bytes are final, whatever follows.
        tells: bool,
    },
    /// The bytes and their maximum number.
    Text(Vec<u8>, usize),
    /// Buffer for unwanted bytes.
    Nowhere(Vec<MaybeUninit<u8>>),
}

pub struct Answer<'a> {
    connection: &'a mut Connection,
    /// Received and not used yet: from `at`.
    inbox: Vec<u8>,
    at: usize,
    begun: bool,
    silence: Duration,
    /// Statistics of the body.
    received: Received,
}

impl<'a> Answer<'a> {
    pub fn new(connection: &'a mut Connection, silence: Duration) -> Self {
        Self {
            inbox: connection.take_inbox(),
            connection,
            at: 0,
            begun: false,
            silence,
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
                        return Err(bad_answer(
                            "the store answered 101 and speaks something else",
                        ));
                    }
                    if !head.status.is_informational() {
                        return Ok(head);
                    }
                }
                None => {
                    if self.inbox.len() - self.at >= HEAD_MAX {
                        return Err(bad_answer("the answer's head is too long"));
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

    /// Returns the text of an error response, up to `most` bytes and within one silence limit: a
    /// cut text is better than none. The second value: the text is complete.
    pub async fn text(&mut self, framing: Framing, most: usize) -> (Vec<u8>, bool) {
        let mut sink = Sink::Text(Vec::new(), most);
        let patience = self.silence;
        let body = Box::pin(self.body(framing, &mut sink));
        let ended = within(patience, "no end of the store's text", body).await;
        (sink.into_text(), ended.is_ok())
    }

    /// Returns true if no unsolicited bytes followed the response: the connection may be reused.
    pub fn end(mut self) -> bool {
        let is_spent = self.at == self.inbox.len();
        self.inbox.clear();
        self.connection.keep_inbox(self.inbox);
        is_spent
    }

    /// Receives more bytes into the inbox; fails if there are none.
    async fn fill(&mut self, patience: Duration) -> io::Result<()> {
        if self.at > 0 {
            self.inbox.drain(..self.at);
            self.at = 0;
        }
        self.inbox.reserve(INBOX_STEP);
        let room = &mut self.inbox.spare_capacity_mut()[..INBOX_STEP];
        let received = receive(self.connection, patience, room).await?;
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
                let received = receive(self.connection, self.silence, direct).await?;
                if received == 0 {
                    return Err(sink.cut());
                }
                self.received.add(received);
                sink.filled(received);
                count -= received as u64;
                continue;
            }
            if waiting == 0 {
                self.fill(self.silence).await?;
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
                        self.fill(self.silence).await?;
                    }
                    _ => return Err(bad_answer("the answer's chunks have no proper sizes")),
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
            self.fill(self.silence).await?;
        }
        if !self.inbox[self.at..].starts_with(b"\r\n") {
            return Err(bad_answer("a chunk of the answer is longer than its size"));
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
                return Err(bad_answer("the answer's trailer is too long"));
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
                return Err(bad_answer("a line of the answer is too long"));
            }
            self.fill(self.silence).await?;
        }
    }

    async fn until_closed(&mut self, sink: &mut Sink<'_>) -> io::Result<()> {
        loop {
            let come = &self.inbox[self.at..];
            self.received.add(come.len());
            sink.take(come)?;
            self.at = self.inbox.len();
            match self.fill(self.silence).await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                done => done?,
            }
        }
    }
}

async fn receive(
    connection: &mut Connection,
    patience: Duration,
    into: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    within(
        patience,
        "no bytes from the store",
        connection.receive(into),
    )
    .await
}

impl Sink<'_> {
    pub fn nowhere() -> Self {
        Sink::Nowhere(vec![MaybeUninit::uninit(); NOWHERE_BYTES])
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
            Sink::Nowhere(room) => {
                let size = room.len().min(usize::try_from(count).unwrap_or(usize::MAX));
                &mut room[..size]
            }
        }
    }

    fn filled(&mut self, count: usize) {
        if let Sink::Target {
            target,
            filled,
            tells,
        } = self
        {
            *filled += count;
            if *tells {
                target.arrived(*filled);
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Target { target, filled, .. } => {
                if !target.write(*filled, bytes) {
                    let size = target.size();
                    return Err(bad_answer(format!(
                        "the body is longer than the {size} bytes asked"
                    )));
                }
                self.filled(bytes.len());
            }
            Sink::Text(text, most) => {
                let room = *most - text.len();
                text.extend_from_slice(&bytes[..bytes.len().min(room)]);
                if bytes.len() > room {
                    return Err(bad_answer("the store's explanation is too long"));
                }
            }
            Sink::Nowhere(_) => {}
        }
        Ok(())
    }

    fn into_text(self) -> Vec<u8> {
        match self {
            Sink::Text(text, _) => text,
            Sink::Target { .. } | Sink::Nowhere(_) => Vec::new(),
        }
    }

    /// Error text for a body that ended too early.
    pub fn cut(&self) -> io::Error {
        let text = match self {
            Sink::Target { target, filled, .. } => {
                format!("the body ended after {filled} of {} bytes", target.size())
            }
            Sink::Text(..) | Sink::Nowhere(_) => "the answer was cut".to_string(),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, text)
    }

    pub fn is_full(&self) -> bool {
        match self {
            Sink::Target { target, filled, .. } => *filled == target.size(),
            Sink::Text(..) | Sink::Nowhere(_) => true,
        }
    }
}
