"""Names of archive entries: relative POSIX paths that stay inside the folder they are restored to."""

import re

MAX_NAME_BYTES = 1024
"""Maximum length of an encoded name."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DRIVE = re.compile(r"[A-Za-z]:")


def name_problem(name: str) -> str | None:
    """Why an entry cannot have a name; None if it can."""
    if not 1 <= len(name.encode(errors="replace")) <= MAX_NAME_BYTES:
        return f"it must take 1..{MAX_NAME_BYTES} bytes"
    if any("\ud800" <= character <= "\udfff" for character in name):
        return "it is not valid Unicode"
    if _CONTROL.search(name):
        return "it holds a control character"
    if "\\" in name or _DRIVE.match(name):
        return "it must be a POSIX path, without backslashes or a drive"
    if any(part in ("", ".", "..") for part in name.split("/")):
        return "it must be a relative path without empty parts, '.' or '..'"
    return None
