"""The page in a real browser, from end to end: headless Chromium, where it and playwright are installed."""

import base64
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from serving import image_from, key_of, png_of, running_server
from tiny_exact import SAMPLE_RATE

from ardm.data.sound_files import wav_file
from ardm.sample import sample_chain

playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed: pip install playwright", exc_type=ImportError
)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WAIT = 20_000
"""Milliseconds that anything may take."""


def browser_path(driver) -> str | None:
    """The system's Chromium, or playwright's own."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    own = driver.chromium.executable_path
    return found or (own if Path(own).exists() else None)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        path = browser_path(driver)
        if path is None:
            pytest.skip(f"no Chromium is installed (none of {', '.join(NAMES)}, nor playwright's own)")
        is_root = hasattr(os, "geteuid") and os.geteuid() == 0
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"] if is_root else [])
        yield started
        started.close()


@pytest.fixture(scope="module")
def url():
    with running_server() as url:
        yield url


@pytest.fixture
def page(browser, url):
    """The page, which must not log errors nor ask for anything from elsewhere."""
    context = browser.new_context(viewport={"width": 1200, "height": 900}, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(WAIT)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: request.url.startswith((url, "blob:", "data:")) or wrong.append(request.url))
    page.goto(url)
    page.wait_for_selector("body[data-ready]")
    yield page
    context.close()
    assert wrong == []


def random_image(height: int = 9, width: int = 17) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 256, (height, width, 3), dtype=np.uint8)


def written(folder: Path, name: str, content: bytes) -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def drag(page, selector: str, start: tuple[float, float], stop: tuple[float, float]) -> None:
    """Drag over a part of an element, in shares of its size."""
    page.locator(selector).scroll_into_view_if_needed()
    box = page.locator(selector).bounding_box()
    (x, y), (u, v) = ((box["x"] + a * box["width"], box["y"] + b * box["height"]) for a, b in (start, stop))
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(u, v, steps=4)
    page.mouse.up()


def drawn(page, number: int) -> np.ndarray:
    """The pixels of a sample on the page."""
    script = "n => document.querySelectorAll('#image-results canvas')[n].toDataURL().split(',')[1]"
    return image_from(page.evaluate(script, number))[:, :, :3]


def says(page, selector: str, text: str) -> None:
    """Wait until an element holds a text."""
    playwright.expect(page.locator(selector)).to_contain_text(text, timeout=WAIT)


def scrub(page, panel: str, place: int) -> None:
    script = "([panel, place]) => { const s = document.querySelector(`#panel-${panel} .replay input`); s.value = place;"
    page.evaluate(script + "s.dispatchEvent(new Event('input')); }", [panel, place])


def test_an_image_is_inpainted_step_by_step(page, tmp_path):
    image = random_image()
    page.set_input_files("#image-file", written(tmp_path, "a.png", png_of(image)))
    says(page, "#image-note", "a.png, 17")
    page.locator("input[value=rectangle]").check(force=True)
    drag(page, "#image-canvas", (4.1 / 17, 2.1 / 9), (8.9 / 17, 5.9 / 9))
    says(page, "#panel-images .expected", "bits/dim")
    page.fill("#images-samples", "3")
    page.click("#images-run")
    page.wait_for_selector("#image-results[data-done]")
    mask = np.zeros((9, 17), bool)
    mask[2:6, 4:9] = True
    samples = [drawn(page, number) for number in range(3)]
    assert all(np.array_equal(sample[~mask], image[~mask]) for sample in samples)
    assert not np.array_equal(samples[0], samples[1])
    scrub(page, "images", 0)
    assert (drawn(page, 0)[mask] == 128).mean() > 0.5
    page.click("#panel-images .replay button")  # play
    says(page, "#panel-images .replay button", "Play")
    assert np.array_equal(drawn(page, 0), samples[0])
    page.locator("#image-results button", has_text="Edit").first.click()
    says(page, "#image-note", "Sample 1")


def test_images_from_nothing_and_the_slider(page):
    expected = page.locator("#panel-images .expected")
    says(page, "#panel-images .expected", "bits/dim")
    before = expected.text_content()
    page.focus("#images-calls")
    page.keyboard.press("Home")
    assert page.locator("#panel-images .field.block output").text_content() == "1 call"
    assert expected.text_content() != before
    page.click("#images-run")
    page.wait_for_selector("#image-results[data-done]")
    assert page.locator("#image-results canvas").count() == 4
    page.select_option("#images-model", key_of("grey"))  # which has no profile
    playwright.expect(expected).not_to_contain_text("bits", timeout=WAIT)


def test_a_mask_is_painted_with_the_keyboard(page, tmp_path):
    page.set_input_files("#image-file", written(tmp_path, "a.png", png_of(random_image())))
    says(page, "#panel-images .expected", "Paint over")
    page.focus("#image-canvas")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")
    says(page, "#panel-images .expected", "bits/dim")


def test_texts_are_filled_and_shaded(page):
    page.click("#tab-text")
    page.fill("#text-input", "the cat sat")
    page.evaluate("document.getElementById('text-input').setSelectionRange(4, 7)")
    page.click("#text-hide")
    assert page.input_value("#text-input") == "the ___ sat"
    says(page, "#panel-text .field.block output", "3 calls")
    page.click("#text-run")
    page.wait_for_selector("#text-results[data-done]")
    texts = page.locator("#text-results .sample").all_text_contents()
    assert len(texts) == 4
    assert all(text.startswith("the ") and text.endswith(" sat") and len(text) == 11 for text in texts)
    filled = page.locator("#text-results .sample").first.locator(".filled")
    assert filled.count() == 3
    assert "bits" in filled.first.get_attribute("title")
    scrub(page, "text", 0)
    assert page.locator("#text-results .sample").first.text_content().count("_") == 2
    page.fill("#text-input", "the cat sat")
    page.click("#text-score")
    says(page, "#text-results .note", "bits/char")


def test_a_sound_is_infilled_and_played(page, tmp_path):
    page.click("#tab-sound")
    samples = (3000 * np.sin(np.arange(400) / 5)).astype(np.int16)
    page.set_input_files("#sound-file", written(tmp_path, "a.wav", wav_file(samples[:, None], SAMPLE_RATE)))
    says(page, "#sound-note", "a.wav, 0.05")
    drag(page, "#sound-canvas", (0.25, 0.5), (0.5, 0.5))
    assert float(page.input_value("#sound-start")) == pytest.approx(0.0125, abs=0.001)
    page.click("#sound-run")
    page.wait_for_selector("#sound-results[data-done] audio")
    assert page.locator("#sound-results img.spectrogram").count() == 2


def test_a_file_is_compressed_downloaded_and_restored(page, tmp_path):
    page.click("#tab-compress")
    image = np.zeros((12, 20, 3), np.uint8)
    image[3:7, 5:9] = (200, 10, 60)
    page.set_input_files("#compress-file", written(tmp_path, "a.png", png_of(image)))
    page.wait_for_selector("#compress-run:enabled")
    page.click("#compress-run")
    page.wait_for_selector("#download-compressed")
    assert "Verified" in page.locator("#compress-results .good").text_content()
    assert page.locator("#compress-results .sizes tr").count() == 4
    with page.expect_download() as download:
        page.click("#download-compressed")
    assert download.value.suggested_filename == "a.png.ardm"
    download.value.save_as(tmp_path / "a.png.ardm")
    page.click("#restore-again")
    page.wait_for_selector("#restored #download-restored")
    page.set_input_files("#compress-file", str(tmp_path / "a.png.ardm"))  # restored at once
    page.wait_for_selector("#compress-results > .row #download-restored")
    with page.expect_download() as download:
        page.click("#download-restored")
    assert download.value.suggested_filename == "a.png"
    download.value.save_as(tmp_path / "back.png")
    back = image_from(base64.b64encode((tmp_path / "back.png").read_bytes()).decode())
    assert np.array_equal(back, image)


def test_a_dropped_file_says_how_long_it_takes(page):
    """A dropped text of 100 characters takes 7 windows of 16, which share 2 with their neighbours."""
    page.click("#tab-compress")
    script = """() => {
        const data = new DataTransfer();
        data.items.add(new File(["the cat a ".repeat(10)], "a.txt", { type: "text/plain" }));
        document.getElementById("compress-drop").dispatchEvent(new DragEvent("drop", { dataTransfer: data }));
    }"""
    page.evaluate(script)
    says(page, "#compress-name", "a.txt, 100 bytes")
    says(page, "#compress-expected", "for 7 windows of 16 characters")
    page.click("#compress-run")
    page.wait_for_selector("#download-compressed")


def test_bits_of_pixels_are_drawn(page, tmp_path, monkeypatch):
    """Tiny models of random weights expand: without this the file would be stored."""
    monkeypatch.setattr("ardm.compression.content_codec.coded_or_raw", lambda entry, content, file_of: entry)
    page.click("#tab-compress")
    page.set_input_files("#compress-file", written(tmp_path, "a.png", png_of(random_image(12, 20))))
    page.click("#compress-run")
    page.wait_for_selector("#heat")
    script = "() => document.getElementById('heat').toDataURL().split(',')[1]"
    assert len(np.unique(image_from(page.evaluate(script)).reshape(-1, 4), axis=0)) > 50
    page.hover("#heat")
    says(page, ".legend", "bits")


def test_bad_files_get_a_clear_line(page, tmp_path):
    page.set_input_files("#image-file", written(tmp_path, "a.png", b"no image"))
    page.wait_for_selector("#images-error:visible")
    assert page.locator("#images-error").text_content() == "a.png is not an image that this browser can read"
    page.click("#tab-compress")
    page.set_input_files("#compress-file", written(tmp_path, "b.ardm", b"nonsense"))
    page.wait_for_selector("#compress-error:visible")
    assert "damaged" in page.locator("#compress-error").text_content()
    page.set_input_files("#compress-file", written(tmp_path, "large.bin", bytes(5 * 2**20)))
    says(page, "#compress-error", "up to 4,194,304 bytes")
    page.click("#tab-text")
    page.fill("#text-input", "ÄÖ_")
    says(page, "#panel-text .expected", "alphabet")


@pytest.fixture
def slow_calls(monkeypatch):
    """Sampling that takes a while; the list of calls made."""
    made, chain = [], sample_chain

    def slowly(*arguments, **options):
        for step in chain(*arguments, **options):
            made.append(1)
            time.sleep(0.1)
            yield step

    monkeypatch.setattr("ardm.tasks.draw.sample_chain", slowly)
    return made


def is_quiet(made: list[int]) -> bool:
    """Whether calls end within seconds: the server hears of a page that is gone a little later."""
    for _ in range(6):
        count = len(made)
        time.sleep(0.4)
        if len(made) == count:
            return True
    return False


def test_cancel_and_reload_stop_the_work(page, slow_calls):
    says(page, "#panel-images .expected", "bits/dim")
    page.dblclick("#images-run")  # starts, and cancels again
    says(page, "#panel-images .status", "cancelled")
    assert page.locator("#images-run").text_content() == "Fill"
    page.click("#images-run")
    page.wait_for_selector("#panel-images .replay:visible")
    assert page.locator("#images-run").text_content() == "Cancel"
    page.click("#images-run")
    says(page, "#panel-images .status", "cancelled")
    assert is_quiet(slow_calls)
    page.click("#images-run")
    page.wait_for_selector("#panel-images progress:visible")
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert is_quiet(slow_calls)
    assert page.locator("#images-run").text_content() == "Fill"


def test_tabs_keys_themes_and_phones(page):
    page.focus("#tab-images")
    page.keyboard.press("ArrowRight")
    assert page.locator("#panel-text").is_visible()
    assert page.url.endswith("#text")
    page.click("#theme")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert page.locator("#panel-text").is_visible()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.set_viewport_size({"width": 360, "height": 740})
    for tab in ("images", "text", "sound", "compress"):
        page.click(f"#tab-{tab}")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, tab
