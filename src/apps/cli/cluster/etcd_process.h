// SPDX-License-Identifier: Apache-2.0
// An etcd with one member on loopback, for a cluster on one machine.
#pragma once

#include <memory>
#include <string>

#include "apps/cli/cluster/child_process.h"

namespace leat {

// Returns $LEAT_ETCD, else `etcd` from PATH, else the one that tools/setup unpacks for tests.
// kNotFound explains how to get one.
Result<std::string> find_etcd();

struct EtcdProcess {
  std::unique_ptr<ChildProcess> process;
  int port = 0;
  std::string url;               // "http://127.0.0.1:PORT"
  std::string responded_marker;  // marker file: etcd has responded once
  std::string users_marker;      // marker file: etcd has users

  // Starts etcd with data and log in `directory`, which must exist and may have data of an earlier
  // run. Removes data of a run that was killed before etcd responded: etcd may have stored that a
  // member exists, and not yet which one. It would wait for a leader for ever.
  static Result<EtcdProcess> start(const std::string& program, const std::string& directory);
  // Returns whether it responds: it listens and has elected itself. From then on the data in
  // `directory` is kept.
  bool responds();
  // Enables authentication: only `kUser`, with access to all keys, and root are accepted, both with
  // this password. No effect if it has users. Blocks.
  Result<> require_users(const std::string& password);
  static constexpr char kUser[] = "leat";
};

}  // namespace leat
