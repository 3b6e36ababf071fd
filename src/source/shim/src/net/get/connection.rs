// SPDX-License-Identifier: Apache-2.0
//! Connection: a socket, plain or under TLS. Bytes of a response go from it straight into the
//! memory of the request.
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::tls::{Next, Tls};

/// Bytes that a server may send after the handshake, before any response.
const TICKETS_MAX: usize = 16 << 10;

pub struct Connection {
    socket: TcpStream,
    tls: Option<Box<Tls>>,
    /// Bytes of the wire that TLS wants to send.
    outgoing: Vec<u8>,
    /// Memory for the heads of answers, empty.
    inbox: Vec<u8>,
}

impl Connection {
    pub fn plain(socket: TcpStream) -> Self {
        Self {
            socket,
            tls: None,
            outgoing: Vec::new(),
            inbox: Vec::new(),
        }
    }

    /// Performs the TLS handshake over a plain connection.
    pub async fn secure(
        self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        let mut secured = Self {
            tls: Some(Box::new(Tls::new(config, name)?)),
            ..self
        };
        loop {
            match secured.step(&mut []).await? {
                Next::Ready => return Ok(secured),
                Next::Closed => return Err(closed()),
                _ => {}
            }
        }
    }

    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return self.socket.write_all(bytes).await;
        };
        tls.encrypt(bytes, &mut self.outgoing)?;
        self.send_outgoing().await
    }

    /// Receives at least one byte into `into`, or returns 0 if the other side has ended.
    pub async fn receive(&mut self, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
        if self.tls.is_none() {
            return receive_from(&mut self.socket, into).await;
        }
        loop {
            match self.step(into).await? {
                Next::Plain(count) => return Ok(count),
                Next::Closed => return Ok(0),
                // The received bytes hold no plaintext.
                Next::Ready => {
                    if !self.receive_wire().await? {
                        return Err(closed());
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether it can carry another request: nothing has arrived since the last response, not even
    /// its end. Never waits.
    pub fn is_idle(&mut self) -> bool {
        let mut bytes = [0; 1024];
        match self.socket.try_read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                !self.tls.as_ref().is_some_and(|tls| tls.has_unread())
            }
            // Servers send session tickets after the handshake, which belong to no response.
            Ok(count) if count > 0 && self.tls.is_some() => {
                self.take_tickets(&bytes[..count]).unwrap_or(false)
            }
            _ => false,
        }
    }

    /// Whether `first`, and the bytes after it, are whole messages of TLS that need no answer.
    fn take_tickets(&mut self, first: &[u8]) -> io::Result<bool> {
        let mut wire = first.to_vec();
        let mut more = [0; 1024];
        loop {
            match self.socket.try_read(&mut more) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Ok(count) if count > 0 && wire.len() < TICKETS_MAX => {
                    wire.extend_from_slice(&more[..count]);
                }
                _ => return Ok(false),
            }
        }
        let tls = self.tls.as_mut().expect("only called under TLS");
        let room = tls.room();
        if room.len() < wire.len() {
            return Ok(false);
        }
        room[..wire.len()].copy_from_slice(&wire);
        tls.received(wire.len());
        let is_ready = matches!(tls.advance(&mut [], &mut self.outgoing)?, Next::Ready);
        let is_quiet = is_ready && self.outgoing.is_empty() && !tls.has_unread();
        tls.release_buffers();
        Ok(is_quiet)
    }

    pub fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    pub fn return_inbox(&mut self, inbox: Vec<u8>) {
        self.inbox = inbox;
    }

    pub fn release_buffers(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.release_buffers();
        }
    }

    /// Advances TLS by one step, with the traffic that it needs.
    async fn step(&mut self, into: &mut [MaybeUninit<u8>]) -> io::Result<Next> {
        let tls = self.tls.as_mut().expect("only called under TLS");
        let next = tls.advance(into, &mut self.outgoing)?;
        match next {
            Next::Send => self.send_outgoing().await?,
            Next::Receive => {
                if !self.receive_wire().await? {
                    return Err(closed());
                }
            }
            _ => {}
        }
        Ok(next)
    }

    async fn send_outgoing(&mut self) -> io::Result<()> {
        self.socket.write_all(&self.outgoing).await?;
        self.outgoing.clear();
        Ok(())
    }

    /// Returns false at the end of the stream.
    async fn receive_wire(&mut self) -> io::Result<bool> {
        let tls = self.tls.as_mut().expect("only called under TLS");
        let room = tls.room();
        if room.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a TLS record is larger than TLS allows",
            ));
        }
        let count = tokio::io::AsyncReadExt::read(&mut self.socket, room).await?;
        tls.received(count);
        Ok(count > 0)
    }
}

async fn receive_from(socket: &mut TcpStream, into: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    let mut buffer = ReadBuf::uninit(into);
    std::future::poll_fn(|context| {
        std::pin::Pin::new(&mut *socket).poll_read(context, &mut buffer)
    })
    .await?;
    Ok(buffer.filled().len())
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the connection was closed by the store",
    )
}

/// Runs `work` for at most `limit`.
pub async fn within<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let end = Instant::now().checked_add(limit);
    match end {
        Some(end) => until(end, limit, what, work).await,
        None => work.await,
    }
}

/// Runs `work` until `end`; `limit` is the whole time, for messages.
pub async fn until<T>(
    end: Instant,
    limit: Duration,
    what: &str,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    tokio::time::timeout_at(end, work)
        .await
        .unwrap_or_else(|_| {
            let message = format!("{what} for {} ms", limit.as_millis());
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
}
