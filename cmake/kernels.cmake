# The CPU kernels: backend/cpu/sources.cmake names the files, those that are compiled once and those that are compiled
# once for each instruction set; the program chooses between these when it starts.

include(libbetty/backend/cpu/sources.cmake)
target_sources(betty_objects PRIVATE ${BT_CPU_SOURCES})
set_source_files_properties(${BT_CPU_SOURCES} PROPERTIES COMPILE_DEFINITIONS "${BT_CPU_DEFINITIONS}")

if(BT_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL Debug)
    list(REMOVE_ITEM BT_CPU_KERNEL_OPTIONS -O3)
endif()
set_source_files_properties(${BT_CPU_COLLECTIVE} PROPERTIES COMPILE_OPTIONS "${BT_CPU_KERNEL_OPTIONS}")
set(betty_all_objects $<TARGET_OBJECTS:betty_objects>)
foreach(isa ${BT_CPU_ISAS} ${BT_CPU_HALF_ISAS})
    if(isa IN_LIST BT_CPU_HALF_ISAS)
        add_library(betty_kernels_${isa} OBJECT ${BT_CPU_HALF_SOURCES})
    else()
        add_library(betty_kernels_${isa} OBJECT ${BT_CPU_KERNEL_SOURCES})
    endif()
    target_link_libraries(betty_kernels_${isa} PRIVATE betty_settings betty_dependencies)
    target_compile_definitions(betty_kernels_${isa} PRIVATE BT_ISA_SUFFIX=${isa} ${BT_CPU_DEFINITIONS})
    target_compile_options(betty_kernels_${isa} PRIVATE ${BT_CPU_KERNEL_OPTIONS} ${BT_CPU_OPTIONS_${isa}})
    list(APPEND betty_all_objects $<TARGET_OBJECTS:betty_kernels_${isa}>)
endforeach()
