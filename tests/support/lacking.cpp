// A program that cannot start without the library of removed.cpp, and does nothing with it.
int removed();

int main() {
  return removed();
}
