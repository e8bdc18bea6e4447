# `cmake --install BUILD --prefix PREFIX`: bin/ddp-launch, bin/ddp-worker, share/ddp/configs; lib/libddp-worker-cuda.so, which bin/ddp-worker finds there.
foreach(program ddp-launch ddp-worker)
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
