"""The report: one HTML page with everything in it."""

import platform
import time
from html import escape

import torch

from ardm.apps.demo.curves import plan_drawing
from ardm.apps.demo.sections import bits_section, gaps_section, samples_section, sounds_section
from ardm.apps.demo.show import Part, Show
from ardm.apps.demo.tables import COLUMNS, Block, blocks_of, notes_of
from ardm.apps.report.pieces import document, figure, paragraph, section
from ardm.version import __version__


def report_page(show: Show) -> str:
    """The whole page."""
    return document(
        "ardm: a demonstration",
        _head(show),
        _sizes(show),
        bits_section(show),
        gaps_section(show),
        samples_section(show),
        sounds_section(show),
        _plans(show),
        _foot(show),
    )


def _head(show: Show) -> str:
    lead = (
        "Autoregressive diffusion models predict every hidden value of an item from those that are known, in any "
        "order. So one model compresses without loss, fills gaps and draws new items. Here is what the models that "
        "come with ardm do with a few small files."
    )
    models = "".join(f"<li>{_about(part)}</li>" for part in show.parts)
    left_out = "".join(paragraph(line, "note") for line in show.left_out)
    return f"<h1>ardm: a demonstration</h1>{paragraph(lead)}<ul>{models}</ul>{left_out}"


def _about(part: Part) -> str:
    exhibit, coding = part.exhibit, part.exhibit.exact.coding
    text = (
        f": {exhibit.num_bytes / 1e6:.1f} MB, trained on {exhibit.served.trained.data_title}; "
        f"{exhibit.schedule.num_calls} calls of the network for an item, in {coding.order.name} order"
    )
    return f"<b>{escape(exhibit.name)}</b>{escape(text)}"


def _sizes(show: Show) -> str:
    text = (
        "Each file was compressed to one of its own, restored from that, and compared: all are identical. Files of a "
        "kind were coded side by side, and the times are the share of each. Bytes are those of whole files; models are "
        "not counted, as the programs of other codecs are not."
    )
    header = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    body = "".join(map(_block, blocks_of(show)))
    table = f'<div class="scrolls"><table><thead><tr>{header}</tr></thead>{body}</table></div>'
    notes = "".join(paragraph(note, "note") for note in notes_of(show))
    return section("Compressed and restored", paragraph(text), table, notes)


def _block(block: Block) -> str:
    most = max(row.num_bytes for row in block.rows)
    title = f"{escape(block.title)} <span>{escape(block.unit)}</span>"
    lines = [f'<tr><th class="title" colspan="{len(COLUMNS)}">{title}</th></tr>']
    for row in block.rows:
        first, *numbers = map(escape, block.cells(row))
        meter = f'<div class="meter" style="width: {100 * row.num_bytes / most:.1f}%"></div>'
        cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
        row_class = ' class="ours"' if row.is_ours else ""
        lines.append(f"<tr{row_class}><td>{first}{meter}</td>{cells}</tr>")
    return f"<tbody>{''.join(lines)}</tbody>"


def _plans(show: Show) -> str:
    text = (
        "The less is known, the more bits a value takes: the loss of each step, on average over random orders. Values "
        "that share a call do not see each other and pay what the first of them does. The planner chooses the calls so "
        "that the least is lost in random orders; a model may code in another order, which costs it less."
    )
    drawings = [drawing for part in show.parts if (drawing := _plan(part))]
    return section("Losses and schedules", paragraph(text), *drawings) if drawings else ""


def _plan(part: Part) -> str:
    losses, plan = part.exhibit.served.losses, part.plan
    if losses is None or plan is None:
        return paragraph(f"{part.exhibit.name}: its losses have not been measured.", "note")
    num_stages, num_steps = losses.shape
    drawing, most = plan_drawing(losses, plan)
    places = [f"stage {stage + 1}" for stage in range(num_stages)] if num_stages > 1 else ["0", f"{num_steps:,} steps"]
    axis = "".join(f"<span>{place}</span>" for place in places)
    caption = (
        f"{part.exhibit.name}: {plan.full_bits / num_steps:.3f} {part.exhibit.unit} with {losses.size:,} calls (blue), "
        f"{plan.bits / num_steps:.3f} with {plan.schedule.num_calls:,} (orange: {plan.lost_share:.2%} lost)"
    )
    plot = f'<div class="axis">{most:.2f} bits</div><div class="plot">{drawing}</div>'
    return figure(f'{plot}<div class="axis{" stages" if num_stages > 1 else ""}">{axis}</div>', caption)


def _foot(show: Show) -> str:
    devices = ", ".join(sorted({str(part.exhibit.served.device) for part in show.parts}))
    text = (
        f"ardm {__version__}, torch {torch.__version__}, Python {platform.python_version()}, {devices}, "
        f"{torch.get_num_threads()} thread(s), {platform.machine()}; seed {show.seed}; {show.seconds:.0f} seconds "
        f"in all, {time.strftime('%Y-%m-%d %H:%M')}. Play with the models yourself: ardm serve."
    )
    return f"<footer>{paragraph(text)}</footer>"
