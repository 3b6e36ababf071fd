// SPDX-License-Identifier: Apache-2.0
// Superblock: what a cache directory is, in which format, and whether it was left in order.
// Format: docs/formats/cache.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/id128.h"
#include "base/status.h"
#include "runtime/disk.h"
#include "runtime/task.h"

namespace leat {

struct Superblock {
  static constexpr uint32_t kFormatVersion = 1;
  // The features that this build knows. A compatible one may be ignored; an incompatible one that
  // is not known keeps the directory closed.
  static constexpr uint64_t kCompatibleKnown = 0;
  // Objects and segments belong to pools: .meta of format 2, a pool in the header of .index.
  static constexpr uint64_t kPools = 1;
  static constexpr uint64_t kIncompatibleKnown = kPools;

  uint64_t compatible = 0;
  uint64_t incompatible = 0;
  Id128 uuid;          // of this directory, made with it
  Id128 worker;        // of the worker that owns it
  bool clean = false;  // closed in order; cleared before anything else is written

  std::string encode() const;
  // kCorrupt or kUnsupported; `directory` is named in the message, which says how to go on.
  static Result<Superblock> decode(std::span<const std::byte> bytes, const std::string& directory);
};

// The superblock of `directory`; nothing when the directory is new, that is, empty. A directory
// with other things in it is refused (kInvalidArgument): the store deletes what it does not know.
// Blocks.
Result<std::optional<Superblock>> read_superblock(Disk& disk, const std::string& directory);

// Replaces it as a whole, for good when it returns.
Task<Result<>> write_superblock(std::shared_ptr<Disk> disk, std::string directory,
                                Superblock superblock);

// The lock of a cache directory, held by one opening of it. Another than who takes it may let it
// go, also while it is being taken by a call that hangs. Thread-safe.
class DirectoryLock {
 public:
  // Creates `directory` if missing and locks it; kBusy names the process that has it, kUnavailable:
  // it was let go before. Once. Blocks.
  Result<> take(Disk& disk, const std::string& directory);
  // For good; does not wait for the disk. As the destructor does.
  void let_go();

 private:
  // False where another has it.
  Result<bool> lock(File file, const std::string& directory);

  std::mutex mutex_;  // leaf
  File file_;
  bool let_go_ = false;
};

}  // namespace leat
