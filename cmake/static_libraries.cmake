# SPDX-License-Identifier: Apache-2.0
# Links everything but glibc statically, in every preset, so that the binary that is tested is the one
# that is packed. Only the files that are linked change, so that no compilation depends on this one.
# Debian's archives where it has them; fmt, spdlog, toml++ and ISA-L as tools/setup built them from
# Debian's sources (tools/setup.d/static_libraries.sh).
set(LEAT_STATIC_DIR "${LEAT_DEPS_DIR}/static")
if(NOT IS_DIRECTORY "${LEAT_STATIC_DIR}")
  message(FATAL_ERROR "no static libraries in ${LEAT_STATIC_DIR}: run tools/setup, which builds them once")
endif()

# Of an imported target of find_package, whatever configuration the package was built in.
function(leat_use_archive target archive)
  if(NOT EXISTS "${archive}")
    message(FATAL_ERROR "${archive} is missing: run tools/setup")
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration IN LISTS configurations)
    if(configuration)
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${archive}")
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION "${archive}")
endfunction()

leat_use_archive(fmt::fmt "${LEAT_STATIC_DIR}/libfmt.a")
leat_use_archive(spdlog::spdlog "${LEAT_STATIC_DIR}/libspdlog.a")
leat_use_archive(tomlplusplus::tomlplusplus "${LEAT_STATIC_DIR}/libtomlplusplus.a")
string(REGEX REPLACE "\\.so$" ".a" re2_archive "${RE2_LIBRARY}")
target_link_libraries(leat_re2 INTERFACE "${re2_archive}" Threads::Threads)
string(REGEX REPLACE "\\.so$" ".a" crypto_archive "${OPENSSL_CRYPTO_LIBRARY}")
leat_use_archive(OpenSSL::Crypto "${crypto_archive}")
string(REGEX REPLACE "\\.so$" ".a" ssl_archive "${OPENSSL_SSL_LIBRARY}")
leat_use_archive(OpenSSL::SSL "${ssl_archive}")
set_property(TARGET OpenSSL::Crypto APPEND PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads
             ${CMAKE_DL_LIBS})
set_target_properties(PkgConfig::isal PROPERTIES INTERFACE_LINK_LIBRARIES "${LEAT_STATIC_DIR}/libisal.a")

# The targets are still those of shared libraries to CMake, which would note where it found them.
set(CMAKE_SKIP_RPATH ON)

# LIBRARIES of pkg-config's answer with every lib*.so of which there is an archive replaced by it.
function(leat_static_libraries out)
  set(found "")
  foreach(library IN LISTS ARGN)
    string(REGEX REPLACE "\\.so$" ".a" archive "${library}")
    if(EXISTS "${archive}")
      list(APPEND found "${archive}")
    else()
      list(APPEND found "${library}")
    endif()
  endforeach()
  set(${out} "${found}" PARENT_SCOPE)
endfunction()
leat_static_libraries(uring_archives ${uring_LINK_LIBRARIES})
set_target_properties(PkgConfig::uring PROPERTIES INTERFACE_LINK_LIBRARIES "${uring_archives}")
leat_static_libraries(sqlite_archives ${sqlite_LINK_LIBRARIES})
set_target_properties(PkgConfig::sqlite PROPERTIES
                      INTERFACE_LINK_LIBRARIES "${sqlite_archives};m;${CMAKE_DL_LIBS}")
leat_static_libraries(ncursesw_archives "${NCURSESW_LIBRARY}" "${TINFO_LIBRARY}")
target_link_libraries(leat_ncursesw INTERFACE ${ncursesw_archives})

# The sanitizers' own runtime wants the shared ones.
if(NOT LEAT_SANITIZE)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
