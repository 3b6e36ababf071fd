// SPDX-License-Identifier: Apache-2.0
// SnapshotFiles: the snapshot files held by this worker, ID.snapshot, each with its record,
// ID.json, so that they are found again without the registry. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/byte_range.h"
#include "runtime/disk.h"
#include "wire/shared_snapshot.h"

namespace leat {

class SnapshotFiles {
 public:
  struct StoredSnapshot {
    SharedSnapshot record{};
    std::shared_ptr<const File> file{};
    Clock::time_point since{};  // time of arrival, by this process's clock
  };

  // The functions up to remove() block. The constructor reads the directory, which may be missing.
  explicit SnapshotFiles(std::string directory);

  // Returns a path for a new file before add(); creates the directory.
  Result<std::string> temp_path(const std::string& name) const;
  // Takes ownership of the file at `path`.
  Result<> add(const SharedSnapshot& record, const std::string& path);
  // Reads the whole file; removes it and returns kCorrupt if it differs from its record.
  Result<> verify(const Id128& id);
  // Open readers continue.
  void remove(const Id128& id);

  // These do not block.
  std::optional<StoredSnapshot> find(const Id128& id) const;
  std::vector<StoredSnapshot> all() const;

  static Result<std::string> read(const StoredSnapshot& held, ByteRange range);  // blocks

 private:
  std::string file_of(const Id128& id) const;
  std::string record_of(const Id128& id) const;
  Result<> register_file(const SharedSnapshot& record);

  const std::string directory_;
  mutable std::mutex mutex_;  // leaf
  std::map<Id128, StoredSnapshot> stored_;
};

// Size and checksum of a file. Blocks.
struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};
Result<FileSum> sum_of(const File& file, const std::string& name);

}  // namespace leat
