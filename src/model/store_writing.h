// SPDX-License-Identifier: Apache-2.0
// StoreWriting: how a store takes writes, for other hosts. SourceCapabilities of `source`
// explains each member.
#pragma once

namespace leat {

struct StoreWriting {
  bool writes = false;
  bool write_if_absent = false;
  bool write_if_version = false;
  bool copies = false;
  bool renames = false;
  bool real_directories = false;
  bool attributes = false;
  bool sets_attributes = false;
  bool renames_directories = false;

  friend bool operator==(const StoreWriting&, const StoreWriting&) = default;
};

}  // namespace leat
