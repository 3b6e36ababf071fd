// SPDX-License-Identifier: Apache-2.0
//! Layer 1, data: kinds, failures, entries, time limits, the memory of a read. Uses no other layer.
pub mod blocking_slot;
pub mod entry;
pub mod swap_cell;
pub mod target;
