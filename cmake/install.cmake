# `cmake --install`: headers, libraries, command, examples and data, pkg-config file.

install(TARGETS betty betty_static betty-run
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY libbetty/include/betty DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY examples problems data DESTINATION ${CMAKE_INSTALL_DATADIR}/betty)
file(RELATIVE_PATH betty_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" betty_pc_to_prefix "${betty_pc_to_prefix}")
configure_file(libbetty.pc.in libbetty.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libbetty.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
