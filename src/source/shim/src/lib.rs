// SPDX-License-Identifier: Apache-2.0
//! OpenDAL behind the C ABI of leat_store.h, which is the contract. `abi` translates, `lanes` run
//! what is asked, `services` opens, `store` reads and `write` and `writer` change, `listing` makes
//! pages, `web` is what OpenDAL lacks of web servers, `hdfs` and `name_nodes` of HDFS, and `hub` speaks
//! with Hugging Face Hubs.
//! `transport` and `exchange` watch what goes over the wire, `traffic` counts it; `get` carries the
//! bytes of reads, which `template` writes where they are all alike.
//! `sign`, `credentials`, `role` and `env_file` say who asks and `reload` when that has changed,
//! `failure` says what went wrong.
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
