# The notices of what others have written, which travel with the programs: of each library of third_party.json whose code is in one of them
# Debian's copyright file, by the name of its package, and the licences to which it refers. They are gathered here, and not kept.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS cmake/third_party.json)

# Fills `directory` for these programs: licenses/PACKAGE, licenses/common-licenses/NAME, and `copyright`, which Debian asks for.
function(ddp_gather_notices directory)
  file(READ "${PROJECT_SOURCE_DIR}/cmake/third_party.json" table)
  file(REMOVE_RECURSE "${directory}")
  string(JSON rows LENGTH "${table}")
  math(EXPR last "${rows} - 1")
  set(lines "")
  set(missing "")
  foreach(row RANGE ${last})
    set(is_held OFF)
    foreach(program IN LISTS ARGN)
      string(JSON how ERROR_VARIABLE ignored GET "${table}" ${row} in ${program})
      if(how MATCHES "static|headers")
        set(is_held ON)
      endif()
    endforeach()
    if(NOT is_held)
      continue()
    endif()
    string(JSON name GET "${table}" ${row} name)
    string(JSON package GET "${table}" ${row} package)
    string(JSON licence GET "${table}" ${row} licence)
    string(APPEND lines "  ${name}: ${licence}, licenses/${package}\n")
    set(notices "/usr/share/doc/${package}/copyright")
    string(JSON texts LENGTH "${table}" ${row} texts)
    foreach(text RANGE ${texts})
      if(text LESS texts)
        string(JSON licence GET "${table}" ${row} texts ${text})
        list(APPEND notices "/usr/share/common-licenses/${licence}")
      endif()
    endforeach()
    foreach(notice IN LISTS notices)
      string(REGEX REPLACE "^/usr/share/(doc/)?|/copyright$" "" place "${notice}")
      if(EXISTS "${notice}")
        configure_file("${notice}" "${directory}/licenses/${place}" COPYONLY)
      else()
        list(APPEND missing "${notice}")
      endif()
    endforeach()
  endforeach()
  if(missing)
    list(JOIN missing ", " missing)
    message(WARNING "These notices are not on this machine: ${missing}. Without them the programs are not to be given to others.")
  endif()
  list(JOIN ARGN ", " programs)
  file(CONFIGURE OUTPUT "${directory}/copyright" CONTENT "\
The files of this project have no licence: its owners have not chosen one yet.

These libraries of others are part of ${programs}. Their
licences are SPDX expressions; the files named here are beside this one, and
hold their notices.

${lines}")
endfunction()

# ddp_install_notices(PACKAGE COMPONENT PROGRAM...): into share/doc/PACKAGE.
function(ddp_install_notices package component)
  set(directory "${PROJECT_BINARY_DIR}/notices/${package}")
  ddp_gather_notices("${directory}" ${ARGN})
  install(DIRECTORY "${directory}/" DESTINATION "share/doc/${package}" COMPONENT ${component})
endfunction()
ddp_install_notices(ddp-launch launcher ddp-launch)
if(TARGET ddp-worker)
  ddp_install_notices(ddp-worker worker ddp-worker ddp-worker-start ddp-fetch libddp-shm.so libddp-worker-cuda.so)
endif()
