# The CPU kernels: backend/cpu/sources.cmake names the files; those in BT_CPU_KERNEL_SOURCES are compiled once per
# instruction set, with BT_ISA_SUFFIX told to the code, and chosen when the program runs.

set(BT_CPU_DIR ${CMAKE_CURRENT_SOURCE_DIR}/libbetty/backend/cpu)
include(${BT_CPU_DIR}/sources.cmake)
target_sources(betty_objects PRIVATE ${BT_CPU_SOURCES})
set_property(SOURCE ${BT_CPU_SOURCES} APPEND PROPERTY COMPILE_DEFINITIONS ${BT_CPU_DEFINITIONS})
foreach(isa ${BT_CPU_ISAS})
    foreach(source ${BT_CPU_KERNEL_SOURCES})
        cmake_path(GET source STEM stem)
        # A file that includes the source: one source can have only one set of options.
        set(variant ${CMAKE_CURRENT_BINARY_DIR}/kernels/${stem}_${isa}.c)
        file(CONFIGURE OUTPUT ${variant} CONTENT "#include \"${source}\"\n")
        target_sources(betty_objects PRIVATE ${variant})
        set_source_files_properties(${variant} PROPERTIES
            COMPILE_DEFINITIONS BT_ISA_SUFFIX=${isa} COMPILE_OPTIONS "${BT_CPU_KERNEL_OPTIONS};${BT_CPU_OPTIONS_${isa}}")
    endforeach()
endforeach()
