// SPDX-License-Identifier: Apache-2.0
// Superblock: identity and format of a cache directory, and whether it was closed cleanly. Format:
// docs/formats/cache.md.
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
  // Feature bits that this build knows. An unknown compatible one is ignored; with an unknown
  // incompatible one the directory is not opened.
  static constexpr uint64_t kCompatibleKnown = 0;
  // Objects and segments belong to pools: .meta of format 2, a pool in the header of .index.
  static constexpr uint64_t kPools = 1;
  static constexpr uint64_t kIncompatibleKnown = kPools;

  uint64_t compatible = 0;
  uint64_t incompatible = 0;
  Id128 uuid;          // of this directory, generated at its creation
  Id128 worker;        // of the worker that owns it
  bool clean = false;  // closed cleanly; cleared before any other write

  std::string encode() const;
  // Returns kCorrupt or kUnsupported; the message names `directory` and says what to do.
  static Result<Superblock> decode(std::span<const std::byte> bytes, const std::string& directory);
};

// Returns the superblock of `directory`; nothing if the directory is new, that is, empty. Refuses a
// directory with other content (kInvalidArgument), since the store deletes unknown files. Blocks.
Result<std::optional<Superblock>> read_superblock(Disk& disk, const std::string& directory);

// Replaces the superblock atomically; durable on return.
Task<Result<>> write_superblock(std::shared_ptr<Disk> disk, std::string directory,
                                Superblock superblock);

// DirectoryLock: the lock of a cache directory, held by one opening. Any thread may release it,
// even while a hanging call acquires it. Thread-safe.
class DirectoryLock {
 public:
  // Creates `directory` if missing and locks it. kBusy names the process that holds it;
  // kUnavailable: released before. Call once. Blocks.
  Result<> acquire(Disk& disk, const std::string& directory);
  // Releases the lock, as the destructor does; it cannot be acquired again. Does not wait for the
  // disk.
  void release();

 private:
  // Returns false if another process has it.
  Result<bool> lock(File file, const std::string& directory);

  std::mutex mutex_;  // leaf
  File file_;
  bool released_ = false;
};

}  // namespace leat
