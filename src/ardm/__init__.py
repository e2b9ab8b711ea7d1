"""Autoregressive Diffusion Models: train, score, plan, sample and infill discrete data.

Public names are listed in `__init__.pyi` and imported when first used, so that `import ardm` and the command line start
at once.
"""

import lazy_loader

from ardm.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
