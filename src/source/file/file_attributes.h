// SPDX-License-Identifier: Apache-2.0
// Owner, mode, times and extended attributes of files. All functions block.
#pragma once

#include <string>

#include "source/file/file_source.h"

namespace leat {

// Sets them on an open file. Unless `owner_must`, an owner that this process may not set stays as
// it is.
Result<> apply_attributes(int fd, const PosixAttributes& wanted, bool owner_must,
                          const std::string& path);

// The same for the name of a file of any kind; does not follow it if it is a link.
Result<> apply_attributes_to_name(const std::string& path, const PosixAttributes& wanted,
                                  bool owner_must);

// `root` as in stat_file.
Result<SourceObject> set_attributes_of(const AttributesRequest& request, FileAccess access,
                                       const std::string& root);

// Copies the user's extended attributes of the file at `path` to an open file. A file system
// without them is no failure.
Result<> copy_user_attributes(const std::string& path, int fd);

// Makes the names in the directory durable.
Result<> sync_directory(const std::string& path);

}  // namespace leat
