# The CPU backend's files.
#
# BT_CPU_SOURCES         compiled once, with BT_CPU_DEFINITIONS
# BT_CPU_KERNEL_SOURCES  compiled once for each ISA of BT_CPU_ISAS, with BT_ISA_SUFFIX=<isa>, BT_CPU_KERNEL_OPTIONS and
#                        BT_CPU_OPTIONS_<isa>
# BT_CPU_HALF_SOURCES    likewise for each ISA of BT_CPU_HALF_ISAS: those that multiply numbers of 16 bits

include(CheckCCompilerFlag)
set(BT_CPU_SOURCES
    along.c
    backend.c
    collective.c
    conv_plan.c
    reference_channel.c
    reference_conv.c
    reference_dot.c
    reference_elementwise.c
    reference_index.c
    reference_linalg.c
    reference_loss.c
    reference_move.c
    reference_pool.c
    reference_random.c
    reference_reduce.c
    reference_update.c
    view.c)
set(BT_CPU_KERNEL_SOURCES
    binary.c
    channel.c
    conv.c
    conv_f32.c
    conv_f64.c
    convert.c
    index.c
    loop.c
    loss.c
    matmul.c
    matmul_f32.c
    matmul_f64.c
    move.c
    pieces.c
    pool.c
    random.c
    reduce.c
    select.c
    unary.c
    update.c)
set(BT_CPU_HALF_SOURCES
    half_conv.c
    half_matmul.c
    pairs.c)
set(BT_CPU_COLLECTIVE ${CMAKE_CURRENT_LIST_DIR}/collective.c)
list(TRANSFORM BT_CPU_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM BT_CPU_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM BT_CPU_HALF_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

# No rule of arithmetic is given up: what is left out are errno and floating-point exceptions, which nobody reads. A loop
# begins with a line of the instruction cache, so that its time does not change with the code before it.
set(BT_CPU_KERNEL_OPTIONS -O3 -fno-math-errno -fno-trapping-math -ffp-contract=off
    -falign-loops=64)
set(BT_CPU_ISAS generic)
set(BT_CPU_HALF_ISAS "")
set(BT_CPU_OPTIONS_generic "")
set(BT_CPU_DEFINITIONS "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND BT_CPU_ISAS v3)
    set(BT_CPU_OPTIONS_v3 -march=x86-64-v3)
    set(BT_CPU_OPTIONS_v4 -march=x86-64-v4 -mprefer-vector-width=512)
    set(BT_CPU_DEFINITIONS BT_CPU_HAVE_X86=1)
    if(NOT BT_SANITIZE) # the same sources once more; compiling them with sanitizers takes long
        list(APPEND BT_CPU_ISAS v4)
        list(APPEND BT_CPU_DEFINITIONS BT_CPU_HAVE_V4=1)
        set(BT_CPU_OPTIONS_v4b ${BT_CPU_OPTIONS_v4} -mavx512bf16)
        set(BT_CPU_OPTIONS_amx ${BT_CPU_OPTIONS_v4b} -mamx-tile -mamx-bf16)
        check_c_compiler_flag(-mavx512bf16 BT_COMPILES_AVX512_BF16)
        check_c_compiler_flag(-mamx-bf16 BT_COMPILES_AMX_BF16)
        if(BT_COMPILES_AVX512_BF16 AND BT_COMPILES_AMX_BF16)
            set(BT_CPU_HALF_ISAS v4b amx)
            list(APPEND BT_CPU_DEFINITIONS BT_CPU_HAVE_HALF=1)
        endif()
    endif()
endif()
