// SPDX-License-Identifier: Apache-2.0
// StagedContents: contents of staged changes that this worker holds: one file each, durable once it
// is complete. Thread-safe; all functions block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/id128.h"
#include "base/status.h"
#include "model/byte_range.h"

namespace leat {

class StagedContents {
 public:
  // Opens `directory`, or creates it. Removes contents that were never complete. `bytes_max` is
  // the room of all of them.
  static Result<std::unique_ptr<StagedContents>> open(std::string directory, uint64_t bytes_max);

  // Writes a piece at the end of what is there; a piece that is there is a success. The last one
  // makes the content durable. kNoSpace if all contents together would be larger than `bytes_max`,
  // or the disk is full. kUnavailable if pieces before it are missing.
  Result<> write(const Id128& content, uint64_t offset, std::span<const std::byte> bytes,
                 bool is_last);
  bool has(const Id128& content) const;
  // Whether it was here when the directory was opened.
  bool is_from_before(const Id128& content) const;
  // Reads a part of a complete content. kNotFound if it is not here.
  Result<std::string> read(const Id128& content, ByteRange range) const;
  // No content is no error.
  void remove(const Id128& content);
  std::vector<Id128> all() const;
  uint64_t bytes() const;

 private:
  StagedContents(std::string directory, uint64_t bytes_max)
      : directory_(std::move(directory)), bytes_max_(bytes_max) {}

  struct Content {
    uint64_t size = 0;
    bool is_complete = false;
    bool is_from_before = false;
  };

  std::string path_of(const Id128& content, bool is_complete) const;
  Result<> complete(const Id128& content) const;

  const std::string directory_;
  const uint64_t bytes_max_;
  mutable std::mutex mutex_;  // leaf
  std::map<Id128, Content> contents_;
  uint64_t bytes_ = 0;
};

}  // namespace leat
