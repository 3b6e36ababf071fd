# SPDX-License-Identifier: Apache-2.0
# leat_libfuse: the static libfuse3 that tools/setup built into LEAT_DEPS_DIR. Debian 12's own (3.14)
# has neither passthrough nor FUSE over io_uring, so it is no fallback.
include_guard(GLOBAL)

file(GLOB LEAT_FUSE_PC "${LEAT_DEPS_DIR}/fuse-*/lib/pkgconfig/fuse3.pc"
     "${LEAT_DEPS_DIR}/fuse-*/lib/*/pkgconfig/fuse3.pc")
if(NOT LEAT_FUSE_PC)
  message(FATAL_ERROR "no libfuse in ${LEAT_DEPS_DIR}: run tools/setup, which builds it once")
endif()
list(SORT LEAT_FUSE_PC COMPARE NATURAL ORDER DESCENDING)
list(GET LEAT_FUSE_PC 0 LEAT_FUSE_PC)
cmake_path(GET LEAT_FUSE_PC PARENT_PATH LEAT_FUSE_PC_DIR)

set(ENV{PKG_CONFIG_PATH} "${LEAT_FUSE_PC_DIR}:$ENV{PKG_CONFIG_PATH}")
pkg_check_modules(libfuse REQUIRED fuse3>=3.17)
add_library(leat_libfuse INTERFACE IMPORTED GLOBAL)
# Without its compiler flag -pthread, which would not match the precompiled header's.
target_include_directories(leat_libfuse SYSTEM INTERFACE ${libfuse_INCLUDE_DIRS})
leat_static_libraries(libfuse_archives ${libfuse_STATIC_LINK_LIBRARIES} ${libfuse_LINK_LIBRARIES})
target_link_libraries(leat_libfuse INTERFACE ${libfuse_archives} Threads::Threads ${CMAKE_DL_LIBS})
# 3.17's interface: FUSE_USE_VERSION names the API that the sources are written to.
target_compile_definitions(leat_libfuse INTERFACE FUSE_USE_VERSION=317)
