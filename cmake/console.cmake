# SPDX-License-Identifier: Apache-2.0
# The console's page: web/ bundled by esbuild into the build tree, for frontends/console to embed. node
# and the packages of web/package-lock.json are needed to build and not to run; tools/setup puts the
# packages into LEAT_DEPS_DIR, in a folder that is named after the lock file's hash.
include_guard(GLOBAL)

find_program(LEAT_NODE node)
if(NOT LEAT_NODE)
  message(FATAL_ERROR "no node, which bundles the console: run tools/setup")
endif()
set(web_dir "${CMAKE_SOURCE_DIR}/web")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${web_dir}/package-lock.json")
file(SHA256 "${web_dir}/package-lock.json" web_lock)
string(SUBSTRING "${web_lock}" 0 12 web_lock)
set(LEAT_WEB_MODULES "${LEAT_DEPS_DIR}/console-${web_lock}/node_modules")
if(NOT EXISTS "${LEAT_WEB_MODULES}/../.complete")
  message(FATAL_ERROR "no packages for the console in ${LEAT_WEB_MODULES}: run tools/setup")
endif()

# leat_embed_console(TARGET): TARGET can #embed the bundle's files and include console_bundle.h. Adds
# the tests of web/, the types among them.
function(leat_embed_console target)
  set(out "${CMAKE_BINARY_DIR}/web")
  file(GLOB web_sources CONFIGURE_DEPENDS "${web_dir}/src/*")
  set(files "")
  foreach(name index.html console.js console.css icon.svg)
    list(APPEND files "${out}/${name}" "${out}/${name}.gz")
  endforeach()
  add_custom_command(
    OUTPUT ${files} "${out}/console_bundle.h"
    COMMAND "${LEAT_NODE}" "${web_dir}/build.mjs" bundle "${LEAT_WEB_MODULES}" "${out}"
    DEPENDS ${web_sources} "${web_dir}/build.mjs" "${web_dir}/package-lock.json"
    COMMENT "Bundling the console"
    VERBATIM)
  add_custom_target(leat_console_bundle DEPENDS ${files} "${out}/console_bundle.h")
  add_dependencies(${target} leat_console_bundle)
  target_include_directories(${target} PRIVATE "${out}")
  target_compile_options(${target} PRIVATE "SHELL:--embed-dir=${out}")
  set_property(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/console_page.cc" APPEND PROPERTY OBJECT_DEPENDS
               "${files};${out}/console_bundle.h")

  # What the sources import is not beside them, so the compiler is told where it is.
  set(LEAT_WEB_SOURCES "${web_dir}")
  configure_file("${web_dir}/tsconfig.build.json.in" "${out}/types/tsconfig.json" @ONLY)
  add_test(NAME web.types COMMAND "${LEAT_NODE}" "${LEAT_WEB_MODULES}/typescript/bin/tsc" --noEmit
                                  -p "${out}/types/tsconfig.json")
  add_test(NAME web.units COMMAND "${LEAT_NODE}" "${web_dir}/build.mjs" test "${LEAT_WEB_MODULES}"
                                  "${out}/test")
endfunction()
