# CPack: Debian packages, of a build with the prefix /usr, and the sources as an archive: ./dev package.

set(CPACK_PACKAGE_NAME libbetty)
set(CPACK_PACKAGE_VENDOR "libbetty")
set(CPACK_PACKAGE_CONTACT "libbetty maintainers <maintainers@users.noreply.a-seed-f36ccdb3.example>")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_CURRENT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGE_FILE_NAME libbetty-${PROJECT_VERSION}-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_BETTY_DATE ${date}) # of the version: cmake/manual.cmake
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_SOURCE_DIR}/cmake/package_files.cmake)

# ---- the sources: what git has, or would have ----

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME libbetty-${PROJECT_VERSION})
set(CPACK_SOURCE_IGNORE_FILES "/\\\\.git/" "/build[^/]*/" "/runs/" "\\\\.o$" "\\\\.so$" "/bench/results/"
    "/__pycache__/")

# ---- packages ----

set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime dev command data)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libbetty${abi})
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "libbetty trains several optimisation problems together, where the loss of one
depends on the solution of another. This is the shared library.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/triggers)
file(CONFIGURE OUTPUT triggers CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS betty-data)

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libbetty-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libbetty${abi} (= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS
    "libiniparser-dev, libjansson-dev, libjpeg62-turbo-dev, libpng-dev, libutf8proc-dev, zlib1g-dev") # to link libbetty.a
set(CPACK_COMPONENT_DEV_DESCRIPTION "Headers and static library: what programs that use libbetty, and problems
that betty-run compiles, are built with. The packages that are suggested are
needed to link the static library.")

set(CPACK_DEBIAN_COMMAND_PACKAGE_NAME betty-run)
set(CPACK_DEBIAN_COMMAND_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMAND_PACKAGE_RECOMMENDS
    "libbetty-dev (= ${PROJECT_VERSION}), betty-data, gcc | c-compiler, libc6-dev")
set(CPACK_COMPONENT_COMMAND_DESCRIPTION "betty-run trains the problems that an INI file connects. Problems that are
not built in are C files, which it compiles: for these it needs libbetty-dev
and a C compiler.")

set(CPACK_DEBIAN_DATA_PACKAGE_NAME betty-data)
set(CPACK_DEBIAN_DATA_PACKAGE_SECTION science)
set(CPACK_DEBIAN_DATA_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_DATA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_COMPONENT_DATA_DESCRIPTION "INI files, problems and small data sets for libbetty and betty-run.")
include(CPack)
