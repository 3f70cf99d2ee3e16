"""`repro new`: a case that runs as it is, to be changed into one's own."""

from __future__ import annotations

from pathlib import Path

from repro.case import NAME, CaseError

TEMPLATE = Path(__file__).parent / "data" / "new_case.py"


def write_case(name: str, folder: Path) -> Path:
    """Write the scaffold and return its path.

    Raises:
        CaseError: the name is none, the file is there already, or it cannot be written.
    """
    if not NAME.fullmatch(name):
        raise CaseError(
            f"{name!r} is no name of a case",
            "use lower-case letters, digits and _ and begin with a letter",
        )
    path = folder / f"{name}.py"
    text = TEMPLATE.read_text(encoding="utf-8").replace("new_case", name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise CaseError(f"{path} is there already", "choose another name") from None
    except OSError as error:
        raise CaseError(f"{path}: {error.strerror or error}") from None
    return path
