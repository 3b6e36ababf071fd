# SPDX-License-Identifier: Apache-2.0
# Compiler, linker, sanitizer and compiler-cache settings, the same for every module so that they can
# share one precompiled header.
set(LEAT_SANITIZE "" CACHE STRING "Sanitizers, as in -fsanitize=")

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
                    -Werror -fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
add_link_options(-fuse-ld=lld-19)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
# With sanitizers, -Og takes the compiler twice as long, and most of a test run is compiling.
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g1")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Fuzzers want the address sanitizer's eyes.
string(FIND "${LEAT_SANITIZE}" "address" LEAT_SANITIZES_ADDRESSES)
set(LEAT_FUZZ_DEFAULT OFF)
if(LEAT_SANITIZES_ADDRESSES GREATER -1)
  set(LEAT_FUZZ_DEFAULT ON)
endif()
option(LEAT_FUZZ "Build the fuzzers (*_fuzz.cc)" ${LEAT_FUZZ_DEFAULT})

if(LEAT_SANITIZE)
  # As seen from the build folder, as the compiler cache is to know it in another checkout.
  file(RELATIVE_PATH LEAT_SANITIZER_IGNORES "${CMAKE_BINARY_DIR}"
       "${CMAKE_SOURCE_DIR}/cmake/sanitizer_ignores.txt")
  add_compile_options(-fsanitize=${LEAT_SANITIZE} -fno-sanitize-recover=all
                      -fsanitize-ignorelist=${LEAT_SANITIZER_IGNORES})
  add_link_options(-fsanitize=${LEAT_SANITIZE})
endif()

find_program(LEAT_CCACHE ccache)
if(LEAT_CCACHE)
  # A precompiled header is the same each time only if the compiler leaves time stamps out of it.
  add_compile_options(-Xclang -fno-pch-timestamp)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/cmake/compile_cached" "${LEAT_CCACHE}"
      "${CMAKE_SOURCE_DIR}")
endif()
