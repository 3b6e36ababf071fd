// SPDX-License-Identifier: Apache-2.0
//! One side of a TLS connection without a socket: wire bytes in, plaintext out. The buffered
//! interface of rustls reads the socket 4 KiB at a time; with the unbuffered one this code reads
//! it.
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

/// Maximum bytes of one read from the socket; several records.
const WIRE_BYTES: usize = 128 << 10;

pub struct Tls {
    state: UnbufferedClientConnection,
    wire: Vec<u8>,
    start: usize,
    end: usize,
    /// Plaintext of the last record that did not fit into its destination.
    rest: Vec<u8>,
    rest_at: usize,
}

/// The next action of a connection.
pub enum Next {
    /// Send `outgoing`, then call again.
    Send,
    /// Receive more bytes.
    Receive,
    /// That many bytes of plaintext were written.
    Plain(usize),
    /// The handshake is complete and nothing is pending.
    Ready,
    /// The other side has closed its direction.
    Closed,
}

fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

impl Tls {
    pub fn new(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        Ok(Self {
            state: UnbufferedClientConnection::new(config, name).map_err(broken)?,
            wire: Vec::new(),
            start: 0,
            end: 0,
            rest: Vec::new(),
            rest_at: 0,
        })
    }

    /// Memory for the next received bytes; `received` takes their number.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.wire.is_empty() {
            self.wire = vec![0; WIRE_BYTES];
        }
        if self.start > 0 {
            self.wire.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.wire[self.end..]
    }

    pub fn received(&mut self, count: usize) {
        self.end += count;
    }

    /// Releases the memory of an idle connection.
    pub fn release_buffers(&mut self) {
        if self.start == self.end {
            (self.start, self.end, self.wire) = (0, 0, Vec::new());
        }
        if self.rest_at == self.rest.len() {
            (self.rest_at, self.rest) = (0, Vec::new());
        }
    }

    /// Whether bytes are pending that belong to no response.
    pub fn has_unread(&self) -> bool {
        self.has_rest() || self.start < self.end
    }

    fn has_rest(&self) -> bool {
        self.rest_at < self.rest.len()
    }

    /// Advances the connection by one step. Plaintext goes to `into`, which may be empty while none
    /// is expected.
    pub fn advance(
        &mut self,
        into: &mut [MaybeUninit<u8>],
        outgoing: &mut Vec<u8>,
    ) -> io::Result<Next> {
        if self.has_rest() && !into.is_empty() {
            let count = copy(&self.rest[self.rest_at..], into);
            self.rest_at += count;
            return Ok(Next::Plain(count));
        }
        loop {
            let UnbufferedStatus { discard, state } = self
                .state
                .process_tls_records(&mut self.wire[self.start..self.end]);
            let next = match state.map_err(broken)? {
                ConnectionState::EncodeTlsData(mut data) => {
                    encode(&mut data, outgoing)?;
                    None
                }
                ConnectionState::TransmitTlsData(data) => {
                    data.done();
                    Some(Next::Send)
                }
                ConnectionState::ReadTraffic(mut traffic) => {
                    let mut filled = 0;
                    while let Some(record) = traffic.next_record() {
                        let payload = record.map_err(broken)?.payload;
                        let count = copy(payload, &mut into[filled..]);
                        filled += count;
                        if count < payload.len() {
                            if self.rest_at == self.rest.len() {
                                self.rest.clear();
                                self.rest_at = 0;
                            }
                            self.rest.extend_from_slice(&payload[count..]);
                        }
                    }
                    (filled > 0).then_some(Next::Plain(filled))
                }
                ConnectionState::WriteTraffic(_) => Some(Next::Ready),
                ConnectionState::BlockedHandshake => Some(Next::Receive),
                ConnectionState::PeerClosed | ConnectionState::Closed => Some(Next::Closed),
                _ => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "an unexpected state of TLS",
                    ));
                }
            };
            self.start += discard;
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    /// Appends `plain`, encrypted, to `outgoing`. Only valid after `advance` returned Ready.
    pub fn encrypt(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> io::Result<()> {
        let UnbufferedStatus { discard, state } = self
            .state
            .process_tls_records(&mut self.wire[self.start..self.end]);
        let ConnectionState::WriteTraffic(mut traffic) = state.map_err(broken)? else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "TLS is not ready to send",
            ));
        };
        let at = outgoing.len();
        outgoing.resize(at + plain.len() + 512, 0);
        let count = match traffic.encrypt(plain, &mut outgoing[at..]) {
            Err(EncryptError::InsufficientSize(needed)) => {
                outgoing.resize(at + needed.required_size, 0);
                traffic.encrypt(plain, &mut outgoing[at..])
            }
            done => done,
        };
        outgoing.truncate(at + count.map_err(io::Error::other)?);
        self.start += discard;
        Ok(())
    }
}

fn encode(
    data: &mut rustls::unbuffered::EncodeTlsData<'_, rustls::client::ClientConnectionData>,
    outgoing: &mut Vec<u8>,
) -> io::Result<()> {
    let at = outgoing.len();
    outgoing.resize(at + 1024, 0);
    let count = match data.encode(&mut outgoing[at..]) {
        Err(EncodeError::InsufficientSize(needed)) => {
            outgoing.resize(at + needed.required_size, 0);
            data.encode(&mut outgoing[at..])
        }
        done => done,
    };
    outgoing.truncate(at + count.map_err(io::Error::other)?);
    Ok(())
}

/// Copies as much of `from` as fits.
fn copy(from: &[u8], into: &mut [MaybeUninit<u8>]) -> usize {
    let count = from.len().min(into.len());
    // SAFETY: both have `count` bytes and lie apart.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr().cast(), count) };
    count
}
