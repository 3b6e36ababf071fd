// SPDX-License-Identifier: Apache-2.0
// FileFilter: selects files below a folder by patterns, by a regular expression, or by a list.
// Immutable; several threads may use it at once.
//
// Names are relative to the folder: "part-1/0001.png". A pattern is a shell pattern: '*' and '?' do
// not match '/', "**" does, "[a-z]" matches one of the characters ("[!a-z]": any other). A pattern
// without a '/' applies to the last component alone, in any folder below. A pattern that ends in
// '/' selects everything in such folders.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// A file must satisfy all given conditions. Without any, all files match.
struct FileSelection {
  std::vector<std::string> include{};  // patterns, at least one must match
  std::vector<std::string> exclude{};  // patterns, none may match
  std::string regex{};                 // searched in the name, unanchored without ^ and $; RE2
                                       // syntax
  std::vector<std::string> files{};    // these files, and files below those that are folders

  bool everything() const {
    return include.empty() && exclude.empty() && regex.empty() && files.empty();
  }
  friend bool operator==(const FileSelection&, const FileSelection&) = default;
};

class FileFilter {
 public:
  FileFilter() = default;  // matches all files
  // kInvalidArgument names the pattern and its fault.
  static Result<FileFilter> make(const FileSelection& selection);

  // `name` is a file.
  bool matches(std::string_view name) const;
  // `folder` is a folder ("" is the root). Returns false if no file in it can match, so that it
  // need not be listed.
  bool may_hold(std::string_view folder) const;
  bool everything() const { return rules_ == nullptr; }

 private:
  struct Rules;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace leat
