# SPDX-License-Identifier: Apache-2.0
# One static library per module of src/modules.txt, with its tests and a link test.
#
# leat_module(NAME [DEPS module…] [LIBS target…] [TEST_LIBS target…] [FOLDERS folder…] [PROGRAM name] [PCH]
#           [TOGETHER pattern…] [FUZZED source…])
#   sources   all *.cc of the folder but *_test.cc and *_fuzz.cc
#   tests     all *_test.cc, one GoogleTest program per module
#   DEPS      modules it uses; each must stand above it in the table, or configuring fails
#   FOLDERS   folders inside the module whose files belong to it as well
#   PROGRAM   main.cc is not part of the library but of this executable, put at the build's root
#   TOGETHER  GoogleTest filters; the tests of one run in one process, since they share a server that
#             takes long to start, and have 900 s for all of them. Every other test has a process
#             of its own and 300 s.
#   FUZZED    what the fuzzers watch beside their subjects
#   PCH       reuse the coroutine precompiled header of `runtime`; the tests, that with GoogleTest in it
# X_fuzz.cc is a libFuzzer program of its own about X.cc, which is compiled into it once more so that
# the fuzzer sees its branches. It writes its seeds itself; a test runs it for LEAT_FUZZ_SECONDS.
#
# The link test links the whole of the module's archive with nothing but what it declares, so a hidden
# dependency is a build failure.
file(STRINGS "${CMAKE_SOURCE_DIR}/src/modules.txt" LEAT_MODULES REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/modules.txt")

function(leat_module_target out module)
  string(REPLACE "/" "_" flat "${module}")
  set(${out} "leat_${flat}" PARENT_SCOPE)
endfunction()

# The precompiled header is compiled with -fPIC, as the libraries are; clang refuses it in a file that
# is compiled with an executable's -fPIE.
function(leat_reuse_pch executable owner)
  set_target_properties(${executable} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${executable} PRIVATE -fPIC)
  target_precompile_headers(${executable} REUSE_FROM ${owner})
endfunction()

# Built by default, and together as `leat_fuzz`.
function(leat_fuzzer module_target fuzzer)
  get_filename_component(name "${fuzzer}" NAME_WE)
  set(program "${module_target}_${name}")
  string(REGEX REPLACE "_fuzz\\.cc$" ".cc" subject "${fuzzer}")
  add_executable(${program} "${fuzzer}" "${subject}" ${ARGN})
  target_compile_options(${program} PRIVATE -fsanitize=fuzzer)
  target_link_options(${program} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${program} PRIVATE ${module_target})
  if(NOT TARGET leat_fuzz)
    add_custom_target(leat_fuzz)
  endif()
  add_dependencies(leat_fuzz ${program})
  add_test(NAME "fuzz.${name}"
           COMMAND sh -c "exec $<TARGET_FILE:${program}> -max_total_time=\${LEAT_FUZZ_SECONDS:-2} \
-use_value_profile=1 -timeout=10 -print_final_stats=1 -artifact_prefix=${name}- ${name}.seeds")
  set_tests_properties("fuzz.${name}" PROPERTIES TIMEOUT 7200)
endfunction()

function(leat_module module)
  cmake_parse_arguments(ARG "PCH" "PROGRAM" "DEPS;LIBS;TEST_LIBS;FOLDERS;TOGETHER;FUZZED" ${ARGN})
  list(FIND LEAT_MODULES "${module}" place)
  if(place LESS 0)
    message(FATAL_ERROR "module '${module}' is not in src/modules.txt")
  endif()
  leat_module_target(target "${module}")

  set(patterns *.cc *.h)
  set(test_patterns *_test.cc)
  set(fuzz_patterns *_fuzz.cc)
  foreach(folder IN LISTS ARG_FOLDERS)
    list(APPEND patterns ${folder}/*.cc ${folder}/*.h)
    list(APPEND test_patterns ${folder}/*_test.cc)
    list(APPEND fuzz_patterns ${folder}/*_fuzz.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  file(GLOB tests CONFIGURE_DEPENDS ${test_patterns})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  if(ARG_PROGRAM)
    list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
    add_executable(${ARG_PROGRAM} main.cc)
    target_link_libraries(${ARG_PROGRAM} PRIVATE ${target})
    set_target_properties(${ARG_PROGRAM} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}")
  endif()
  add_library(${target} STATIC ${sources})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}/src")
  target_link_libraries(${target} PUBLIC ${ARG_LIBS})
  foreach(dep IN LISTS ARG_DEPS)
    list(FIND LEAT_MODULES "${dep}" dep_place)
    if(dep_place LESS 0 OR NOT dep_place LESS place)
      message(FATAL_ERROR "module '${module}' may not use '${dep}': src/modules.txt puts it below")
    endif()
    leat_module_target(dep_target "${dep}")
    target_link_libraries(${target} PUBLIC ${dep_target})
  endforeach()
  if(ARG_PCH)
    target_precompile_headers(${target} REUSE_FROM leat_runtime)
  endif()
  set_property(GLOBAL PROPERTY LEAT_MODULE_DEPS_${target} "${ARG_DEPS}")

  file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/link_main.cc.in" "int main() { return 0; }\n")
  configure_file("${CMAKE_CURRENT_BINARY_DIR}/link_main.cc.in"
                 "${CMAKE_CURRENT_BINARY_DIR}/link_main.cc" COPYONLY)
  add_executable(${target}_link "${CMAKE_CURRENT_BINARY_DIR}/link_main.cc")
  target_link_libraries(${target}_link PRIVATE -Wl,--whole-archive ${target} -Wl,--no-whole-archive)
  add_test(NAME link.${module} COMMAND ${target}_link)

  if(LEAT_FUZZ)
    file(GLOB fuzzers CONFIGURE_DEPENDS ${fuzz_patterns})
    foreach(fuzzer IN LISTS fuzzers)
      leat_fuzzer(${target} "${fuzzer}" ${ARG_FUZZED})
    endforeach()
  endif()

  if(tests)
    add_executable(${target}_test ${tests})
    target_link_libraries(${target}_test PRIVATE ${target} ${ARG_TEST_LIBS} GTest::gmock GTest::gtest_main)
    if(ARG_PCH)
      leat_reuse_pch(${target}_test leat_test_pch)
    endif()
    include(GoogleTest)
    list(JOIN ARG_TOGETHER ":" together)
    gtest_discover_tests(${target}_test TEST_PREFIX "${module}." DISCOVERY_TIMEOUT 60
                         TEST_FILTER "*-${together}" PROPERTIES TIMEOUT 300)
    foreach(pattern IN LISTS ARG_TOGETHER)
      add_test(NAME "${module}.${pattern}" COMMAND ${target}_test "--gtest_filter=${pattern}")
      set_tests_properties("${module}.${pattern}" PROPERTIES TIMEOUT 900 COST 100)
    endforeach()
  endif()
endfunction()

function(leat_add_modules)
  foreach(module IN LISTS LEAT_MODULES)
    if(EXISTS "${CMAKE_SOURCE_DIR}/src/${module}/CMakeLists.txt")
      add_subdirectory("src/${module}")
    endif()
  endforeach()
endfunction()
