// SPDX-License-Identifier: Apache-2.0
// Profile: one word for what a folder is used for, which stands for options of its mount that are
// not given (model/policy_settings.h, model/folder_settings.h).
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace leat {

struct Profile {
  std::string_view name;
  std::string_view purpose;                    // one line
  std::map<std::string, std::string> options;  // option → value
};

std::span<const Profile> profiles();

// kInvalidArgument names those that there are.
Result<const Profile*> profile_named(std::string_view name);

// What `given` says, and where it says nothing what its option `folder_profile` says, if it has
// one.
Result<std::map<std::string, std::string>> with_profile(std::map<std::string, std::string> given);

}  // namespace leat
