# Pages of the manual, in man/ of the build: those of the command are what it says of itself (--help=man), those of the
# library what the public headers say. A build for another machine makes the first with an emulator only.

find_program(AWK NAMES awk REQUIRED)
mark_as_advanced(AWK)
set(man ${CMAKE_CURRENT_BINARY_DIR}/man)
file(MAKE_DIRECTORY ${man}/man1 ${man}/man3 ${man}/man5)
file(STRINGS libbetty/base/version.h date REGEX "^#define BT_VERSION_DATE ")
string(REGEX MATCH "[0-9]+-[0-9]+-[0-9]+" date "${date}")
add_custom_command(OUTPUT ${man}/man3/betty.3 VERBATIM
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${man}/man3
    COMMAND ${CMAKE_COMMAND} -E make_directory ${man}/man3
    COMMAND ${AWK} -v OUT=${man}/man3 -v VERSION=${PROJECT_VERSION} -v DATE=${date}
        -f ${CMAKE_CURRENT_SOURCE_DIR}/cmake/manual.awk ${public_headers}
    DEPENDS ${public_headers} cmake/manual.awk libbetty/base/version.h)
set(pages ${man}/man3/betty.3)
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
    message(STATUS "No emulator (CMAKE_CROSSCOMPILING_EMULATOR): no manual of betty-run")
elseif(NOT BT_SANITIZE)
    add_custom_command(OUTPUT ${man}/man1/betty-run.1 COMMAND betty-run --help=man >${man}/man1/betty-run.1
        DEPENDS betty-run)
    add_custom_command(OUTPUT ${man}/man5/betty-run.5 COMMAND betty-run --help-keys=man >${man}/man5/betty-run.5
        DEPENDS betty-run)
    list(APPEND pages ${man}/man1/betty-run.1 ${man}/man5/betty-run.5)
endif()
add_custom_target(betty-manual ALL DEPENDS ${pages})
