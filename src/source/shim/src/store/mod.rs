// SPDX-License-Identifier: Apache-2.0
//! Layer 6, an opened store: reads, listings, writes, uploads, retries after a rejected credential.
//! Uses `backends` and below.
pub mod body_stream;
pub mod list;
pub mod open;
pub mod reload;
pub mod template;
pub mod upload;
pub mod write;
