// Lets the programs run with the libstdc++ of GCC 11 (RHEL 9), although GCC 12 builds them: of its
// newer symbols they ask for one alone, std::condition_variable::wait(), which moved in
// GLIBCXX_3.4.30. The linker gives calls of it to the function below (--wrap).
#include <condition_variable>
#include <mutex>

extern "C" {

void ddp_old_condition_wait(std::condition_variable* self, std::unique_lock<std::mutex>* lock);
__asm__(
    ".symver ddp_old_condition_wait,"
    "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");

void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(
    std::condition_variable* self, std::unique_lock<std::mutex>* lock) {
  ddp_old_condition_wait(self, lock);
}
}
