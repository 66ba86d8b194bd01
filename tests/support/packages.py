"""Packages as pip installs them: modules and a dist-info beside them, without pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(site: Path, name: str, modules: Mapping[str, str], entries: Mapping[str, str]) -> None:
    """Put a package with these modules and readers into the directory ``site``."""
    site.mkdir(exist_ok=True)
    for module, source in modules.items():
        (site / f"{module}.py").write_text(source)
    info = site / f"{name.replace('-', '_')}-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    lines = "".join(f"{entry} = {value}\n" for entry, value in entries.items())
    (info / "entry_points.txt").write_text(f"[trainproof.readers]\n{lines}")
