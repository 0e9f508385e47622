# What the library is built on.

add_library(betty_dependencies INTERFACE)
set(betty_private_libs "") # for static linking by pkg-config

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG 1.6 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

target_link_libraries(betty_dependencies INTERFACE PkgConfig::JANSSON PNG::PNG ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS} m)
string(APPEND betty_private_libs "-ljansson -lpng -lz -lpthread -ldl -lm")
