// SPDX-License-Identifier: Apache-2.0
// FileFilter: which files below a folder are meant, as people say it: by patterns, by a regular
// expression, by a list. Immutable; may be used by several threads at once.
//
// Names are relative to the folder: "part-1/0001.png". A pattern is that of a shell, where '*' and
// '?' do not go over a '/', "**" does, and "[a-z]" is one of them ("[!a-z]": none). A pattern
// without a '/' is one for the last component alone, in any folder below; one that ends in '/'
// means everything in such folders.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace leat {

// All that is given has to hold; nothing given: all files.
struct FileSelection {
  std::vector<std::string> include{};  // patterns, one of which fits
  std::vector<std::string> exclude{};  // patterns, none of which fits
  std::string regex{};                 // found in the name, unless it says ^ and $; RE2's syntax
  std::vector<std::string> files{};    // these, and what lies in those that are folders

  bool everything() const {
    return include.empty() && exclude.empty() && regex.empty() && files.empty();
  }
  friend bool operator==(const FileSelection&, const FileSelection&) = default;
};

class FileFilter {
 public:
  FileFilter() = default;  // all files
  // kInvalidArgument names the pattern and what is wrong with it.
  static Result<FileFilter> make(const FileSelection& selection);

  // Of a file.
  bool matches(std::string_view name) const;
  // Of a folder ("" is the root): false where nothing in it can match, so that it need not be
  // listed.
  bool may_hold(std::string_view folder) const;
  bool everything() const { return rules_ == nullptr; }

 private:
  struct Rules;
  std::shared_ptr<const Rules> rules_;
};

}  // namespace leat
