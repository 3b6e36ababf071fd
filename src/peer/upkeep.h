// SPDX-License-Identifier: Apache-2.0
// Upkeep: what a job has a worker do with what its cache holds; requests and answers, both ways.
// Only workers may ask for it. Format: docs/formats/peer-protocol.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/file_ref.h"
#include "peer/read_request.h"

namespace leat {

inline constexpr char kUpkeepPath[] = "/peer/v1/upkeep";
inline constexpr char kDropPath[] = "/peer/v1/drop";
inline constexpr char kVerifyPath[] = "/peer/v1/verify";
inline constexpr size_t kDropFilesMax = 4096;

enum class UpkeepAction : uint8_t {
  kEnsure,    // bring it into the cache; the bytes that had to be fetched
  kMissing,   // the bytes that are not in the cache
  kReadBack,  // compare it with its checksums, fetch what is missing or wrong; as kEnsure
};

// How far a worker's look at all that it holds has come.
struct UpkeepVerify {
  bool ended = false;
  uint64_t objects = 0, bytes = 0, corrupt_blocks = 0;  // so far
  uint64_t objects_total = 0, bytes_total = 0;          // about
  std::string trouble{};                                // why it ended before its end

  friend bool operator==(const UpkeepVerify&, const UpkeepVerify&) = default;
};

struct UpkeepRequest {
  UpkeepAction action = UpkeepAction::kEnsure;
  PeerReadRequest part;  // of a file
};

HttpRequest to_http(const UpkeepRequest& request);
// As read_request_from().
Result<UpkeepRequest> upkeep_request_from(const HttpRequest& request);

// Versions as the workers know them.
std::string encode_drop(const std::vector<FileId>& files);
// At most kDropFilesMax.
Result<std::vector<FileId>> decode_drop(std::string_view text);

// The answer to both.
std::string encode_upkeep_bytes(uint64_t bytes);
Result<uint64_t> decode_upkeep_bytes(std::string_view text);

std::string encode_verify(const UpkeepVerify& verify);
Result<UpkeepVerify> decode_verify(std::string_view text);

}  // namespace leat
