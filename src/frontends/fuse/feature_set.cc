// SPDX-License-Identifier: Apache-2.0
#include "frontends/fuse/feature_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <vector>

namespace leat {
namespace {

using enum FuseFeature;

constexpr std::array<FuseFeatureName, 14> kFeatures = {{
    {kReaddirplus, "readdirplus", "3.9"},
    {kParallelDirectories, "parallel-directories", "4.7"},
    {kAsyncRead, "async-read", "2.6.20"},
    {kLargeRequests, "large-requests", "4.20"},
    {kKeptListings, "kept-listings", "4.20"},
    {kReadAhead, "read-ahead", "2.6.26"},
    {kNoOpen, "no-open", "4.6"},
    {kNoFlush, "no-flush", "5.16"},
    {kExpire, "expire", "6.2"},
    {kPassthrough, "passthrough", "6.9"},
    {kResend, "resend", "6.9"},
    {kIoUring, "io-uring", "6.14"},
    {kRequestTimeout, "request-timeout", "6.15"},
    {kEpochs, "epochs", "6.16"},
}};
constexpr std::string_view kNewer = "after-5.15";

}  // namespace

std::span<const FuseFeatureName> fuse_features() {
  return kFeatures;
}

Result<FuseFeatureSet> FuseFeatureSet::parse(std::string_view names) {
  FuseFeatureSet set;
  for (auto part : std::views::split(names, ',')) {
    const std::string_view name(part.begin(), part.end());
    if (name.empty()) continue;
    if (name == kNewer) {
      for (auto at = std::ranges::find(kFeatures, kNoFlush, &FuseFeatureName::feature);
           at != kFeatures.end(); ++at) {
        set.add(at->feature);
      }
      continue;
    }
    auto known = std::ranges::find(kFeatures, name, &FuseFeatureName::name);
    if (known == kFeatures.end()) {
      std::string all;
      for (const FuseFeatureName& one : kFeatures) all += fmt::format("{}, ", one.name);
      return error(StatusCode::kInvalidArgument,
                   fmt::format("'{}' is no feature of FUSE that can be left out; there are {}and "
                               "{} for all that newer kernels brought",
                               name, all, kNewer));
    }
    set.add(known->feature);
  }
  return set;
}

}  // namespace leat
