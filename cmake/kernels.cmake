# The CPU kernels: backend/cpu/sources.cmake names the files; those in BT_CPU_KERNEL_SOURCES are compiled once per
# instruction set, with BT_ISA_SUFFIX told to the code, and chosen when the program runs.

set(BT_CPU_DIR ${CMAKE_CURRENT_SOURCE_DIR}/libbetty/backend/cpu)
include(${BT_CPU_DIR}/sources.cmake OPTIONAL)
