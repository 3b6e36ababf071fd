// SPDX-License-Identifier: Apache-2.0
// LocalFile: an object on a local disk, compared with its version after each read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "source/file/checked_file.h"
#include "source/source_file.h"

namespace leat {

class LocalFile : public SourceFile, public std::enable_shared_from_this<LocalFile> {
 public:
  // `opened` is local.
  explicit LocalFile(CheckedFile opened) : opened_(std::move(opened)) { ++open_; }
  ~LocalFile() override { --open_; }

  // Number of LocalFiles of this process that are open now.
  static uint64_t open() { return open_; }

  int fd() const override { return opened_.file.fd(); }
  uint64_t size() const override { return opened_.size; }
  bool try_read(uint64_t offset, std::span<std::byte> into) override;
  Task<Result<>> read(Context context, uint64_t offset, std::span<std::byte> into) override;

 private:
  static inline std::atomic<uint64_t> open_ = 0;
  const CheckedFile opened_;
};

}  // namespace leat
