"""``clgraph cache``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click

from clgraph.cli.output import nbytes, say, table
from clgraph.cli.sections import SectionedCommand
from clgraph.core.cache_folder import AREAS, refusal
from clgraph.errors import OptionError
from clgraph.settings import settings

_ONLY_BY_NAME = "tuning"

_FOLDER = click.option(
    "--cache-dir",
    type=click.Path(path_type=Path),
    help="The cache folder.  [default: CLGRAPH_CACHE_DIR, or the user's]",
)


@click.group(name="cache")
def command() -> None:
    """Show or clear the files in the cache folder.

    \b
    Examples:
      clgraph cache show
      clgraph cache clear programs pocl
    """


@command.command(cls=SectionedCommand, name="show")
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def show(cache_dir: Path | None, as_json: bool) -> None:
    """Show where the cache is, and how much is in it.

    \b
    Examples:
      clgraph cache show
      clgraph cache show --json
    """
    folder = cache_dir or settings().cache_dir
    sizes = {area: _size(folder / area) for area in AREAS if (folder / area).is_dir()}
    if as_json:
        areas = {area: {"files": files, "nbytes": size} for area, (files, size) in sizes.items()}
        say(json.dumps({"folder": str(folder), "areas": areas}, indent=2))
        return
    table(
        ("area", "files", "bytes", "what it is"),
        [(area, files, nbytes(size), AREAS[area]) for area, (files, size) in sizes.items()],
    )
    say()
    say(f"{nbytes(sum(size for _, size in sizes.values()))} in {folder}")
    if folder.exists() and (why := refusal(folder)) is not None:
        say(f"not used: {why}")


@command.command(cls=SectionedCommand, name="clear")
@click.argument("areas", nargs=-1, type=click.Choice(list(AREAS)))
@_FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print what was removed as JSON.")
def clear(areas: tuple[str, ...], cache_dir: Path | None, as_json: bool) -> None:
    """Remove the AREAS of the cache; all but tuning where none is named.

    Everything else is made again when it is needed: libraries are compiled (some seconds), models fetched. A process
    that is running keeps what it has loaded.

    \b
    Examples:
      clgraph cache clear
      clgraph cache clear programs pocl
      clgraph cache clear tuning
    """
    folder = cache_dir or settings().cache_dir
    removed = {}
    for area in areas or [area for area in AREAS if area != _ONLY_BY_NAME]:
        path = folder / area
        if not path.is_dir():
            continue
        removed[area] = _size(path)[1]
        try:
            path.unlink() if path.is_symlink() else shutil.rmtree(path)
        except OSError as error:
            raise OptionError(f"{path} cannot be removed: {error}") from error
        if not as_json:
            say(f"removed {path}, {nbytes(removed[area])}")
    freed = sum(removed.values())
    if as_json:
        say(json.dumps({"folder": str(folder), "removed": removed, "nbytes": freed}, indent=2))
    else:
        say(f"{nbytes(freed)} freed" if removed else f"there was nothing to remove in {folder}")


def _size(folder: Path) -> tuple[int, int]:
    """Return how many files are below *folder*, and their bytes; files may vanish meanwhile."""
    count = total = 0
    for path in folder.rglob("*"):
        try:
            if not path.is_dir():
                total += path.lstat().st_size
                count += 1
        except FileNotFoundError:
            continue
    return count, total
