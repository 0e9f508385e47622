# What betty-run --new writes: the files of engine/command/new, as texts in the program.
include(cmake/embed.cmake)
embed_text(${CMAKE_CURRENT_SOURCE_DIR}/engine/command/new/problem.c problem_c)
embed_text(${CMAKE_CURRENT_SOURCE_DIR}/engine/command/new/problem.ini problem_ini)
file(CONFIGURE OUTPUT new_texts.c @ONLY CONTENT "/* Made by cmake/new.cmake of engine/command/new. */
#include \"engine/command/new.h\"

const char bt_new_c[] =
${problem_c};

const char bt_new_ini[] =
${problem_ini};
")
target_sources(betty_objects PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/new_texts.c)
