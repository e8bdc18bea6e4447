"""L16 links: what a page of Markdown links to is there, file and heading."""

import posixpath
import re

from source import Checkout, File, spaces

FENCE = re.compile(r"(?ms)^```.*?^```$")
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"(?m)^#{1,6} +(?P<text>.*?) *$")
ELSEWHERE = re.compile(r"[a-z]+:")  # https:, mailto:


def anchors(page: File) -> set:
    """Of its headings, as a forge makes them."""
    found = set()
    for heading in HEADING.finditer(FENCE.sub(lambda fence: spaces(fence.group()), page.text)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading["text"]).lower()
        name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number, again = 0, name
        while again in found:
            number += 1
            again = f"{name}-{number}"
        found.add(again)
    return found


def links(checkout: Checkout):
    pages = {file.path: file for file in checkout.files if file.suffix == ".md"}
    for page in pages.values():
        text = CODE.sub(lambda code: spaces(code.group()), FENCE.sub(lambda fence: spaces(fence.group()), page.text))
        for link in LINK.finditer(text):
            if ELSEWHERE.match(link["target"]):
                continue
            path, _, anchor = link["target"].partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), path)) if path else page.path
            if target in pages:
                if anchor and anchor not in anchors(pages[target]):
                    yield page.find(link.start(), "L16", f"{link['target']}: {target} has no such heading")
            elif not any(known == target or known.startswith(target + "/") for known in checkout.paths):
                yield page.find(link.start(), "L16", f"{link['target']}: there is no such file")


RULES = [links]
