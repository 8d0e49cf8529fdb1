"""Keeps, in what is built, the commit that it was built from: `lt2 --version` and runs name it."""

import json
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BuildRecord(BuildHookInterface[Any]):
    """Adds the build record to a wheel and to a source distribution.

    An editable install asks its checkout; one that is built from a source distribution has the
    record already.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the record to the files of a build.

        Args:
            version: Kind of the build, `editable` or `standard`.
            build_data: What hatchling is told, changed in place.
        """
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        revision = runpy.run_path(str(root / "lt2theory" / "runs" / "revision.py"))
        name = revision["BUILD_RECORD"]
        path = root / "build" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"source": revision["source_revision"]()}) + "\n")
        build_data["force_include"][str(path)] = f"lt2theory/{name}"
