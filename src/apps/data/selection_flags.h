// SPDX-License-Identifier: Apache-2.0
// The flags that say which files of a folder are meant (model/file_filter.h), for all commands that
// take them.
#pragma once

#include <string>

#include "apps/command.h"
#include "model/file_filter.h"

namespace leat {

class SelectionFlags {
 public:
  void declare(CLI::App& app);
  // Reads the list, if one was named; kNotFound where there is none.
  Attempt<FileSelection> selection() const;
  Attempt<FileFilter> filter() const;

 private:
  FileSelection given_;
  std::string list_;
};

}  // namespace leat
