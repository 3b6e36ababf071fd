// SPDX-License-Identifier: Apache-2.0
// Flags that select files of a directory (model/file_filter.h), for all commands that have them.
#pragma once

#include <string>

#include "apps/cli/command/command.h"
#include "model/file_filter.h"

namespace leat {

class SelectionFlags {
 public:
  void declare(CLI::App& app);
  // Reads the list file, if one is given; kNotFound if it does not exist.
  CommandResult<FileSelection> selection() const;
  CommandResult<FileFilter> filter() const;

 private:
  FileSelection given_;
  std::string list_;
};

}  // namespace leat
