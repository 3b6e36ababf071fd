// SPDX-License-Identifier: Apache-2.0
// The only include of libfuse's low-level interface; cmake/libfuse.cmake selects its version.
#pragma once

#include <fuse_lowlevel.h>
