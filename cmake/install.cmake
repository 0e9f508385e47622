# `cmake --install`: headers, libraries, command, examples and data; what pkg-config and find_package(betty) read.

target_include_directories(betty INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS betty EXPORT betty LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS betty_static betty-run
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY libbetty/include/betty DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY examples problems data DESTINATION ${CMAKE_INSTALL_DATADIR}/betty)
file(RELATIVE_PATH betty_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" betty_pc_to_prefix "${betty_pc_to_prefix}")
configure_file(libbetty.pc.in libbetty.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libbetty.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

include(CMakePackageConfigHelpers)
install(EXPORT betty FILE bettyConfig.cmake NAMESPACE betty:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/betty)
write_basic_package_version_file(bettyConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bettyConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/betty)
