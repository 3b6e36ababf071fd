// SPDX-License-Identifier: Apache-2.0
//! OpenDAL behind the C ABI of leat_store.h, which is the contract.
//! 1. `abi` translates calls, and `lanes` run the requests.
//! 2. `services` opens stores, `store` reads, `write` and `writer` change, `listing` makes pages.
//! 3. `web` adds web servers, `hdfs` and `name_nodes` HDFS, and `hub` Hugging Face Hubs.
//! 4. `transport` and `exchange` observe the traffic, and `traffic` counts it.
//! 5. `get` transfers the bytes of reads. `template` writes their requests if these are all alike.
//! 6. `sign`, `credentials`, `role` and `env_file` authenticate. `reload` detects changed files.
//! 7. `failure` describes errors.
mod abi;
mod answer_check;
mod body_stream;
mod command;
mod credentials;
mod entry;
mod env_file;
mod exchange;
mod failure;
mod folders;
mod get;
mod hdfs;
mod hub;
mod hub_request;
mod hub_token;
mod lanes;
mod listing;
mod live;
mod look;
mod name_nodes;
mod page;
mod proxy;
mod reload;
mod role;
mod s3;
mod services;
mod sign;
mod store;
mod target;
mod template;
mod traffic;
mod transport;
mod trust;
mod web;
mod web_index;
mod write;
mod writer;
