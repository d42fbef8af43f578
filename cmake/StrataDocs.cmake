# SPDX-License-Identifier: Apache-2.0
# The target docs: a reference of the public headers, with the guides beside it, in docs/html of the build folder. There is none
# where there is no Doxygen.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  message(STATUS "There is no Doxygen: no target docs (launch/setup --docs installs it)")
  return()
endif()

set(STRATA_DOCS_DIR ${PROJECT_BINARY_DIR}/docs)
# The guides link to these, too.
file(GLOB STRATA_DOCS_READMES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*/README.md
     ${PROJECT_SOURCE_DIR}/extras/README.md ${PROJECT_SOURCE_DIR}/extras/*/README.md ${PROJECT_SOURCE_DIR}/tests/fuzz/README.md
     ${PROJECT_SOURCE_DIR}/examples/README.md ${PROJECT_SOURCE_DIR}/examples/*/README.md
     ${PROJECT_SOURCE_DIR}/benchmarks/*/README.md ${PROJECT_SOURCE_DIR}/partition/*.md)
list(TRANSFORM STRATA_DOCS_READMES REPLACE "(.+)" "\"\\1\"")
list(JOIN STRATA_DOCS_READMES " " STRATA_DOCS_READMES)
file(GLOB STRATA_DOCS_EXTRA_HEADERS ${PROJECT_SOURCE_DIR}/extras/*/include)
list(TRANSFORM STRATA_DOCS_EXTRA_HEADERS REPLACE "(.+)" "\"\\1\"")
list(JOIN STRATA_DOCS_EXTRA_HEADERS " " STRATA_DOCS_EXTRA_HEADERS)
configure_file(${PROJECT_SOURCE_DIR}/docs/Doxyfile.in ${STRATA_DOCS_DIR}/Doxyfile @ONLY)
add_custom_target(docs COMMAND Doxygen::doxygen ${STRATA_DOCS_DIR}/Doxyfile VERBATIM
                  COMMENT "Making the reference: ${STRATA_DOCS_DIR}/html/index.html")
