// SPDX-License-Identifier: Apache-2.0
// Requests to etcd and its answers as JSON: the gateway of etcd's v3 API (etcd ≥ 3.4,
// api/etcdserverpb/rpc.proto). Bytes are base64, 64-bit numbers are strings, zero fields are
// absent. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cluster/registry.h"

namespace leat::etcd {

// /v3/kv/range: up to `entries_max` keys that begin with `prefix`, starting at `from`, at
// `revision` (0: now).
std::string range_request(std::string_view prefix, std::string_view from, RegistryRevision revision,
                          size_t entries_max);
struct RangeAnswer {
  RegistryView view;
  bool more = false;
};
Result<RangeAnswer> range_answer(std::string_view body);

// /v3/kv/txn
std::string commit_request(const RegistryChange& change);
struct CommitAnswer {
  RegistryRevision revision = 0;
  bool succeeded = false;  // all conditions were true
};
Result<CommitAnswer> commit_answer(std::string_view body);

// /v3/lease/grant, /v3/lease/keepalive and /v3/lease/revoke
struct LeaseAnswer {
  RegistryLease lease = 0;
  std::chrono::seconds ttl{0};  // 0: the lease has ended
};
std::string grant_request(std::chrono::seconds ttl);
Result<LeaseAnswer> grant_answer(std::string_view body);
std::string lease_request(RegistryLease lease);
Result<LeaseAnswer> keep_alive_answer(std::string_view body);

// /v3/watch: all changes from `from` on.
std::string watch_request(std::string_view prefix, RegistryRevision from);
struct WatchAnswer {
  // `revision`: all changes up to it are known; 0: unknown.
  RegistryEvents events;
  bool created = false;      // the watch has started
  RegistryRevision now = 0;  // etcd's own, if known; the watch may lag behind it
  bool fragment = false;     // more of the same revision follows
  // Error that ended the watch, if any: kOutOfRange for compacted revisions.
  std::optional<Status> ended;
};
// Decodes one line of the stream.
Result<WatchAnswer> watch_answer(std::string_view line);

// /v3/auth/authenticate
std::string login_request(std::string_view user, std::string_view password);
Result<std::string> login_answer(std::string_view body);

// Decodes an answer with a status other than 200.
Status decode_error(int http_status, std::string_view body);

}  // namespace leat::etcd
