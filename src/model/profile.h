// SPDX-License-Identifier: Apache-2.0
// Profile: a name for the purpose of a mount. It gives values to options that the user does not set
// (model/policy_settings.h, model/mount_options.h).
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

// kInvalidArgument lists the known names.
Result<const Profile*> profile_named(std::string_view name);

// Adds the options of the profile that `folder_profile` in `given` names, if any. Options in
// `given` take precedence.
Result<std::map<std::string, std::string>> with_profile(std::map<std::string, std::string> given);

}  // namespace leat
