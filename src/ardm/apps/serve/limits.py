"""The most that the page may ask for, so that no request takes minutes or gigabytes."""

from dataclasses import dataclass

from ardm.errors import TooLargeError

STATES = 40
"""Of a chain that the page is shown; more would only be skipped."""


@dataclass(frozen=True, kw_only=True)
class PageLimits:
    """What one request may take."""

    file_bytes: int = 4 * 2**20
    """Of a file that is sent."""
    pixels: int = 2**18
    """Of an image, to fill or to compress."""
    characters: int = 2**16
    """Of a text to compress."""
    sound_samples: int = 2**18
    """Of a sound, all channels together."""
    samples: int = 12
    """Drawn at once."""
    variables: int = 2**18
    """Of all samples that are drawn at once, and"""
    outputs: int = 2**25
    """numbers that the network gives for them in one call: what memory goes to."""
    seconds: float = 90.0
    """That a job is expected to take; it is stopped after twice as many."""
    waiting: int = 4
    """Jobs in the queue."""

    @property
    def body_bytes(self) -> int:
        """Of a request: a file in base64, and whatever else there is."""
        return self.file_bytes * 4 // 3 + 2**19

    def check_file(self, num_bytes: int) -> None:
        """A TooLargeError that tells the limit."""
        if num_bytes > self.file_bytes:
            raise TooLargeError(f"the file has {num_bytes:,} bytes; this page takes up to {self.file_bytes:,}")

    def check_seconds(self, seconds: float) -> None:
        """A TooLargeError for work that is expected to take too long."""
        if seconds > self.seconds:
            raise TooLargeError(
                f"this would take about {seconds:,.0f} seconds here, and the page allows {self.seconds:g}; "
                "use fewer calls, fewer samples or something smaller, or the command line"
            )

    def check_memory(self, num_variables: int, outputs_each: int) -> None:
        """A TooLargeError for samples that would take too much memory at once."""
        share = max(num_variables / self.variables, num_variables * outputs_each / self.outputs)
        if share > 1:
            raise TooLargeError(
                f"so many samples of this size at once take {share:.1f} times the memory that this page may use; "
                "draw fewer, or use something smaller"
            )
