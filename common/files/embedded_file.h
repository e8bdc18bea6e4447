// A file that the program carries in itself. DDP_EMBED_FILE(name, PATH) at file scope makes a
// function of that name, which returns the bytes; a byte 0 follows them. Trap: the bytes are not in
// the source's text, so the object must depend on the file, and no compiler's cache may keep it
// (ccache does not keep a source with .incbin).
#pragma once

#include <cstddef>
#include <string_view>

#define DDP_EMBED_FILE(name, PATH)                                              \
  __asm__(".section .rodata\n" #name "_begin:\n.incbin \"" PATH "\"\n" #name    \
          "_end:\n.byte 0\n.previous");                                         \
  extern "C" __attribute__((visibility("hidden"))) const char name##_begin[];   \
  extern "C" __attribute__((visibility("hidden"))) const char name##_end[];     \
  static std::string_view name() {                                              \
    return {name##_begin, static_cast<std::size_t>(name##_end - name##_begin)}; \
  }
