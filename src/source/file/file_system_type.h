// SPDX-License-Identifier: Apache-2.0
// Distinguishes local file systems from others. Reads of a local disk always end (it answers or
// fails) and cost what a read of the cache's disk costs. A file system that depends on another
// process or host (NFS, SMB, FUSE, Lustre, Ceph, 9P …) may hang for ever. An unknown type counts as
// such.
#pragma once

#include <sys/types.h>

#include <string>

namespace leat {

// Tests the f_type of statfs(2). overlayfs counts as local: its lower layers cannot be queried.
bool is_local_type(long type);

// Test the file system of an open file or of a path; `device` is its st_dev. They call the file
// system and so may hang. The result is cached for a minute per device, so a network file system is
// called rarely. Thread-safe.
bool is_on_local_disk(int fd, dev_t device);
bool is_on_local_disk(const std::string& path, dev_t device);

}  // namespace leat
