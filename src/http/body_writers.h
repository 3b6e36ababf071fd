// SPDX-License-Identifier: Apache-2.0
// What producers of streamed answers write to. Private to this room.
#pragma once

#include <cstdint>
#include <memory>

#include "http/message.h"
#include "http/stream.h"

namespace leat {

// Each write is a chunk of its own, or, for clients of HTTP/1.0, is sent as it is.
class ChunkWriter : public BodyWriter {
 public:
  ChunkWriter(std::shared_ptr<Stream> stream, bool chunked, Clock::duration patience)
      : stream_(std::move(stream)), chunked_(chunked), patience_(patience) {}

  Task<Result<>> write(Bytes data) override;

 private:
  const std::shared_ptr<Stream> stream_;
  const bool chunked_;
  const Clock::duration patience_;
};

// A body whose length was told; more than that is refused.
class LengthWriter : public BodyWriter {
 public:
  LengthWriter(std::shared_ptr<Stream> stream, uint64_t bytes, Clock::duration patience)
      : stream_(std::move(stream)), left_(bytes), patience_(patience) {}

  Task<Result<>> write(Bytes data) override;
  uint64_t left() const { return left_; }

 private:
  const std::shared_ptr<Stream> stream_;
  uint64_t left_;
  const Clock::duration patience_;
};

}  // namespace leat
