"""Prints what each file of a room is for: the first sentence of its head comment; of a test without one, that of the header that it tests.
Usage: rooms.py [FOLDER...]"""
import pathlib
import re
import subprocess
import sys

ROOMS = ["common", "launcher", "worker"]


def first_sentence(text: str) -> str:
    """Of the comment or docstring that a file opens with; empty: it has none."""
    head = re.match(r"(?:\s*(?://|#(?!\w)).*\n)+", text)
    docstring = re.match(r'"""(.*?)"""', text, re.DOTALL)
    if not head and not docstring:
        return ""
    words = docstring[1] if docstring else re.sub(r"(?m)^\s*(?://|#!.*|#)\s?", "", head[0])
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(words.split()))
    return sentence[0] if sentence else " ".join(words.split())


def purpose(root: pathlib.Path, path: pathlib.Path) -> str:
    text = (root / path).read_text()
    tested = re.search(rf'(?m)^#include "(.*\b{path.stem.removesuffix("_test")}\.h)"$', text) if path.name.endswith("_test.cpp") else None
    return first_sentence(text) or (first_sentence((root / tested[1]).read_text()) if tested and (root / tested[1]).exists() else "")


def main():
    root = pathlib.Path(__file__).parent.parent
    paths = subprocess.run(["git", "-C", root, "ls-files", "-z", "--", *(sys.argv[1:] or ROOMS)], stdout=subprocess.PIPE, text=True, check=True)
    folder = None
    for path in sorted(map(pathlib.Path, filter(None, paths.stdout.split("\0"))), key=lambda path: (path.parent, path.name)):
        if path.suffix not in (".h", ".py") and not (path.suffix == ".cpp" and not (root / path).with_suffix(".h").exists()):
            continue
        if path.parent != folder:
            folder = path.parent
            print(f"\n{folder}/")
        print(f"  {path.stem if path.suffix == '.h' else path.name:<24} {purpose(root, path)}")


if __name__ == "__main__":
    main()
