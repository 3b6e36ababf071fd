// SPDX-License-Identifier: Apache-2.0
//! Target: the caller's memory that a read fills, in one or several pieces.
use std::ffi::c_void;
use std::mem::MaybeUninit;

pub type Arrived = unsafe extern "C" fn(*mut c_void, usize);

/// Receives the number of arrived bytes; not used after its request reports.
pub struct Listener {
    report: Arrived,
    user: *mut c_void,
}

impl Listener {
    pub fn new(report: Arrived, user: *mut c_void) -> Self {
        Self { report, user }
    }
}

struct Piece {
    start: *mut u8,
    size: usize,
}

/// The holder may write to the memory until its request has reported.
pub struct Target {
    pieces: Vec<Piece>,
    size: usize,
    listener: Option<Listener>,
}

// SAFETY: the memory is the request's own by the contract of leat_store_read, and its listener may
// be called from any thread.
unsafe impl Send for Target {}
unsafe impl Sync for Target {}

impl Target {
    pub fn new(pieces: impl Iterator<Item = (*mut u8, usize)>, listener: Option<Listener>) -> Self {
        let pieces: Vec<Piece> = pieces
            .filter(|(_, size)| *size > 0)
            .map(|(start, size)| Piece { start, size })
            .collect();
        let size = pieces.iter().map(|piece| piece.size).sum();
        Self {
            pieces,
            size,
            listener,
        }
    }

    /// Reports that the first `count` bytes are final.
    pub fn arrived(&self, count: usize) {
        if let Some(listener) = &self.listener {
            // SAFETY: its request has not reported, since this is its target.
            unsafe { (listener.report)(listener.user, count) };
        }
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the memory from byte `at` to the end of its piece; empty at the end.
    ///
    /// # Safety
    /// No other code uses the result of another call at the same time.
    #[allow(clippy::mut_from_ref)] // the memory is not Rust's
    pub unsafe fn from(&self, at: usize) -> &mut [MaybeUninit<u8>] {
        let mut skip = at;
        for piece in &self.pieces {
            if skip < piece.size {
                // SAFETY: inside of the piece, and the caller's alone.
                return unsafe {
                    std::slice::from_raw_parts_mut(piece.start.add(skip).cast(), piece.size - skip)
                };
            }
            skip -= piece.size;
        }
        &mut []
    }

    /// Returns false, without copying, if the bytes do not fit.
    pub fn write(&self, mut at: usize, mut bytes: &[u8]) -> bool {
        if at > self.size || bytes.len() > self.size - at {
            return false;
        }
        while !bytes.is_empty() {
            // SAFETY: used up within this round.
            let room = unsafe { self.from(at) };
            let count = room.len().min(bytes.len());
            // SAFETY: both have `count` bytes and lie apart.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), room.as_mut_ptr().cast(), count);
            }
            at += count;
            bytes = &bytes[count..];
        }
        true
    }
}
