# Part of install.cmake: ddp-worker and its module for GPUs, which find LibTorch by relative paths once they are installed. Two layouts:
#   a prefix (the default)   bin/ddp-worker, lib/libddp-worker-cuda.so, lib/libddp-shm-2.15.so; LibTorch's libraries are copied to lib/ddp
#   component `wheel`        the same three, in PREFIX = site-packages/ddp_worker/torch-2.15: LibTorch is that of these site-packages
# Their RPATH counts for what libtorch_cuda.so loads, too.

# Sets `result` to the RPATH of a file that has torch/ and nvidia/ in `site`.
function(ddp_torch_rpath site with_nvidia result)
  set(paths "${site}/torch/lib")
  if(with_nvidia)
    foreach(wheel IN LISTS ddp_nvidia_wheels)
      list(APPEND paths "${site}/nvidia/${wheel}/lib")
    endforeach()
  endif()
  list(JOIN paths ":" joined)
  set(${result} "${joined}" PARENT_SCOPE)
endfunction()

# Installs a target in `folder` with the RPATH of each layout in place of the one that it is built with. `prefix_site`: what has torch/ and
# nvidia/ in a prefix, seen from there.
function(ddp_install_with_torch target folder prefix_site with_nvidia build_rpath)
  ddp_torch_rpath("${prefix_site}" "${with_nvidia}" prefix_rpath)
  ddp_torch_rpath("$ORIGIN/../../.." "${with_nvidia}" wheel_rpath)
  # An RPATH can be replaced by one that is not longer. A path twice is as good as once.
  string(LENGTH "${prefix_rpath}" longest)
  string(LENGTH "${wheel_rpath}" other)
  if(other GREATER longest)
    set(longest ${other})
  endif()
  set(built "${build_rpath}")
  string(LENGTH "${built}" length)
  while(length LESS longest)
    string(APPEND built ":${build_rpath}")
    string(LENGTH "${built}" length)
  endwhile()
  string(REPLACE ":" ";" built_list "${built}")
  set_target_properties(${target} PROPERTIES INSTALL_RPATH "${built_list}" BUILD_WITH_INSTALL_RPATH ON)
  foreach(layout prefix wheel)
    set(component worker)
    if(layout STREQUAL "wheel")
      set(component wheel EXCLUDE_FROM_ALL)
    endif()
    install(PROGRAMS "$<TARGET_FILE:${target}>" DESTINATION "${folder}" COMPONENT ${component})
    install(CODE "file(RPATH_CHANGE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}/$<TARGET_FILE_NAME:${target}>\"
      OLD_RPATH [[${built}]] NEW_RPATH [[${${layout}_rpath}]])" COMPONENT ${component})
  endforeach()
endfunction()

ddp_install_with_torch(ddp-worker bin "$ORIGIN/../lib/ddp" OFF "${DDP_TORCH}/torch/lib")
ddp_install_with_torch(ddp-shm lib "$ORIGIN/ddp" OFF "${DDP_TORCH}/torch/lib")
if(TARGET ddp-worker-cuda)
  list(JOIN ddp_cuda_libraries ":" libraries)
  ddp_install_with_torch(ddp-worker-cuda lib "$ORIGIN/ddp" ON "${DDP_TORCH}/torch/lib:${libraries}")
endif()

# The libraries that they load, as far as they are not the system's: lib/ddp is as self-contained as an environment of pip.
set(ddp_torch_patterns torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so* nvidia/*/lib/libcudart.so* nvidia/*/lib/libcupti.so*)
set(ddp_nvidia_site "${DDP_TORCH}")
if(TARGET ddp-worker-cuda)
  set(ddp_torch_patterns torch/lib/*.so* nvidia/*/lib/*.so*)
  cmake_path(GET ddp_cuda_wheels PARENT_PATH ddp_nvidia_site)
endif()
configure_file(cmake/install_torch_libraries.cmake.in install_torch_libraries.cmake @ONLY)
install(SCRIPT "${PROJECT_BINARY_DIR}/install_torch_libraries.cmake" COMPONENT worker)
# cuSPARSELt's wheel has its licence beside its libraries.
file(GLOB ddp_notices "${DDP_TORCH}/torch-*.dist-info/licenses" "${ddp_nvidia_site}/nvidia_*.dist-info/licenses" "${ddp_nvidia_site}/nvidia/*/LICENSE*")
foreach(notice IN LISTS ddp_notices)
  cmake_path(GET notice PARENT_PATH wheel)
  cmake_path(GET wheel FILENAME wheel)
  if(IS_DIRECTORY "${notice}")
    install(DIRECTORY "${notice}" DESTINATION "lib/ddp/${wheel}" COMPONENT worker)
  else()
    install(FILES "${notice}" DESTINATION "lib/ddp/nvidia/${wheel}" COMPONENT worker)
  endif()
endforeach()
