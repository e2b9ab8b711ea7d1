"""The tables of the codec benchmark."""

from ardm.apps.bench.codecs import ALLOWED_BITS, ALLOWED_SHARE, CodecTiming, NetworkFigures
from ardm.apps.bench.items import UNITS, Media

NAME = 36
"""Width of the first column."""


def codec_header(media: Media) -> str:
    """The line above the rows."""
    return (
        f"{'':{NAME}} {'bits per ' + UNITS[media]:>19} {'prepare':>9} "
        f"{'encode':>17} {'decode':>17} {'encode':>13} {'decode':>13}"
    )


def codec_line(row: CodecTiming) -> str:
    """A row with bits, seconds to prepare, and items and kilobytes of items per second."""
    if row.failure is not None:
        return f"{row.name:{NAME}} {row.failure}"
    interval = "" if row.half_width is None else f" ± {row.half_width:.4f}"
    return (
        f"{row.name:{NAME}} {f'{row.bits_per_variable:.4f}{interval}':>19} {row.prepare_seconds:>7.2f} s "
        f"{_number(row.encode_items_per_second):>9} items/s {_number(row.decode_items_per_second):>9} items/s "
        f"{_number(row.encode_bytes_per_second, 1000):>8} KB/s {_number(row.decode_bytes_per_second, 1000):>8} KB/s"
    )


def _number(value: float | None, unit: int = 1) -> str:
    return "" if value is None else f"{value / unit:,.{0 if value / unit >= 1000 else 2}f}"


def network_header() -> str:
    """The line above rows of codecs with a network."""
    allowed = f"<= {ALLOWED_SHARE:.1%} + {ALLOWED_BITS} bits"
    return (
        f"{'':{NAME}} {'ideal bits':>10} {'payload above them':>22} {allowed:>17} {'header':>10} "
        f"{'network in encode':>17} {'in decode':>9} {'batch':>6} device"
    )


def network_line(name: str, figures: NetworkFigures, num_items: int) -> str:
    """A row with ideal bits, payloads above them, headers and the network's share of the time."""
    above = f"{figures.payload_above_ideal_bits:.1f} bits, {figures.payload_above_ideal_share:.3%}"
    stored = f", {figures.num_stored} stored, which is shorter than coded" if figures.num_stored else ""
    within = f"{figures.num_within_allowance} of {num_items}"
    return (
        f"{name:{NAME}} {figures.ideal_bits_per_variable:>10.4f} {above:>22} {within:>17} "
        f"{figures.header_bytes:>4.1f} bytes {figures.encode_share:>17.1%} {figures.decode_share:>9.1%} "
        f"{figures.batch_size:>6} {figures.device:>6}{stored}"
    )
