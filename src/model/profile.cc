// SPDX-License-Identifier: Apache-2.0
#include "model/profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

namespace leat {

std::span<const Profile> profiles() {
  static const std::array<Profile, 4> kProfiles = {{
      {"training",
       "data sets that are read through, epoch by epoch",
       {{"freshness", "max-age=10m"},
        {"kernel_readahead", "1MiB"},
        {"prefetch_window", "64MiB"},
        {"prefetch_next_files", "true"}}},
      {"serving",
       "models: few large files, loaded by several processes, to be there again at once",
       {{"freshness", "max-age=10m"},
        {"priority", "high"},
        {"kernel_readahead", "1MiB"},
        {"prefetch_window", "128MiB"},
        {"prefetch_next_files", "false"}}},
      {"interactive",
       "people and notebooks: parts of files here and there, changes seen soon",
       {{"freshness", "max-age=5s"},
        {"negative_ttl", "1s"},
        {"kernel_readahead", "128KiB"},
        {"prefetch_window", "8MiB"},
        {"prefetch_next_files", "false"},
        {"load", "never"}}},
      {"small-files",
       "very many small files that do not change: the kernel leaves opens out",
       {{"freshness", "immutable"},
        {"no_open", "true"},
        {"kernel_readahead", "1MiB"},
        {"prefetch_window", "64MiB"},
        {"prefetch_next_files", "true"}}},
  }};
  return kProfiles;
}

Result<const Profile*> profile_named(std::string_view name) {
  auto known = std::ranges::find(profiles(), name, &Profile::name);
  if (known != profiles().end()) return &*known;
  std::vector<std::string_view> names;
  for (const Profile& profile : profiles()) names.push_back(profile.name);
  return error(StatusCode::kInvalidArgument,
               fmt::format("there is no profile '{}'; there are {}", name, fmt::join(names, ", ")));
}

Result<std::map<std::string, std::string>> with_profile(std::map<std::string, std::string> given) {
  auto named = given.find("folder_profile");
  if (named == given.end()) return given;
  LEAT_TRY(const Profile* profile, profile_named(named->second));
  given.insert(profile->options.begin(), profile->options.end());
  return given;
}

}  // namespace leat
