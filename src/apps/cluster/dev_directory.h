// SPDX-License-Identifier: Apache-2.0
// DevDirectory: where a cluster on one machine has all of its files: the secret, a client's token,
// etcd's password, the daemons' options, and a folder for each process.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

class DevDirectory {
 public:
  DevDirectory() = default;
  // `path` empty: a temporary one. What is there of an earlier time is taken as it is. kBusy where
  // another cluster runs in it.
  static Result<DevDirectory> take(const std::string& path);

  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }
  std::string secret() const { return path_ + "/cluster.secret"; }
  std::string token() const { return path_ + "/client.token"; }
  std::string options() const { return path_ + "/leat.toml"; }
  std::string registry() const { return path_ + "/registry"; }
  // Of etcd's users.
  std::string password() const { return path_ + "/etcd.password"; }
  // What the workers may use of this machine's files: folders that were mounted, also at an earlier
  // time, as worker.local_paths has them. Adds `folder` unless it is empty.
  Result<std::string> local_paths(const std::string& folder) const;

  // A temporary one, with all that is in it. Never by way of a mount: what lies there is somebody's
  // data.
  Result<> remove_if_temporary();

 private:
  Result<> make(const std::string& path);
  Result<> lock();
  Result<> fill() const;

  std::string path_;
  bool temporary_ = false;
  File lock_;
};

}  // namespace leat
