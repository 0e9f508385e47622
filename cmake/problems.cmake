# The built-in problems: each file of problems/ is an ordinary problem file, whose export gets a name of its own; a
# generated table lists them by the name of the file.

file(GLOB problem_sources CONFIGURE_DEPENDS problems/*.c)
set(declarations "")
set(rows "")
foreach(source ${problem_sources})
    cmake_path(GET source STEM stem)
    set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS bt_exported=bt_exported_${stem})
    string(APPEND declarations "extern const bt_export bt_exported_${stem};\n")
    string(APPEND rows "    {\"${stem}\", &bt_exported_${stem}},\n")
endforeach()
configure_file(cmake/builtin.c.in builtin.c @ONLY)
target_sources(betty_objects PRIVATE ${problem_sources} ${CMAKE_CURRENT_BINARY_DIR}/builtin.c)
