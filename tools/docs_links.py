"""Hook of mkdocs: a link to a file outside of docs/ becomes its path in the repository.

On a code host such a link leads to the file; the site holds only the pages.
"""

import posixpath
import re
from typing import Protocol

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")


class SourceFile(Protocol):
    """What mkdocs says about a page's file."""

    src_uri: str


class SitePage(Protocol):
    """What mkdocs says about a page."""

    file: SourceFile


def on_page_markdown(markdown: str, *, page: SitePage, **_: object) -> str:
    """Return the text of a page as the site shows it."""
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def replaced(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link[2].partition("#")[0]))
        if target == "docs" or target.startswith("docs/"):
            return link[0]
        text = link[1].strip("`")
        return f"`{target}`" if text in target else f"{link[1]} (`{target}`)"

    return LINK.sub(replaced, markdown)
