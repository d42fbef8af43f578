# Programs, libraries, headers and the CMake package.
include(GNUInstallDirs)
