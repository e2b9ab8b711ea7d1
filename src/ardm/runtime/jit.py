"""Functions compiled by Numba and cached on disk where possible."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit` with these options, cached on disk if any cache directory is writable.

    Numba looks for one when a function is decorated (NUMBA_CACHE_DIR, next to the source, the user's cache) and raises
    a RuntimeError if there is none, as in a read-only installation; functions are then compiled in every run. Decorate
    them with `typing.no_type_check` too, so that the tests' import hook does not wrap them.
    """

    def compile_lazily(function: Function) -> Function:
        try:
            return njit(function, cache=True, **options)
        except RuntimeError:  # no locator available
            return njit(function, **options)

    return compile_lazily
