"""Limits on requests, so that none takes minutes or gigabytes."""

from dataclasses import dataclass

from ardm.errors import TooLargeError

STATES = 40
"""States of a chain that are sent to the page."""


@dataclass(frozen=True, kw_only=True)
class PageLimits:
    """Limits of one request."""

    file_bytes: int = 4 * 2**20
    """Bytes of an uploaded file."""
    pixels: int = 2**18
    """Pixels of an image."""
    characters: int = 2**16
    """Characters of a text."""
    sound_samples: int = 2**18
    """Samples of a sound, over all channels."""
    samples: int = 12
    """Samples drawn at once."""
    variables: int = 2**18
    """Variables of all samples drawn at once."""
    outputs: int = 2**25
    """Outputs of one network call for all samples, which take most of the memory."""
    seconds: float = 90.0
    """Expected time of a job, which is stopped after twice that time."""
    waiting: int = 4
    """Jobs in the queue."""

    @property
    def body_bytes(self) -> int:
        """Bytes of a request: a file in base64, and other values."""
        return self.file_bytes * 4 // 3 + 2**19

    def check_file(self, num_bytes: int) -> None:
        """Raise a TooLargeError for a file beyond the limit."""
        if num_bytes > self.file_bytes:
            raise TooLargeError(f"the file has {num_bytes:,} bytes; this page takes up to {self.file_bytes:,}")

    def check_seconds(self, seconds: float) -> None:
        """Raise a TooLargeError for work that is expected to take too long."""
        if seconds > self.seconds:
            raise TooLargeError(
                f"this would take about {seconds:,.0f} seconds here, but the page allows {self.seconds:g}; "
                "use fewer calls, fewer samples or something smaller, or the command line"
            )

    def check_memory(self, num_variables: int, outputs_each: int) -> None:
        """Raise a TooLargeError for samples that would take too much memory at once."""
        share = max(num_variables / self.variables, num_variables * outputs_each / self.outputs)
        if share > 1:
            raise TooLargeError(
                f"drawing these samples at once takes {share:.1f} times the memory that this page may use; "
                "draw fewer, or use something smaller"
            )
