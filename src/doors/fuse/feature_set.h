// SPDX-License-Identifier: Apache-2.0
// FuseFeature: what of the kernel's FUSE a door uses where it is offered, and goes without where it
// is not. Each can be left out, so that the way without it is tried on a kernel that has it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

enum class FuseFeature : uint8_t {
  kReaddirplus,
  kParallelDirectories,  // operations on one directory side by side
  kAsyncRead,            // several READs of one file at a time
  kLargeRequests,        // of 1 MiB; else 128 KiB
  kKeptListings,         // the kernel keeps what it read of a directory
  kReadAhead,            // as the folder wants it; else the kernel's 128 KiB
  kNoOpen,               // opens and releases are not told
  kNoFlush,              // since 5.16, as all that follows is of a newer one than 5.15
  kExpire,               // a name can be doubted without forgetting it
  kPassthrough,
  kResend,  // a successor is asked again
  kIoUring,
  kRequestTimeout,
  kEpochs,  // all names can be forgotten at once
};

struct FuseFeatureName {
  FuseFeature feature;
  std::string_view name;   // as people write it
  std::string_view since;  // Linux
};
// All, the oldest first.
std::span<const FuseFeatureName> fuse_features();

class FuseFeatureSet {
 public:
  // Names with commas between them; "after-5.15": all that newer kernels brought. Empty: none.
  // kInvalidArgument names those that there are.
  static Result<FuseFeatureSet> parse(std::string_view names);

  void add(FuseFeature feature) { bits_ |= bit(feature); }
  bool contains(FuseFeature feature) const { return (bits_ & bit(feature)) != 0; }

  friend bool operator==(const FuseFeatureSet&, const FuseFeatureSet&) = default;

 private:
  static uint32_t bit(FuseFeature feature) { return uint32_t{1} << static_cast<unsigned>(feature); }

  uint32_t bits_ = 0;
};

}  // namespace leat
