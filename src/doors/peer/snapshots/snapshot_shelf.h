// SPDX-License-Identifier: Apache-2.0
// SnapshotShelf: the files of a cluster's snapshots that this worker holds, ID.snapshot, and beside
// each its record, ID.json, so that they are found again without the registry. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/byte_range.h"
#include "peer/snapshots/shared_snapshot.h"
#include "runtime/disk.h"

namespace leat {

class SnapshotShelf {
 public:
  struct Held {
    SharedSnapshot record{};
    std::shared_ptr<const File> file{};
    Clock::time_point since{};  // that it is here, in this process's time
  };

  // All of this blocks. Takes in what is in the directory, which need not be there.
  explicit SnapshotShelf(std::string directory);

  // Where a file is to be written before it is kept; the directory is there then.
  Result<std::string> place_for(const std::string& word) const;
  // The file at `path` is the shelf's from then on.
  Result<> keep(const SharedSnapshot& record, const std::string& path);
  // Reads all of it: kCorrupt, and it is gone, where it is not what its record says.
  Result<> verify(const Id128& id);
  // Who reads it goes on.
  void remove(const Id128& id);

  // These do not.
  std::optional<Held> find(const Id128& id) const;
  std::vector<Held> all() const;

  static Result<std::string> read(const Held& held, ByteRange range);  // blocks

 private:
  std::string file_of(const Id128& id) const;
  std::string record_of(const Id128& id) const;
  Result<> take_in(const SharedSnapshot& record);

  const std::string directory_;
  mutable std::mutex mutex_;  // leaf
  std::map<Id128, Held> held_;
};

// Of a file, and how large it is. Blocks.
struct FileSum {
  uint64_t bytes = 0;
  uint32_t crc = 0;
};
Result<FileSum> sum_of(const File& file, const std::string& name);

}  // namespace leat
