// SPDX-License-Identifier: Apache-2.0
//! OpenDAL behind the C ABI of leat_store.h, which is the contract. `abi` translates, `store` does
//! what is asked, `transport` watches what goes over the wire, `failure` says what went wrong.
mod abi;
mod failure;
mod store;
mod transport;
