// SPDX-License-Identifier: Apache-2.0
// libfuse's low-level interface, included here only: its version is chosen in cmake/libfuse.cmake.
#pragma once

#include <fuse_lowlevel.h>
