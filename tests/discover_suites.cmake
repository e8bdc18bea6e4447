# Writes LIST, a file for ctest: a test for each suite of PROGRAM but those called Gpu..., labelled unit. The tests of a suite run in one
# process, and are found one by one in RESULTS/<program>.<suite>.xml. Run as: cmake -DPROGRAM=... -DLIST=... -DRESULTS=... -P discover_suites.cmake
execute_process(COMMAND "${PROGRAM}" --gtest_list_tests "--gtest_filter=-Gpu*" OUTPUT_VARIABLE listed RESULT_VARIABLE code)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ended with ${code}")
endif()
cmake_path(GET PROGRAM FILENAME program)
# A line that begins with a word and ends with a dot, or has a comment after it.
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\.( |\n)" suites "${listed}")
set(tests "")
foreach(suite ${suites})
  string(REGEX MATCH "[A-Za-z0-9_/]+" name "${suite}")
  string(REPLACE "/" "_" file "${program}.${name}.xml")
  string(APPEND tests "add_test([==[${name}]==] [==[${PROGRAM}]==] [==[--gtest_filter=${name}.*]==] [==[--gtest_output=xml:${RESULTS}/${file}]==])\n"
    "set_tests_properties([==[${name}]==] PROPERTIES LABELS unit)\n")
endforeach()
file(WRITE "${LIST}" "${tests}")
