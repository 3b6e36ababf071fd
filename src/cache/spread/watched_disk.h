// SPDX-License-Identifier: Apache-2.0
// A Disk that tells a DirectoryHealth how its calls end.
#pragma once

#include <memory>

#include "cache/spread/directory_health.h"
#include "runtime/disk.h"

namespace leat {

std::shared_ptr<Disk> make_watched_disk(std::shared_ptr<Disk> disk,
                                        std::shared_ptr<DirectoryHealth> health);

// Writes a page into the directory for good, reads it again and removes it. A full disk is a good
// one. Blocks.
Result<> probe_directory(Disk& disk, const std::string& directory);

}  // namespace leat
