// SPDX-License-Identifier: Apache-2.0
// LocalPaths: which folders of this worker's own file system the cluster may read and write, by
// `worker.local_paths`. Every source that a mount or a job of the cluster names is opened here, so
// that no record of the registry and no client decides which local files a worker touches.
// Each refusal is in the audit log. Thread-safe.
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
  // None: file:// is refused.
  LocalPaths() : LocalPaths(std::vector<std::string>()) {}
  // Absolute paths.
  explicit LocalPaths(std::vector<std::string> folders);

  // `text` of the option: absolute paths with commas between them. kInvalidArgument for others.
  static Result<LocalPaths> parse(std::string_view text);

  // As open_source() of source.h. A file:// source outside the folders is kPermissionDenied; of one
  // inside, each call resolves links and is refused where they lead out.
  Result<SourcePtr> open(const StoreUrl& url, std::string_view salt = {}) const;

 private:
  class Audit;

  std::vector<std::string> folders_;
  std::shared_ptr<Audit> audit_;
};

}  // namespace leat
