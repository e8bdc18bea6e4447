"""L11 and L12: to-dos say their kind, and no file names somebody's home. Looked for in every text file, comments included."""

import re

from source import Checkout

# Written in pieces, so that this file passes itself.
TO_DO = re.compile(r"\bTO" r"DO\b(?!\((?:soon|someday|perf|test)\): )")
OTHER_MARKS = re.compile(r"\b(?:FIX" r"ME|XX" r"X|HA" r"CK)\b")
HOME = re.compile(r"(?<![\w.])/(?:ho" r"me|ro" r"ot|Us" r"ers)/")


def to_dos(checkout: Checkout):
    for file in checkout.files:
        for match in TO_DO.finditer(file.text):
            yield file.find(match.start(), "L11", "a to-do says its kind: (soon|someday|perf|test), a colon, a space")
        for match in OTHER_MARKS.finditer(file.text):
            yield file.find(match.start(), "L11", f"{match.group()}: write it as a to-do with its kind")


def homes(checkout: Checkout):
    for file in checkout.files:
        for match in HOME.finditer(file.text):
            yield file.find(match.start(), "L12", f"{match.group()}: a path of one machine")


RULES = [to_dos, homes]
