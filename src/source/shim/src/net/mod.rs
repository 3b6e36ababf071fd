// SPDX-License-Identifier: Apache-2.0
//! Layer 2, connections: our own transport of GETs, the stock client, proxies, TLS roots, lanes and
//! counters. Uses `core`.
pub mod get;
pub mod lanes;
pub mod proxy;
pub mod stock_client;
pub mod tls_roots;
pub mod traffic;
