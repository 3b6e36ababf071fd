// SPDX-License-Identifier: Apache-2.0
#include "apps/cli/data/selection_flags.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/read_file.h"

namespace leat {
namespace {

// Splits at NULs if there are any (as of `find -print0`), else at line ends.
std::vector<std::string> split_list(const std::string& text) {
  const char end = text.contains('\0') ? '\0' : '\n';
  std::vector<std::string> names;
  for (size_t at = 0; at < text.size();) {
    const size_t stop = std::min(text.find(end, at), text.size());
    if (stop > at) names.push_back(text.substr(at, stop - at));
    at = stop + 1;
  }
  return names;
}

}  // namespace

void SelectionFlags::declare(CLI::App& app) {
  app.add_option("--include", given_.include,
                 "Only files that match a pattern: '*.jpg' in any folder, 'part-?/**' from the top")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  app.add_option("--exclude", given_.exclude, "Skip files that match a pattern")
      ->type_name("PATTERN")
      ->allow_extra_args(false);
  app.add_option("--regex", given_.regex, "Only files whose path below the folder matches")
      ->type_name("REGEX");
  app.add_option("--files-from", list_,
                 "Only files and folders listed in this file, one per line; -: standard input")
      ->type_name("FILE");
}

CommandResult<FileSelection> SelectionFlags::selection() const {
  FileSelection all = given_;
  if (list_.empty()) return all;
  LEAT_TRY(std::string text,
           list_ == "-" ? read_to_end(STDIN_FILENO, "standard input") : read_file(list_));
  all.files = split_list(text);
  if (all.files.empty()) {
    return failure(StatusCode::kInvalidArgument, fmt::format("the list {} is empty", list_));
  }
  return all;
}

CommandResult<FileFilter> SelectionFlags::filter() const {
  LEAT_TRY(FileSelection wanted, selection());
  LEAT_TRY(FileFilter made, FileFilter::make(wanted));
  return made;
}

}  // namespace leat
