// A program that cannot start without the library of missing_library.cpp, and does nothing with it.
int missing();

int main() {
  return missing();
}
