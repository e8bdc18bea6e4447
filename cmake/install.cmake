# `cmake --install BUILD --prefix PREFIX`: bin/ddp-launch, bin/ddp-worker, share/ddp/configs.
foreach(program ddp-launch ddp-worker)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION bin)
  endif()
endforeach()
if(TARGET ddp-worker)
  # LibTorch stays where it is; the installed program finds it there.
  set_target_properties(ddp-worker PROPERTIES INSTALL_RPATH "${DDP_TORCH}/torch/lib")
endif()
install(DIRECTORY configs DESTINATION share/ddp)
