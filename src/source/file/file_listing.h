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
PosixAttributes attributes_of_stat(const struct stat& info);
// Size, mtime, inode and ctime of a file.
Version version_of_stat(const struct stat& info);

// Returns whether `key` is a link to a directory above itself; `info` is its stat.
bool links_to_ancestor(const std::string& key, const struct stat& info);

struct FilePage {
  ListPage page;
  source_metrics::SkippedKeys skipped;
};

// Lists one page. With `exact`, links are not followed, and all kinds of files are listed.
// `page_entries` bounds the pages of recursive listings only. One level is read and
// sorted as a whole, so it is always one page.
Result<FilePage> list_files(const Context& context, const ListRequest& request, size_t page_entries,
                            bool exact = false);

}  // namespace leat
