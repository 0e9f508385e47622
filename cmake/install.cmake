# `cmake --install`: headers, libraries, command, examples and data; what pkg-config and find_package(betty) read. The
# components are those of the packages (cmake/package.cmake): runtime, dev, command, data.

target_include_directories(betty INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_include_directories(betty_static INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
separate_arguments(libraries UNIX_COMMAND "${betty_private_libs}")
foreach(library ${libraries})
    target_link_libraries(betty_static INTERFACE $<INSTALL_INTERFACE:${library}>)
endforeach()
install(TARGETS betty EXPORT betty
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev)
install(TARGETS betty_static EXPORT betty ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(TARGETS betty-run RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(DIRECTORY libbetty/include/betty DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev
    FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(DIRECTORY ${man}/man1 ${man}/man5 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT command)
install(DIRECTORY ${man}/man3 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT dev)
install(FILES tools/completion/betty-run.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
    COMPONENT command RENAME betty-run)
install(FILES tools/completion/betty-run.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command
    RENAME _betty-run)
install(FILES tools/completion/betty-run.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
    COMPONENT command)
install(DIRECTORY examples problems data DESTINATION ${CMAKE_INSTALL_DATADIR}/betty COMPONENT data)

file(RELATIVE_PATH betty_pc_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" betty_pc_to_prefix "${betty_pc_to_prefix}")
configure_file(libbetty.pc.in libbetty.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/libbetty.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# Before 1.0 a new minor version may change what programs say; a new interface number (BT_ABI) what they are linked to.
include(CMakePackageConfigHelpers)
write_basic_package_version_file(bettyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT betty FILE bettyConfig.cmake NAMESPACE betty:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/betty COMPONENT dev)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/bettyConfigVersion.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/betty
    COMPONENT dev)
