"""The device and precision that networks compute with."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from ardm.errors import UsageError
from ardm.runtime.launch import local_device
from ardm.runtime.team import ALONE, Team


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """A device, its precision and the processes that share the work; not part of a run's configuration."""

    device: torch.device
    compile: bool = False
    """Whether to compile the network's blocks with TorchInductor for training."""
    team: Team = ALONE
    """The processes that share the work."""
    shards_weights: bool = False
    """Whether the processes shard the weights during training (FSDP2)."""
    full_precision: bool = False
    """Whether CUDA computes in float32, too."""

    @classmethod
    def choose(cls, device: str | None = None, *, compile: bool = True) -> "Runtime":
        """A runtime on the named device, by default CUDA if available; compiles on CUDA unless `compile` is False."""
        device = local_device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        if device.split(":")[0] not in ("cpu", "cuda"):
            raise UsageError(f"device {device!r} is not supported; use cpu or cuda")
        try:
            resolved = torch.zeros(1, device=device).device
        except (RuntimeError, AssertionError) as error:
            raise UsageError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
        return cls(device=resolved, compile=compile and resolved.type == "cuda")

    @contextmanager
    def deterministic(self) -> Iterator[None]:
        """A context with deterministic convolution gradients, which a resumed run needs."""
        before = torch.backends.cudnn.deterministic
        torch.backends.cudnn.deterministic = True
        try:
            yield
        finally:
            torch.backends.cudnn.deterministic = before

    def autocast(self) -> AbstractContextManager[Any]:
        """bfloat16 matrix products on CUDA; full precision elsewhere."""
        if self.device.type == "cuda" and not self.full_precision:
            return torch.autocast("cuda", torch.bfloat16)
        return nullcontext()
