// SPDX-License-Identifier: Apache-2.0
// An etcd of one member on loopback, for a cluster on one machine.
#pragma once

#include <memory>
#include <string>

#include "apps/cluster/child_process.h"

namespace leat {

// $LEAT_ETCD, else `etcd` of PATH, else the one that tools/setup unpacks for tests. kNotFound says
// how to get one.
Result<std::string> find_etcd();

struct EtcdProcess {
  std::unique_ptr<ChildProcess> process;
  int port = 0;
  std::string url;       // "http://127.0.0.1:PORT"
  std::string answered;  // the file that says that it once has
  std::string guarded;   // the file that says that it has users

  // Its data and log in `directory`, which is there, also from an earlier time. What one left that
  // was killed before it answered is removed: etcd may have written that there is a member, and not
  // yet who, and would wait for a leader for good.
  static Result<EtcdProcess> start(const std::string& program, const std::string& directory);
  // Whether it answers: it listens, and has found itself to be its leader. From then on what is in
  // `directory` is kept.
  bool answers();
  // From then on it answers nobody but `kUser`, who may read and change all keys, and root; both
  // have this password. Nothing happens to one that has users. Blocks.
  Result<> require_users(const std::string& password);
  static constexpr char kUser[] = "leat";
};

}  // namespace leat
