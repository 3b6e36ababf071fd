// SPDX-License-Identifier: Apache-2.0
//! OpenDAL behind the C ABI of leat_store.h, which is the contract. The modules are layers, lowest
//! first; each uses only itself and those before it (tools/check_shim_layers.py):
//! 1. `core`: data without traffic: kinds, failures, entries, time limits.
//! 2. `net`: connections: our own GET transport, the stock client, proxies, TLS roots, lanes.
//! 3. `attempt`: one attempt: exchange, trace, checked transport, errors to failures.
//! 4. `auth`: credentials, roles, signatures.
//! 5. `backends`: the kinds of stores: from options to the parts of a store.
//! 6. `store`: one opened store: reads, listings, writes, uploads, reload.
//! 7. `abi`: the C functions.
mod abi;
mod attempt;
mod auth;
mod backends;
mod core;
mod net;
mod store;
