// SPDX-License-Identifier: Apache-2.0
// LocalFile: reads of a file on a local disk straight into the caller's memory: what is in the page
// cache on the caller's thread, the rest by io_uring, or by the FilePool where that is refused.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "source/file/checked_file.h"
#include "source/file/source_file.h"

namespace leat {

class LocalFile : public SourceFile, public std::enable_shared_from_this<LocalFile> {
 public:
  // `opened` is local.
  explicit LocalFile(CheckedFile opened) : opened_(std::move(opened)) { ++open_; }
  ~LocalFile() override { --open_; }

  // Of this process, open now.
  static uint64_t open() { return open_; }

  int fd() const override { return opened_.file.fd(); }
  uint64_t size() const override { return opened_.size; }
  bool try_read(uint64_t offset, std::span<std::byte> into) override;
  Task<Result<>> read(Context context, uint64_t offset, std::span<std::byte> into) override;

 private:
  size_t read_cached(uint64_t offset, std::span<std::byte> into) const;
  Task<Result<size_t>> read_piece(Context context, uint64_t offset, std::span<std::byte> into);

  static inline std::atomic<uint64_t> open_ = 0;
  const CheckedFile opened_;
};

}  // namespace leat
