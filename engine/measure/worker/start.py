"""Entry point of the child: run as a file, with the job's path as its argument.

``engine`` is registered by hand instead of through ``sys.path``, so that nothing else that lies
beside it, and no ``engine.py`` of the user's, can be imported by accident.
"""

import importlib.util
import pathlib
import sys

_ENGINE = pathlib.Path(__file__).resolve().parents[2]


def _register() -> None:
    spec = importlib.util.spec_from_file_location(
        "engine", _ENGINE / "__init__.py", submodule_search_locations=[str(_ENGINE)]
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"no engine package at {_ENGINE}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["engine"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    _register()
    from engine.measure.worker.main import main

    main(pathlib.Path(sys.argv[1]))
