"""Prints figures of this tree by room: files, lines, the middle and the longest file, comments, tests. Usage: code_statistics.py"""

import collections
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).parent.parent
PRODUCT = ("common", "launcher", "worker")


def tracked():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [pathlib.Path(name) for name in listed.split("\0") if name]


def lines_of(path):
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def comment_share(files):
    lines = [line.strip() for path in files for line in lines_of(path) if line.strip()]
    return sum(line.startswith("//") for line in lines) / max(1, len(lines))


def main():
    code = [path for path in tracked() if path.suffix in (".h", ".cpp")]
    rooms = collections.defaultdict(list)
    for path in code:
        if path.parts[0] in PRODUCT:
            rooms[str(path.parent)].append(path)
    print(f"{'room':<28}{'files':>6}{'lines':>8}{'middle':>8}{'above 300':>11}  longest")
    for room, files in sorted(rooms.items()):
        sizes = {path: len(lines_of(path)) for path in files}
        longest = max(sizes, key=sizes.get)
        above = sum(size > 300 for size in sizes.values())
        middle = statistics.median(sizes.values())
        print(f"{room:<28}{len(files):>6}{sum(sizes.values()):>8}{middle:>8.0f}{above:>11}  {sizes[longest]} {longest.name}")
    product = [path for files in rooms.values() for path in files]
    sizes = sorted(len(lines_of(path)) for path in product)
    tests = [path for path in tracked() if path.parts[0] == "tests" and path.suffix in (".h", ".cpp", ".py")]
    test_lines = sum(len(lines_of(path)) for path in tests)
    print(f"\nproduct: {len(product)} files, {sum(sizes)} lines; middle {statistics.median(sizes):.0f}, nine of ten at most {sizes[len(sizes) * 9 // 10]}, longest {sizes[-1]}")
    for kind, suffix in (("headers", ".h"), ("sources", ".cpp")):
        print(f"comment lines, of those of {kind} that are not empty: {comment_share([path for path in product if path.suffix == suffix]):.1%}")
    print(f"tests: {len(tests)} files, {test_lines} lines, {test_lines / sum(sizes):.2f} for a line of the product")


if __name__ == "__main__":
    main()
