# Installs the manual page and the completions of `program`, which `build` has, into the data of a package.
function(ddp_install_pages build program)
  foreach(page bash-completion/completions/${program} zsh/site-functions/_${program} fish/vendor_completions.d/${program}.fish man/man1/${program}.1)
    cmake_path(GET page FILENAME name)
    cmake_path(GET page PARENT_PATH folder)
    install(FILES "${build}/pages/${name}" DESTINATION "${SKBUILD_DATA_DIR}/share/${folder}")
  endforeach()
endfunction()
