"""Prints what each file of a room is for: the first sentence of its head comment. Usage: rooms.py [FOLDER...]"""
import pathlib
import re
import subprocess
import sys

ROOMS = ["common", "launcher", "worker"]


def first_sentence(text: str) -> str:
    """Of the comment or docstring that a file opens with; empty: it has none."""
    head = re.match(r"(?:\s*(?://|#).*\n)+", text)
    docstring = re.match(r'"""(.*?)"""', text, re.DOTALL)
    if not head and not docstring:
        return ""
    words = docstring[1] if docstring else re.sub(r"(?m)^\s*(?://|#!.*|#)\s?", "", head[0])
    sentence = re.match(r".*?\.(?=\s|$)", " ".join(words.split()))
    return sentence[0] if sentence else " ".join(words.split())


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
        print(f"  {path.stem if path.suffix == '.h' else path.name:<24} {first_sentence((root / path).read_text())}")


if __name__ == "__main__":
    main()
