// SPDX-License-Identifier: Apache-2.0
//! Layer 1, data: kinds, failures, entries, time limits, the memory of a read. Uses no other layer.
pub mod blocking_slot;
pub mod condition;
pub mod entry;
pub mod failure;
pub mod kinds;
pub mod page;
pub mod swap_cell;
pub mod target;
pub mod timeouts;
