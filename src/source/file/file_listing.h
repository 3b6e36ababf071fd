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
// Size, mtime, inode and ctime of a file.
Version version_of_stat(const struct stat& info);

// Whether the directory at `key`, whose stat is `info`, is a link to a directory above itself.
bool links_to_ancestor(const std::string& key, const struct stat& info);

struct FilePage {
  ListPage page;
  source_metrics::LeftOut left_out;
};

// `page_entries` bounds the pages of recursive listings alone: one level is read, looked at and
// sorted as a whole, so that it is given as a whole, too.
Result<FilePage> list_files(const Context& context, const ListRequest& request,
                            size_t page_entries);

}  // namespace leat
