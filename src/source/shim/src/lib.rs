// SPDX-License-Identifier: Apache-2.0
//! OpenDAL behind the C ABI of leat_store.h, which is the contract. `abi` translates, `services`
//! opens, `store` does what is asked, `listing` makes pages, `web` is what OpenDAL lacks of web
//! servers and `hub` speaks with Hugging Face Hubs, `transport` watches what goes over the wire and
//! `get` carries the bytes of reads, `sign`, `credentials`, `role` and `env_file` say who asks and
//! `reload` when that has changed, `failure` says what went wrong.
mod abi;
mod command;
mod credentials;
mod entry;
mod env_file;
mod failure;
mod folders;
mod get;
mod hdfs;
mod hub;
mod hub_request;
mod hub_token;
mod listing;
mod live;
mod name_nodes;
mod page;
mod reload;
mod role;
mod s3;
mod services;
mod sign;
mod store;
mod target;
mod transport;
mod trust;
mod web;
mod write;
mod writer;
