// SPDX-License-Identifier: Apache-2.0
//! Bodies that a service forwards, from stores without HTTP.
use futures::StreamExt;
use opendal::BufferStream;

use crate::attempt::explain::{explain, timed_out};
use crate::core::failure::{Code, Failure};
use crate::core::target::Target;
use crate::core::timeouts::Timeouts;

/// Fills the target, or fails: the stream ends where the target does.
pub async fn take_stream(
    stream: &mut BufferStream,
    target: &Target,
    timeouts: Timeouts,
) -> Result<(), Failure> {
    let mut filled = 0;
    let mut timeout = timeouts.first_byte;
    while let Some(piece) = tokio::time::timeout(timeout, stream.next())
        .await
        .map_err(|_| timed_out(timeout))?
    {
        for bytes in piece.map_err(|error| explain(&error))? {
            if !target.write(filled, &bytes) {
                let message = format!("the body is longer than the {} bytes asked", target.size());
                return Err(Failure::new(Code::Unavailable, message));
            }
            filled += bytes.len();
        }
        timeout = timeouts.idle;
    }
    if filled < target.size() {
        let message = format!("the body ended after {filled} of {} bytes", target.size());
        return Err(Failure::new(Code::Unavailable, message));
    }
    Ok(())
}
