// SPDX-License-Identifier: Apache-2.0
// PassedFile: a complete file of a worker's cache as a SourceFile, read in place. Published files
// never change, so its content is constant.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "source/source_file.h"

namespace leat {

class PassedFile : public SourceFile, public std::enable_shared_from_this<PassedFile> {
 public:
  // `fd` stays open for reading while `owner` lives.
  PassedFile(std::shared_ptr<const void> owner, int fd, uint64_t size)
      : owner_(std::move(owner)), fd_(fd), size_(size) {
    ++open_;
  }
  ~PassedFile() override { --open_; }

  // Returns how many this process has open.
  static uint64_t open() { return open_; }

  int fd() const override { return fd_; }
  uint64_t size() const override { return size_; }
  bool immutable() const override { return true; }
  bool try_read(uint64_t offset, std::span<std::byte> into) override;
  Task<Result<>> read(Context context, uint64_t offset, std::span<std::byte> into) override;

 private:
  static inline std::atomic<uint64_t> open_ = 0;
  const std::shared_ptr<const void> owner_;
  const int fd_;
  const uint64_t size_;
};

}  // namespace leat
