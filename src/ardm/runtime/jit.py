"""Functions compiled by Numba, and kept for the next run wherever a directory can be written."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """A decorator as `numba.njit` with these options, whose results are cached on disk if that is possible.

    Numba looks for a writable directory when a function is decorated (NUMBA_CACHE_DIR, beside the source, the user's
    cache) and raises a RuntimeError where there is none, as for a read-only installation: then functions are compiled
    anew in every run. What is compiled bears `typing.no_type_check`, as the tests' import hook must not wrap it.
    """

    def compile_lazily(function: Function) -> Function:
        try:
            return njit(function, cache=True, **options)
        except RuntimeError:  # no locator available
            return njit(function, **options)

    return compile_lazily
