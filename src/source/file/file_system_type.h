// SPDX-License-Identifier: Apache-2.0
// Which file systems are this host's own: their reads end (a disk answers or fails), and cost what
// a read of the cache's disk costs. Everything that asks somebody else (NFS, SMB, FUSE, Lustre,
// Ceph, 9P …) may hang for ever, and so may whatever is not known here.
#pragma once

#include <sys/types.h>

#include <string>

namespace leat {

// By statfs(2)'s f_type. overlayfs counts as local: of what lies below it nothing can be asked.
bool is_local_type(long type);

// Of the file system of an open file, or of a path; `device` is the st_dev of the same. They ask
// the file system and so may hang, but a network file system only once in a while, since its answer
// is remembered for a minute by device. Thread-safe.
bool is_on_local_disk(int fd, dev_t device);
bool is_on_local_disk(const std::string& path, dev_t device);

}  // namespace leat
