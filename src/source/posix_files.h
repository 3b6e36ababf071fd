// SPDX-License-Identifier: Apache-2.0
// PosixFiles: operations of a store that is a POSIX file system, beside those of Source.
// Thread-safe.
//
// A name is changed as it stands: a symbolic link is not followed. kUnsupported where the file
// system below lacks the operation.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/status.h"
#include "model/posix_attributes.h"
#include "runtime/context.h"
#include "runtime/task.h"

namespace leat {

struct SourceObject;

struct NodeRequest {
  std::string key{};
  // `mode` has the type: S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK.
  PosixAttributes attributes{};
  dev_t device = 0;      // of a device
  std::string target{};  // of a symbolic link
};

// A name beside the first one, or two names.
struct NamePair {
  std::string from, to;
};

struct ExtendedAttributeName {
  std::string key;
  std::string name;  // "user.…"
};

class PosixFiles {
 public:
  virtual ~PosixFiles() = default;

  // Make a new name; kExists if it is in use. Return what Source::stat returns.
  virtual Task<Result<SourceObject>> make_node(Context context, NodeRequest request) = 0;
  virtual Task<Result<SourceObject>> link(Context context, NamePair names) = 0;
  // Returns the target of a symbolic link; kInvalidArgument for anything else.
  virtual Task<Result<std::string>> read_link(Context context, std::string key) = 0;
  // Exchanges two names atomically. Both keys are without a '/' at their end.
  virtual Task<Result<>> exchange(Context context, NamePair names) = 0;

  // Extended attributes of the user's namespace. kNotFound if there is none of the name.
  virtual Task<Result<std::string>> attribute(Context context, ExtendedAttributeName wanted) = 0;
  virtual Task<Result<std::vector<std::string>>> attributes(Context context, std::string key) = 0;
  // `flags` as of setxattr(2).
  virtual Task<Result<SourceObject>> set_attribute(Context context, ExtendedAttributeName which,
                                                   std::string value, int flags) = 0;
  virtual Task<Result<SourceObject>> remove_attribute(Context context,
                                                      ExtendedAttributeName which) = 0;
};

}  // namespace leat
