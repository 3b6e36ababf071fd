// SPDX-License-Identifier: Apache-2.0
// One page of a listing of a local directory, in the order of the keys' bytes. Blocks.
#pragma once

#include <sys/stat.h>

#include <string>

#include "source/source.h"
#include "source/source_metrics.h"

namespace leat {

// "/" + key.
std::string path_of_key(const std::string& key);
SourceObject object_of_stat(std::string key, const struct stat& info);

struct FilePage {
  ListPage page;
  source_metrics::LeftOut left_out;  // counted anew with each page of a directory
};

Result<FilePage> list_files(const Context& context, const ListRequest& request,
                            size_t page_entries);

}  // namespace leat
