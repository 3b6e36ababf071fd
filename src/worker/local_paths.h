// SPDX-License-Identifier: Apache-2.0
// LocalPaths: the local folders that the cluster may read and write on this worker, from
// `worker.local_paths`. Every source of a mount or a job of the cluster is opened here. So no
// registry record and no client decides which local files a worker accesses. Each denial is in the
// audit log. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/store_url.h"
#include "source/source.h"

namespace leat {

class LocalPaths {
 public:
  // No folders: file:// is denied.
  LocalPaths() : LocalPaths(std::vector<std::string>()) {}
  // `folders` are absolute paths.
  explicit LocalPaths(std::vector<std::string> folders);

  // Parses the option: absolute paths, separated by commas. kInvalidArgument for others.
  static Result<LocalPaths> parse(std::string_view text);

  // Like open_source() of source.h. kPermissionDenied for a file:// source outside the folders. In
  // a source inside, each call resolves links and is denied if they lead out.
  Result<SourcePtr> open(const StoreUrl& url, std::string_view salt = {}) const;

 private:
  class Audit;

  std::vector<std::string> folders_;
  std::shared_ptr<Audit> audit_;
};

}  // namespace leat
