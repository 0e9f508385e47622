# How our own code is compiled.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, Release, RelWithDebInfo or MinSizeRel" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# Floating-point expressions mean what they say on every compiler; -DNDEBUG is left out, for asserts are cheap here.
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
if(BT_SANITIZE)
    set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1") # compiles in a third of the time
endif()
add_library(betty_settings INTERFACE)
target_compile_options(betty_settings INTERFACE -Wall -Wextra -Wconversion -ffp-contract=off -fno-semantic-interposition)
target_compile_definitions(betty_settings INTERFACE _GNU_SOURCE)
target_include_directories(betty_settings INTERFACE
    ${CMAKE_CURRENT_SOURCE_DIR}/libbetty/include ${CMAKE_CURRENT_SOURCE_DIR}/libbetty ${CMAKE_CURRENT_SOURCE_DIR})
if(BT_WERROR AND NOT BT_SANITIZE) # sanitizers confuse the compiler's own analysis
    target_compile_options(betty_settings INTERFACE -Werror)
endif()
if(BT_SANITIZE)
    target_compile_options(betty_settings INTERFACE -fsanitize=${BT_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(betty_settings INTERFACE -fsanitize=${BT_SANITIZE})
    if(BT_SANITIZE MATCHES undefined)
        target_compile_options(betty_settings INTERFACE -fno-sanitize-recover=undefined)
    endif()
endif()
