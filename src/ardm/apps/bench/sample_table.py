"""The rows of a sampling benchmark for a reader."""

from ardm.apps.bench.sampling import SampleTiming

NAME = 14
"""Characters of the first column."""


def sample_header() -> str:
    """The line above the rows."""
    return (
        f"{'':{NAME}} {'parameters':>11} {'items':>6} {'calls':>5} {'batch':>5} {'seconds':>9} {'items/s':>9} "
        f"{'call':>11} {'item and call':>14} {'in network':>10} memory"
    )


def sample_line(row: SampleTiming) -> str:
    """Times of all items, of a call, and of a call's part for one item; the network's part of the time."""
    memory = "" if row.peak_bytes is None else f"{row.peak_bytes / 2**30:.1f} GiB"
    call, part = f"{1000 * row.call_seconds:.2f} ms", f"{1000 * row.item_call_seconds:.4f} ms"
    return (
        f"{row.model:{NAME}} {row.num_parameters:>11,} {row.num_items:>6} {row.num_calls:>5} {row.batch_size:>5} "
        f"{row.seconds:>9.3f} {row.items_per_second:>9.2f} {call:>11} {part:>14} {row.network_share:>10.1%} {memory}"
    ).rstrip()
