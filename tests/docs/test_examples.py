"""Every public name has an example in its docstring, and every example in the package runs as it stands."""

import doctest
import importlib
import pkgutil
import re
from types import FunctionType, ModuleType

import pytest
from documents import ROOT

import ardm

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
NAMES_ON_PAGES = re.compile(r"^::: (ardm[\w.]*)$", re.MULTILINE)


def modules() -> list[ModuleType]:
    """All modules of the package that can be imported without optional libraries, `__main__` aside."""
    found = pkgutil.walk_packages(ardm.__path__, "ardm.")
    return [importlib.import_module(info.name) for info in found if not info.name.endswith(("__main__", "gpu_kernels"))]


def examples() -> list[doctest.DocTest]:
    """Every docstring of the package that holds an example."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    return [test for module in modules() for test in finder.find(module, globs={}) if test.examples]


def public_names() -> set[str]:
    """The package's own names, and the functions of the API reference, by their full names."""
    own = [
        one for name in ardm.__all__ if name != "__version__" and not isinstance(one := getattr(ardm, name), ModuleType)
    ]
    pages = "\n".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    functions = [one for one in map(found_at, NAMES_ON_PAGES.findall(pages)) if isinstance(one, FunctionType)]
    return {f"{one.__module__}.{one.__qualname__}" for one in [*own, *functions]}


def found_at(name: str) -> object:
    """What a full name stands for."""
    holder, _, last = name.rpartition(".")
    return getattr(importlib.import_module(holder), last)


EXAMPLES = examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_an_example_runs(example):
    results = doctest.DocTestRunner(optionflags=FLAGS).run(example)
    assert results.attempted > 0
    assert results.failed == 0


def test_every_public_name_has_an_example():
    having = {example.name for example in EXAMPLES}
    missing = [name for name in public_names() if not any(one == name or one.startswith(f"{name}.") for one in having)]
    assert not sorted(missing)
