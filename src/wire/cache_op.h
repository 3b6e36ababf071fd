// SPDX-License-Identifier: Apache-2.0
// Upkeep: cache operations that a job runs on a worker; requests and answers, both ways. Only
// workers may send them. Format: docs/formats/peer-protocol.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/file_ref.h"
#include "wire/read_request.h"

namespace leat {

inline constexpr char kCacheOpPath[] = "/peer/v1/cache-op";
inline constexpr char kDropPath[] = "/peer/v1/drop";
inline constexpr char kVerifyPath[] = "/peer/v1/verify";
inline constexpr size_t kDropFilesMax = 4096;

enum class CacheOp : uint8_t {
  kEnsure,   // load into the cache; returns the bytes fetched
  kMissing,  // returns the uncached bytes
  kVerify,   // compare with checksums and fetch missing or bad parts; returns as kEnsure
};

// Progress of a worker's verification of its whole cache.
struct VerifyProgress {
  bool ended = false;
  uint64_t objects = 0, bytes = 0, corrupt_blocks = 0;  // so far
  uint64_t objects_total = 0, bytes_total = 0;          // approximate
  std::string error{};                                  // why it ended early

  friend bool operator==(const VerifyProgress&, const VerifyProgress&) = default;
};

struct CacheOpRequest {
  CacheOp op = CacheOp::kEnsure;
  PeerReadRequest part;  // part of a file
};

HttpRequest to_http(const CacheOpRequest& request);
// Errors as read_request_from().
Result<CacheOpRequest> cache_op_request_from(const HttpRequest& request);

// File ids with the workers' versions.
std::string encode_drop(const std::vector<FileId>& files);
// Returns at most kDropFilesMax.
Result<std::vector<FileId>> decode_drop(std::string_view text);

// Answer of both.
std::string encode_bytes_answer(uint64_t bytes);
Result<uint64_t> decode_bytes_answer(std::string_view text);

std::string encode_verify(const VerifyProgress& progress);
Result<VerifyProgress> decode_verify(std::string_view text);

}  // namespace leat
