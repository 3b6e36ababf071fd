# SPDX-License-Identifier: Apache-2.0
# Where each library comes from. docs/dependencies.md says which and why. Those newer than Debian 12
# are built once by tools/setup into LEAT_DEPS_DIR, outside the tree.
if(DEFINED ENV{LEAT_DEPS_DIR})
  set(LEAT_DEPS_DIR "$ENV{LEAT_DEPS_DIR}")
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(LEAT_DEPS_DIR "$ENV{XDG_CACHE_HOME}/leat-build")
else()
  set(LEAT_DEPS_DIR "$ENV{HOME}/.cache/leat-build")
endif()

find_package(Threads REQUIRED)
find_package(Boost 1.81 REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(GTest REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(uring REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(sqlite REQUIRED IMPORTED_TARGET sqlite3)
# Its pkg-config file asks for -pthread, which would have to be everywhere or nowhere: a precompiled
# header is for one of both.
find_library(RE2_LIBRARY re2 REQUIRED)
find_path(RE2_INCLUDE_DIR re2/re2.h REQUIRED)
add_library(leat_re2 INTERFACE)
target_include_directories(leat_re2 SYSTEM INTERFACE ${RE2_INCLUDE_DIR})
# The same is true of what its pkg-config file asks to define.
find_library(NCURSESW_LIBRARY ncursesw REQUIRED)
find_library(TINFO_LIBRARY tinfo REQUIRED)
add_library(leat_ncursesw INTERFACE)
include(static_libraries)

add_library(leat_asio INTERFACE)
target_link_libraries(leat_asio INTERFACE Boost::headers Threads::Threads)
target_compile_definitions(leat_asio INTERFACE BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_COROUTINE
                           BOOST_ASIO_HAS_STD_INVOKE_RESULT=1)
