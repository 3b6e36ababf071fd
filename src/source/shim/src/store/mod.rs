// SPDX-License-Identifier: Apache-2.0
//! Layer 6, an opened store: reads, listings, writes, uploads, and attempts that repeat after a
//! rejected credential. Uses `backends` and below.
pub mod attempts;
pub mod body_stream;
pub mod list;
pub mod open;
pub mod read;
pub mod reload;
pub mod template;
pub mod upload;
pub mod write;
pub mod write_checks;
