// SPDX-License-Identifier: Apache-2.0
// CopyRequest: one step of copying one file to a store through a worker; request and answer, both
// ways. Only workers may send it. Format: docs/formats/peer-protocol.md.
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

// Treatment of an existing target. A target with the file's size and time counts as the same file
// and is kept, except with kAlways.
enum class OverwriteMode : uint8_t {
  kNever,        // a different target is an error
  kIfDifferent,  // a different target is replaced
  kAlways,       // any target is replaced
};
std::string_view to_string(OverwriteMode mode);  // "never", "if-different", "always"
Result<OverwriteMode> parse_overwrite_mode(std::string_view text);

// Target of a file's copy; the same in all of its steps.
struct CopySpec {
  Id128 copy{};       // Random id of the copy; the first step begins it.
  std::string to{};   // Absolute namespace path, or a store's URL.
  std::string key{};  // For a URL: key below its prefix; empty: the prefix is the whole key.
  std::optional<WallTime> mtime{};  // of the file
  OverwriteMode overwrite = OverwriteMode::kNever;
  // The target name is a guess: an existing directory of that name is an error.
  bool name_is_guess = false;

  friend bool operator==(const CopySpec&, const CopySpec&) = default;
};

struct CopyStepRequest {
  std::string mount;  // mount of the file, as in PeerReadRequest
  FileRef file;
  ByteRange range;  // next range of the file; empty if the file is empty
  CopySpec spec;
};

enum class CopyState : uint8_t {
  kMore,            // expects the next range
  kWritten,         // the target is complete
  kAlreadyPresent,  // the target was already present
};

struct CopyStep {
  CopyState state = CopyState::kMore;
  uint64_t bytes = 0;  // of this step through the worker; 0 if the store copies by itself
  friend bool operator==(const CopyStep&, const CopyStep&) = default;
};

// Unsigned.
HttpRequest to_http(const CopyStepRequest& request);
// kInvalidArgument; kOutOfRange for a range outside the file.
Result<CopyStepRequest> copy_request_from(const HttpRequest& request);

std::string encode_copy_spec(const CopySpec& spec, ByteRange range);
Result<CopySpec> decode_copy_spec(std::string_view text, ByteRange* range);

std::string encode_copy_step(const CopyStep& step);
Result<CopyStep> decode_copy_step(std::string_view text);

}  // namespace leat
