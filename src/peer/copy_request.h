// SPDX-License-Identifier: Apache-2.0
// CopyRequest: a step of the copy of one file, which one worker makes to a store: request and
// answer, both ways. Only workers may ask for it. Format: docs/formats/peer-protocol.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/id128.h"
#include "base/status.h"
#include "http/message.h"
#include "model/byte_range.h"
#include "model/file_info.h"
#include "model/file_ref.h"

namespace leat {

inline constexpr char kCopyPath[] = "/peer/v1/copy";

// What is there and is the file already, by its size and time, is left as it is but for kAll.
enum class CopyOver : uint8_t {
  kNothing,  // what is there and is another is an error
  kOther,    // is replaced
  kAll,      // all that is there is replaced
};
std::string_view to_string(CopyOver over);  // "nothing", "other", "all"
Result<CopyOver> parse_copy_over(std::string_view text);

// What a file's copy is to be, the same in all of its steps.
struct CopyGoal {
  Id128 copy{};                     // drawn for it; its first step begins it
  std::string to{};                 // a whole path of the namespace; or a store's URL
  std::string key{};                // of a URL: below its prefix; empty: the prefix is the name
  std::optional<WallTime> mtime{};  // the file's
  CopyOver over = CopyOver::kNothing;
  // The name is a guess: a directory of that name is an error.
  bool alone = false;

  friend bool operator==(const CopyGoal&, const CopyGoal&) = default;
};

struct CopyStepRequest {
  std::string mount;  // where the file is, as in PeerReadRequest
  FileRef file;
  ByteRange range;  // the next of the file; empty where the file is
  CopyGoal goal;
};

enum class CopyState : uint8_t {
  kMore,     // the next range is waited for
  kWritten,  // all of it is there now
  kThere,    // it was there before
};

struct CopyStep {
  CopyState state = CopyState::kMore;
  uint64_t bytes = 0;  // of this step that went through the worker: none of what a store copies
  friend bool operator==(const CopyStep&, const CopyStep&) = default;
};

// Not signed yet.
HttpRequest to_http(const CopyStepRequest& request);
// kInvalidArgument, or kOutOfRange for a range that is not within the file.
Result<CopyStepRequest> copy_request_from(const HttpRequest& request);

std::string encode_copy_goal(const CopyGoal& goal, ByteRange range);
Result<CopyGoal> decode_copy_goal(std::string_view text, ByteRange* range);

std::string encode_copy_step(const CopyStep& step);
Result<CopyStep> decode_copy_step(std::string_view text);

}  // namespace leat
