# What the library is built on.

add_library(betty_dependencies INTERFACE)
set(betty_private_libs "") # for static linking by pkg-config

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG 1.6 REQUIRED)
find_package(JPEG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(UTF8PROC REQUIRED libutf8proc)
set_property(SOURCE libbetty/data/unicode.c APPEND PROPERTY COMPILE_OPTIONS ${UTF8PROC_CFLAGS}) # no other file has its header
find_path(INIPARSER_INCLUDE_DIR iniparser.h PATH_SUFFIXES iniparser) # Debian's 4.1 has no pkg-config file
find_library(INIPARSER_LIBRARY iniparser)
mark_as_advanced(INIPARSER_INCLUDE_DIR INIPARSER_LIBRARY)
if(NOT INIPARSER_INCLUDE_DIR OR NOT INIPARSER_LIBRARY)
    message(FATAL_ERROR "iniparser (4.1 or later) is not found: on Debian, apt-get install libiniparser-dev; elsewhere "
        "set INIPARSER_INCLUDE_DIR and INIPARSER_LIBRARY")
endif()
add_library(betty_iniparser INTERFACE)
target_include_directories(betty_iniparser SYSTEM INTERFACE ${INIPARSER_INCLUDE_DIR})
target_link_libraries(betty_iniparser INTERFACE ${INIPARSER_LIBRARY})

target_link_libraries(betty_dependencies INTERFACE PkgConfig::JANSSON ${UTF8PROC_LINK_LIBRARIES} betty_iniparser JPEG::JPEG PNG::PNG ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS} m)
string(APPEND betty_private_libs "-ljansson -lutf8proc -liniparser -ljpeg -lpng -lz -lpthread -ldl -lm")

# Ranks on several machines. Without it betty-run has ranks on one.
add_library(betty_mpi INTERFACE)
find_package(MPI QUIET COMPONENTS C)
if(MPI_C_FOUND)
    target_link_libraries(betty_mpi INTERFACE MPI::MPI_C)
    target_compile_definitions(betty_mpi INTERFACE BT_HAVE_MPI=1)
endif()
