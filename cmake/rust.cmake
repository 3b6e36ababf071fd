# SPDX-License-Identifier: Apache-2.0
# leat_shim: the Rust static library of src/source/shim, built by cargo outside the tree.
#
# Its place is named after the hash of its sources, so presets and checkouts share one build and an
# edit relinks exactly what it must. The crates it depends on are compiled once, in a folder of their
# own under a lock.
if(DEFINED ENV{CARGO})
  set(LEAT_CARGO "$ENV{CARGO}")
else()
  find_program(LEAT_CARGO cargo REQUIRED)
endif()
find_program(LEAT_FLOCK flock REQUIRED)

set(shim_source_dir "${CMAKE_SOURCE_DIR}/src/source/shim")
file(GLOB_RECURSE shim_sources CONFIGURE_DEPENDS "${shim_source_dir}/src/*.rs")
list(APPEND shim_sources "${shim_source_dir}/Cargo.toml" "${shim_source_dir}/Cargo.lock")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shim_sources})

set(shim_hashes "")
foreach(source IN LISTS shim_sources)
  file(SHA256 "${source}" hash)
  string(APPEND shim_hashes "${hash}")
endforeach()
string(SHA256 shim_hash "${shim_hashes}")
string(SUBSTRING "${shim_hash}" 0 12 shim_hash)

set(shim_dir "${LEAT_DEPS_DIR}/shim-${shim_hash}")
set(shim_target_dir "${LEAT_DEPS_DIR}/shim-target")
set(shim_library "${shim_dir}/libleat_shim.a")
file(MAKE_DIRECTORY "${shim_dir}" "${shim_target_dir}")

# cargo calls what another checkout built last its own, so that goes first. Written under another name:
# a build that was interrupted must not leave half a library.
string(CONCAT shim_script
       "{ [ \"$(cat \"$3/leat.checkout\" 2>/dev/null)\" = \"$2\" ]"
       " || \"$1\" clean --quiet --release -p leat_shim --manifest-path \"$2\" --target-dir \"$3\"; }"
       " && echo \"$2\" > \"$3/leat.checkout\""
       " && \"$1\" build --release --locked --manifest-path \"$2\" --target-dir \"$3\""
       " && cp \"$3/release/libleat_shim.a\" \"$4.part\" && mv \"$4.part\" \"$4\"")
add_custom_command(
  OUTPUT "${shim_library}"
  COMMAND "${LEAT_FLOCK}" "${shim_target_dir}/leat.lock" sh -c "${shim_script}"
          sh "${LEAT_CARGO}" "${shim_source_dir}/Cargo.toml" "${shim_target_dir}" "${shim_library}"
  DEPENDS ${shim_sources}
  COMMENT "Building the object-store shim with cargo (minutes the first time)"
  USES_TERMINAL
  VERBATIM)
add_custom_target(leat_shim_build DEPENDS "${shim_library}")

add_library(leat_shim STATIC IMPORTED GLOBAL)
set_target_properties(leat_shim PROPERTIES IMPORTED_LOCATION "${shim_library}")
target_link_libraries(leat_shim INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m)
add_dependencies(leat_shim leat_shim_build)
