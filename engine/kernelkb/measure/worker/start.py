"""Script that starts a worker process: registers ``kernelkb`` and runs the job of its argument.

``sys.path`` stays as it is: the interpreter may be the user's, and no package that is installed
beside ours may become importable in it.
"""

import importlib.util
import pathlib
import sys

_PACKAGE_FOLDER = pathlib.Path(__file__).resolve().parents[2]


def _register_engine() -> None:
    spec = importlib.util.spec_from_file_location(
        "kernelkb",
        _PACKAGE_FOLDER / "__init__.py",
        submodule_search_locations=[str(_PACKAGE_FOLDER)],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no kernelkb package at {_PACKAGE_FOLDER}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernelkb"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _register_engine()
    from kernelkb.measure.worker.main import main

    main(pathlib.Path(sys.argv[1]))
