// SPDX-License-Identifier: Apache-2.0
// DevDirectory: the directory of a cluster on one machine. It has the secret, a client's token,
// etcd's password, the daemons' options, and a folder for each process.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/disk.h"

namespace leat {

class DevDirectory {
 public:
  DevDirectory() = default;
  // Opens or creates it; an empty `path` makes a temporary one. Existing files are reused. kBusy if
  // another cluster runs in it.
  static Result<DevDirectory> open(const std::string& path);

  const std::string& path() const { return path_; }
  bool temporary() const { return temporary_; }
  std::string secret() const { return path_ + "/cluster.secret"; }
  std::string token() const { return path_ + "/client.token"; }
  std::string options() const { return path_ + "/leat.toml"; }
  std::string registry() const { return path_ + "/registry"; }
  // File with the password of etcd's users.
  std::string password() const { return path_ + "/etcd.password"; }
  // Returns the value of worker.local_paths: local folders that were mounted, now or earlier. Adds
  // `folder` unless it is empty.
  Result<std::string> local_paths(const std::string& folder) const;

  // Removes a temporary directory with its content. Never descends into a mount: that content is a
  // user's data.
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
