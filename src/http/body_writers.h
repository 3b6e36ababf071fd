// SPDX-License-Identifier: Apache-2.0
// The body writers of streamed responses. Private to this module.
#pragma once

#include <cstdint>
#include <memory>

#include "http/message.h"
#include "http/stream.h"

namespace leat {

// Sends each write as a chunk, or, for clients of HTTP/1.0, unchanged.
class ChunkWriter : public BodyWriter {
 public:
  ChunkWriter(std::shared_ptr<Stream> stream, bool chunked, Clock::duration write_timeout)
      : stream_(std::move(stream)), chunked_(chunked), write_timeout_(write_timeout) {}

  Task<Result<>> write(Bytes data) override;

 private:
  const std::shared_ptr<Stream> stream_;
  const bool chunked_;
  const Clock::duration write_timeout_;
};

// A body of announced length; a write beyond it fails.
class LengthWriter : public BodyWriter {
 public:
  LengthWriter(std::shared_ptr<Stream> stream, uint64_t bytes, Clock::duration write_timeout)
      : stream_(std::move(stream)), left_(bytes), write_timeout_(write_timeout) {}

  Task<Result<>> write(Bytes data) override;
  uint64_t left() const { return left_; }

 private:
  const std::shared_ptr<Stream> stream_;
  uint64_t left_;
  const Clock::duration write_timeout_;
};

}  // namespace leat
