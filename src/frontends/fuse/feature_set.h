// SPDX-License-Identifier: Apache-2.0
// FuseFeature: kernel FUSE features that the server uses if offered. Each can be disabled, so that
// the path without it is testable on a kernel that has it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

enum class FuseFeature : uint8_t {
  kReaddirplus,
  kParallelDirectories,  // Concurrent operations on one directory.
  kAsyncRead,            // Several READs of one file at a time.
  kLargeRequests,        // Of 1 MiB; otherwise 128 KiB.
  kKeptListings,         // The kernel caches directory listings.
  kReadAhead,            // As configured; otherwise the kernel's 128 KiB.
  kNoOpen,               // The kernel sends neither OPEN nor RELEASE.
  kNoFlush,              // Since 5.16; all that follow need a kernel newer than 5.15.
  kExpire,               // A name can be expired without being forgotten.
  kPassthrough,
  kResend,  // unanswered requests are resent to a successor
  kIoUring,
  kRequestTimeout,
  kEpochs,  // all names can be invalidated at once
};

struct FuseFeatureName {
  FuseFeature feature;
  std::string_view name;   // in commands and configuration
  std::string_view since;  // Linux version
};
// All features, the oldest first.
std::span<const FuseFeatureName> fuse_features();

class FuseFeatureSet {
 public:
  // Parses names with commas between them; "after-5.15" means all features of newer kernels. Empty:
  // none. kInvalidArgument lists the valid names.
  static Result<FuseFeatureSet> parse(std::string_view names);

  void add(FuseFeature feature) { bits_ |= bit(feature); }
  bool contains(FuseFeature feature) const { return (bits_ & bit(feature)) != 0; }

  friend bool operator==(const FuseFeatureSet&, const FuseFeatureSet&) = default;

 private:
  static uint32_t bit(FuseFeature feature) { return uint32_t{1} << static_cast<unsigned>(feature); }

  uint32_t bits_ = 0;
};

}  // namespace leat
