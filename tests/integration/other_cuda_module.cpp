// A CUDA module that is of another build than anyone who loads it.
#include <string>

extern "C" const void* ddp_cuda_module(std::string* build) {
  *build = "another build";
  return nullptr;
}
