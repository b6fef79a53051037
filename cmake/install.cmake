# SPDX-License-Identifier: Apache-2.0
# `make install` (PREFIX, DESTDIR): the program, configurations with the embedded models they name, completions, and what
# systemd and logrotate read. An edited etc/slipstream/slipstream.toml is left alone.
include(GNUInstallDirs)

# LibTorch stays where it was found: the installed program looks for it there.
set_target_properties(slipstream PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS slipstream RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(DIRECTORY configs DESTINATION "${CMAKE_INSTALL_DATADIR}/slipstream")
install(DIRECTORY checkpoints/demo DESTINATION "${CMAKE_INSTALL_DATADIR}/slipstream/checkpoints")
install(FILES README.md ARCHITECTURE.md CONTRIBUTING.md LICENSE DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(FILES tools/slipstream.sysusers DESTINATION lib/sysusers.d RENAME slipstream.conf)
install(FILES tools/slipstream.logrotate DESTINATION "${CMAKE_INSTALL_DATADIR}/slipstream" RENAME logrotate)
# What depends on the prefix, which `cmake --install --prefix` may choose late.
install(CODE "set(source_dir \"${CMAKE_SOURCE_DIR}\")
set(bin_dir \"${CMAKE_INSTALL_BINDIR}\")
set(data_dir \"${CMAKE_INSTALL_DATADIR}\")
set(program \"$<TARGET_FILE:slipstream>\")")
install(SCRIPT cmake/install_late.cmake)
