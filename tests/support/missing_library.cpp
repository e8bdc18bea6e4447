// A shared library that a test removes, to see what is said of the program that needs it.
int missing();
int missing() {
  return 0;
}
