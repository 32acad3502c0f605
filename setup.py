"""What pyproject.toml cannot say: the README with links that work on a package index, and addresses.

The README links to files beside it, as a code host wants it. A package index has no such files. So while
deeplimit is built, links lead to this version's files at `[tool.deeplimit] repository`. If that is empty they
are left out: of a link its text stays, of a picture nothing does. A link that leads nowhere would be worse.
"""

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<open>!?\[(?P<text>[^\]]*)\]\()(?P<target>[^)\s]+)(?P<close>\))")
PICTURE = re.compile(r'(?P<open><img [^>]*?src=")(?P<target>[^"]+)(?P<close>"[^>]*>)')
ELSEWHERE = ("https://", "http://", "mailto:", "#")


def long_description(text: str, repository: str, version: str) -> str:
    """Return Markdown whose relative links lead to a version's files; without a repository they go."""

    def resolved(found: re.Match[str]) -> str:
        if found["target"].startswith(ELSEWHERE):
            return found[0]
        is_picture = found.re is PICTURE or found[0].startswith("!")
        if not repository:
            return "" if is_picture else found["text"]
        kind = "raw" if is_picture else "blob"
        return f"{found['open']}{repository}/{kind}/v{version}/{found['target']}{found['close']}"

    pieces = [PICTURE.sub(resolved, LINK.sub(resolved, piece)) for piece in CODE.split(text)]
    code = [*CODE.findall(text), ""]
    return "".join(piece + block for piece, block in zip(pieces, code, strict=True))


def addresses(repository: str) -> dict[str, str]:
    """Return the addresses that a package index shows beside the description."""
    if not repository:
        return {}
    return {
        "Repository": repository,
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    address = project["tool"]["deeplimit"]["repository"].rstrip("/")
    stated = (ROOT / "deeplimit" / "version.py").read_text(encoding="utf-8")
    setup(
        long_description=long_description(
            (ROOT / "README.md").read_text(encoding="utf-8"),
            address,
            re.search(r'^__version__ = "(.*)"$', stated, re.MULTILINE)[1],
        ),
        long_description_content_type="text/markdown",
        project_urls=addresses(address),
    )
