# `cmake --install BUILD --prefix PREFIX`: bin/ddp-launch, bin/ddp-worker, bin/ddp-fetch, share/ddp/configs; lib/libddp-worker-cuda.so, which
# bin/ddp-worker finds there; and ddp-worker as a library for programs with models of their own: include/ddp, lib/, and the CMake
# package `ddp` with its target ddp::worker.
include(CMakePackageConfigHelpers)
foreach(program ddp-launch ddp-worker ddp-fetch)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()
if(TARGET ddp-worker)
  # LibTorch stays where it is, for the installed program too. One path for both: CMake would pad the other with an empty entry, which
  # means the current directory.
  set_target_properties(ddp-worker PROPERTIES INSTALL_RPATH "${DDP_TORCH}/torch/lib" BUILD_WITH_INSTALL_RPATH ON)
endif()
if(TARGET ddp-worker-cuda)
  install(TARGETS ddp-worker-cuda LIBRARY DESTINATION lib)
  set_target_properties(ddp-worker-cuda PROPERTIES
    INSTALL_RPATH "${DDP_TORCH}/torch/lib;${ddp_cuda_libraries}" BUILD_WITH_INSTALL_RPATH ON)
endif()
install(DIRECTORY configs DESTINATION share/ddp)
# What the programs print for shells and for man.
function(ddp_install_page program flag folder name)
  set(page "${PROJECT_BINARY_DIR}/pages/${name}")
  add_custom_command(OUTPUT "${page}" DEPENDS ${program} VERBATIM
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/pages"
    COMMAND sh -c "\"$1\" \"$2\" >\"$3\"" - "$<TARGET_FILE:${program}>" "${flag}" "${page}")
  set_property(GLOBAL APPEND PROPERTY DDP_PAGES "${page}")
  install(FILES "${page}" DESTINATION "${folder}")
endfunction()
foreach(program ddp-launch ddp-worker)
  if(TARGET ${program})
    ddp_install_page(${program} --completion=bash share/bash-completion/completions ${program})
    ddp_install_page(${program} --completion=zsh share/zsh/site-functions _${program})
    ddp_install_page(${program} --completion=fish share/fish/vendor_completions.d ${program}.fish)
  endif()
endforeach()
foreach(program ddp-launch ddp-worker)
  if(TARGET ${program})
    ddp_install_page(${program} --man share/man/man1 ${program}.1)
  endif()
endforeach()
if(TARGET ddp-launch)
  get_property(pages GLOBAL PROPERTY DDP_PAGES)
  add_custom_target(pages ALL DEPENDS ${pages})
endif()
install(FILES deploy/progress/ddp_progress.py DESTINATION share/ddp)
install(FILES deploy/progress/ddp_progress.h DESTINATION include)
if(NOT TARGET ddp-worker)
  return()
endif()

set(package_dir lib/cmake/ddp)
set_target_properties(ddp_worker PROPERTIES EXPORT_NAME worker)
install(TARGETS ddp_worker ddp_worker_files ddp_worker_image ddp_worker_plan ddp_common ddp_settings ddp_warnings ddp_spdlog ddp_yaml_cpp ddp_pictures
  EXPORT ddp ARCHIVE DESTINATION lib)
install(EXPORT ddp NAMESPACE ddp:: DESTINATION ${package_dir} FILE ddp-targets.cmake)
install(DIRECTORY common worker DESTINATION include/ddp
  FILES_MATCHING PATTERN "*.h" PATTERN "worker/dist/gloo" EXCLUDE PATTERN "worker/cuda" EXCLUDE PATTERN "worker/fetch" EXCLUDE PATTERN "worker/include" EXCLUDE)
install(FILES worker/include/ddp/ddp.h DESTINATION include/ddp)
configure_package_config_file(cmake/ddp-config.cmake.in ddp-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ddp-config-version.cmake COMPATIBILITY ExactVersion)
install(FILES "${PROJECT_BINARY_DIR}/ddp-config.cmake" "${PROJECT_BINARY_DIR}/ddp-config-version.cmake" cmake/libtorch.cmake
  DESTINATION ${package_dir})
