# `cmake --install`: headers, libraries, command, examples and data, pkg-config file.

install(TARGETS betty betty_static
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET betty-run)
    install(TARGETS betty-run RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY libbetty/include/betty DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
foreach(folder examples problems data)
    if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
        install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_DATADIR}/betty)
    endif()
endforeach()
file(RELATIVE_PATH betty_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" betty_pc_to_prefix "${betty_pc_to_prefix}")
configure_file(libbetty.pc.in libbetty.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libbetty.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
