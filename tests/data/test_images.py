"""Images as items: CIFAR-10, folders, crops, tiles and augmentation."""

import hashlib
import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ardm.cli.main import main
from ardm.data.cifar10 import MD5, load_cifar10
from ardm.data.corpus import PieceSampler
from ardm.data.images import ImageCorpus, augment, load_images, parse_size, read_image
from ardm.errors import DataError, UsageError

RANDOM = np.random.default_rng(0)


def random_image(height: int, width: int, channels: int = 3) -> np.ndarray:
    return RANDOM.integers(0, 256, (height, width, channels), dtype=np.uint8)


def test_tiles_cover_an_image_without_its_rests():
    image = random_image(7, 9)
    corpus = ImageCorpus(title="t", train=[image], valid=[], test=[])
    shape = (3, 4, 3)
    items = corpus.items("train", shape)
    expected = [image[y : y + 3, x : x + 4] for y in (0, 3) for x in (0, 4)]
    assert np.array_equal(items.reshape(-1, *shape), np.stack(expected))
    with pytest.raises(DataError, match="no image of the valid split is as large as 3 x 4"):
        corpus.items("valid", shape)


def test_crops_come_from_every_place_alike(generator):
    images = [random_image(4, 3), random_image(2, 2), random_image(1, 9), random_image(3, 5)]
    places = {
        image[y : y + 2, x : x + 2].tobytes(): 0
        for image in images
        for y in range(image.shape[0] - 1)
        for x in range(image.shape[1] - 1)
    }
    assert len(places) == 6 + 1 + 8
    crops = PieceSampler(images, (2, 2, 3), torch.device("cpu")).draw(15_000, generator)
    for crop in crops.numpy().astype(np.uint8):
        places[crop.tobytes()] += 1  # a KeyError for a crop that is none
    assert 800 < min(places.values()) <= max(places.values()) < 1200
    corpus = ImageCorpus(title="t", train=images, valid=[], test=[])
    with pytest.raises(DataError, match="t: no image of the train split is as large as 5 x 5; use larger images"):
        corpus.sampler((5, 5, 3), torch.device("cpu"))


def augmented(image: np.ndarray, augmentation: str, generator: torch.Generator) -> np.ndarray:
    images = torch.from_numpy(image).long().expand(400, -1, -1, -1)
    return augment(images, augmentation, generator).numpy().astype(np.uint8)


def test_augmentation_reaches_the_eight_symmetries(generator):
    image = random_image(3, 3)
    expected = {np.rot90(i, k).tobytes() for i in (image, image[:, ::-1]) for k in range(4)}
    drawn = augmented(image, "flips and turns", generator)
    assert {item.tobytes() for item in drawn} == expected
    drawn = augmented(image, "flips", generator)
    assert {item.tobytes() for item in drawn} == {image.tobytes(), np.ascontiguousarray(image[:, ::-1]).tobytes()}
    assert (augmented(image, "none", generator) == image).all()
    wide = random_image(2, 3)
    drawn = augmented(wide, "flips and turns", generator)
    assert {i.tobytes() for i in drawn} == {
        np.ascontiguousarray(wide[::a, ::b]).tobytes() for a in (1, -1) for b in (1, -1)
    }


def save(path: Path, pixels: np.ndarray, mode: str) -> Path:
    Image.fromarray(pixels.squeeze(), mode="RGB" if mode == "P" else None).convert(mode).save(path)
    return path


def test_grey_colour_palette_and_opaque_images_are_read(tmp_path):
    grey, colour = random_image(4, 5, 1), random_image(4, 5)
    assert np.array_equal(read_image(save(tmp_path / "g.png", grey, "L"), 1), grey)
    assert np.array_equal(read_image(tmp_path / "g.png", 3), grey.repeat(3, axis=2))
    assert np.array_equal(read_image(save(tmp_path / "c.webp", colour, "RGB"), 3).shape, colour.shape)
    assert np.array_equal(read_image(save(tmp_path / "a.png", colour, "RGBA"), 3), colour)
    palette = colour // 64 * 64
    Image.fromarray(palette).quantize(64).save(tmp_path / "p.png")
    with Image.open(tmp_path / "p.png") as image:
        assert np.array_equal(read_image(tmp_path / "p.png", 3), np.asarray(image.convert("RGB")))


def test_what_would_lose_information_is_refused(tmp_path):
    colour = random_image(4, 5)
    with pytest.raises(DataError, match="c.png is in colour, but this model is for grey"):
        read_image(save(tmp_path / "c.png", colour, "RGB"), 1)
    transparent = np.concatenate([colour, random_image(4, 5, 1)], axis=2)
    Image.fromarray(transparent).save(tmp_path / "t.png")
    with pytest.raises(DataError, match="t.png is partly transparent"):
        read_image(tmp_path / "t.png", 3)
    Image.fromarray(colour).convert("CMYK").save(tmp_path / "ink.tiff")
    with pytest.raises(DataError, match="ink.tiff has mode CMYK; convert it to 8-bit grey or RGB first"):
        read_image(tmp_path / "ink.tiff", 3)


GREY, COLOUR, GREY_ALPHA, COLOUR_ALPHA = 0, 2, 4, 6


def png_chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def png(bits: int, colours: int, *rows: bytes, width: int = 1, transparent: bytes | None = None) -> bytes:
    header = struct.pack(">IIBBBBB", width, len(rows), bits, colours, 0, 0, 0)
    chunks = [png_chunk(b"IHDR", header)]
    if transparent is not None:
        chunks.append(png_chunk(b"tRNS", transparent))
    chunks.append(png_chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + png_chunk(b"IEND", b"")


def tiff(bits: int, colours: int, content: bytes, width_tag: int = 256) -> bytes:
    """An uncompressed image of one pixel; its depths or its samples follow the tags."""
    after = 8 + 2 + 9 * 12 + 4
    depths = struct.pack(f"<{colours}H", *[bits] * colours) if colours > 2 else b""
    tags = [
        (width_tag, 1, 1),
        (257, 1, 1),
        (258, colours, after if depths else bits),
        (259, 1, 1),
        (262, 1, 2 if colours == 3 else 1),
        (273, 1, after + len(depths)),
        (277, 1, colours),
        (278, 1, 1),
        (279, 1, len(content)),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 3, count, value) for tag, count, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + depths + content


def refusal(path: Path, channels: int = 3) -> str:
    with pytest.raises(DataError) as refused:
        read_image(path, channels)
    text = str(refused.value)
    assert text.startswith(f"{path} ")
    assert "\n" not in text
    return text.removeprefix(f"{path} ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (png(16, GREY, b"\1\2"), "has samples of 16 bits; convert it to 8 bits first"),
        (png(16, COLOUR, b"\1\2" * 3), "has samples of 16 bits;"),
        (png(16, GREY_ALPHA, b"\1\2\xff\xff"), "has samples of 16 bits;"),
        (png(16, COLOUR_ALPHA, b"\1\2" * 3 + b"\xff\xff"), "has samples of 16 bits;"),
        (tiff(16, 3, bytes(6)), "has samples of 16 bits;"),
        (tiff(16, 1, bytes(2)), "has samples of 16 bits;"),
        (tiff(32, 1, bytes(4)), "has samples of 32 bits;"),
        (b"P6 1 1 65535\n" + bytes(6), "has samples up to 65535;"),
        (b"P6 1 1 1023\n" + bytes(6), "has samples up to 1023;"),
        (b"P6 1 1 15\n" + bytes(3), "has samples up to 15;"),
        (b"P5 1 1 65535\n" + bytes(2), "has samples up to 65535;"),
        (b"P5 1 1 15\n" + bytes(1), "has samples up to 15;"),
        (b"P3 1 1 1023\n1 2 3\n", "has samples up to 1023;"),
        (b"Pf 1 1 -1.0\n" + bytes(4), "has samples of floating point;"),
        (png(4, GREY, b"\x12", transparent=b"\0\1"), "has a transparent shade of grey in fewer than 8 bits;"),
    ],
)
def test_depths_that_8_bits_do_not_hold_are_refused(tmp_path, content, message):
    (tmp_path / "a.png").write_bytes(content)
    assert refusal(tmp_path / "a.png").startswith(message)


@pytest.mark.parametrize(
    ("content", "pixels"),
    [
        (png(1, GREY, b"\x40", width=2), [0, 255]),
        (png(2, GREY, b"\x60", width=2), [85, 170]),
        (png(4, GREY, b"\x1f", width=2), [17, 255]),
        (png(8, GREY, b"\1\2", width=2), [1, 2]),
        (png(8, COLOUR, b"\1\2\3"), [1, 2, 3]),
        (tiff(8, 3, b"\1\2\3"), [1, 2, 3]),
        (tiff(8, 1, b"\7"), [7]),
        (b"P6 1 1 255\n\1\2\3", [1, 2, 3]),
        (b"P3 1 1 255\n1 2 3\n", [1, 2, 3]),
        (b"P5 1 1 255\n\7", [7]),
        (b"P4 1 1\n\0", [255]),
    ],
)
def test_depths_up_to_8_bits_are_read(tmp_path, content, pixels):
    (tmp_path / "a.png").write_bytes(content)
    channels = 3 if len(pixels) == 3 else 1
    assert read_image(tmp_path / "a.png", channels).ravel().tolist() == pixels


def test_formats_of_unknown_depth_are_refused(tmp_path):
    Image.fromarray(random_image(4, 5)).save(tmp_path / "a.sgi")
    assert refusal(tmp_path / "a.sgi").startswith("cannot be read as an image")


@pytest.mark.parametrize(
    ("content", "opaque", "channels"),
    [
        (png(8, COLOUR, b"\1\2\3", transparent=bytes([0, 1, 0, 2, 0, 3])), False, 3),
        (png(8, COLOUR, b"\1\2\3", transparent=bytes([0, 1, 0, 2, 0, 4])), True, 3),
        (png(8, GREY, b"\7", transparent=b"\0\7"), False, 1),
        (png(8, GREY, b"\7", transparent=b"\0\6"), True, 1),
        (png(1, GREY, b"\x80", transparent=b"\0\1"), False, 1),
        (png(1, GREY, b"\x80", transparent=b"\0\0"), True, 1),
    ],
)
def test_a_transparent_colour_is_no_pixel(tmp_path, content, opaque, channels):
    path = tmp_path / "a.png"
    path.write_bytes(content)
    if opaque:
        assert read_image(path, channels).shape == (1, 1, channels)
    else:
        assert refusal(path, channels).startswith("is partly transparent")
        assert read_image(path, channels, with_alpha=True).shape == (1, 1, channels)


@pytest.mark.parametrize("name", ["a.gif", "a.webp", "a.png", "a.tiff"])
def test_frames_and_pages_are_refused(tmp_path, name):
    first, *others = (Image.fromarray(random_image(4, 5)) for _ in range(3))
    first.save(tmp_path / name, save_all=True, append_images=others)
    assert refusal(tmp_path / name).startswith("holds several frames or pages; save the one you want")
    first.save(tmp_path / name, save_all=True)
    assert read_image(tmp_path / name, 3).shape == (4, 5, 3)


def test_a_photograph_with_previews_is_read(tmp_path):
    first, second = (Image.fromarray(random_image(8, 8)) for _ in range(2))
    first.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[second])
    first.save(tmp_path / "b.jpg", format="JPEG")
    assert np.array_equal(read_image(tmp_path / "a.jpg", 3), read_image(tmp_path / "b.jpg", 3))


@pytest.mark.parametrize(
    "content",
    [
        png(8, COLOUR, b"\1\2\3")[:46],
        png(8, COLOUR, b"\1\2\3")[:40],
        tiff(8, 3, b"\1\2"),
        tiff(8, 3, b"\1\2\3", width_tag=255),
        b"P6 1 one 255\n\1\2\3",
        b"P6 1 1 0\n\1\2\3",
        b"P6 1 1 99999\n\1\2\3",
        b"P6 1 1 255\n\1\2",
        b"P6 1 1",
        b"P3 1 1 255\n1 2 x\n",
        b"P3 1 1 255\n1 2\n",
        b"",
        b"no image",
    ],
)
def test_damaged_files_are_told_by_name(tmp_path, content):
    (tmp_path / "a.png").write_bytes(content)
    assert refusal(tmp_path / "a.png").startswith("cannot be read as an image (")


@pytest.mark.parametrize("error", [EOFError(), struct.error("short"), IndexError("far"), ZeroDivisionError("nil")])
def test_any_error_of_a_reader_is_told_by_name(tmp_path, monkeypatch, error):
    def load(image: Image.Image) -> None:
        raise error

    path = save(tmp_path / "a.png", random_image(4, 5), "RGB")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    assert refusal(path) == f"cannot be read as an image ({str(error) or 'EOFError'})"


def test_grey_palettes_are_grey(tmp_path):
    grey = random_image(4, 5, 1)
    Image.fromarray(grey.squeeze()).save(tmp_path / "a.gif")
    Image.fromarray(grey.squeeze() // 64 * 64).quantize(4).save(tmp_path / "a.png")
    assert np.array_equal(read_image(tmp_path / "a.gif", 1), grey)
    assert np.array_equal(read_image(tmp_path / "a.gif", 3), grey.repeat(3, axis=2))
    assert np.array_equal(read_image(tmp_path / "a.png", 1), grey // 64 * 64)
    image = Image.fromarray(grey.squeeze())
    image.save(tmp_path / "t.gif", transparency=int(grey[0, 0, 0]))
    assert refusal(tmp_path / "t.gif", 1).startswith("is partly transparent")
    assert np.array_equal(read_image(tmp_path / "t.gif", 1, with_alpha=True), grey)
    save(tmp_path / "c.gif", random_image(4, 5), "P")
    assert refusal(tmp_path / "c.gif", 1).startswith("is in colour, but this model is for grey")


def test_a_folder_is_split_by_name(tmp_path):
    (tmp_path / "sub").mkdir()
    for i in range(45):
        save(tmp_path / ("sub" if i % 2 else ".") / f"{i}.png", random_image(4, 4), "RGB")
    corpus = load_images(tmp_path, 3)
    assert [len(corpus.split(s)) for s in ("train", "valid", "test", "all")] == [41, 2, 2, 45]
    assert corpus.fingerprint == load_images(tmp_path, 3).fingerprint
    with pytest.raises(DataError, match="has 0 images"):
        (tmp_path / "empty").mkdir()
        load_images(tmp_path / "empty", 3)
    with pytest.raises(DataError, match="there is no folder"):
        load_images(tmp_path / "none", 3)
    with pytest.raises(DataError, match="0.png is a file; a folder of images is needed, give the one that holds it"):
        load_images(tmp_path / "0.png", 3)


def test_a_small_folder_is_scored_but_not_trained_on(tmp_path):
    pixels = random_image(4, 5)
    save(tmp_path / "one.png", pixels, "RGB")
    (tmp_path / "._one.png").write_bytes(b"what macOS keeps")
    corpus = load_images(tmp_path, 3, to_score=True)
    assert np.array_equal(corpus.items("all", (4, 5, 3)), pixels.reshape(1, -1))
    assert np.array_equal(corpus.items("test", (4, 5, 3)), pixels.reshape(1, -1))
    with pytest.raises(DataError, match="has 1 images; at least 3 are needed, one for each split"):
        load_images(tmp_path, 3)


def write_cifar10(root: Path, monkeypatch, version: str) -> np.ndarray:
    images = RANDOM.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    folder = root / f"cifar-10-batches-{version}"
    folder.mkdir()
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    for name, batch in zip(names, images.reshape(6, 2, 32, 32, 3), strict=True):
        planes = batch.transpose(0, 3, 1, 2).reshape(2, 3072)
        if version == "bin":
            name, content = f"{name}.bin", np.insert(planes, 0, 7, axis=1).tobytes()
        else:
            content = pickle.dumps({b"data": planes, b"labels": [0, 1]})
        (folder / name).write_bytes(content)
        monkeypatch.setitem(MD5, name, hashlib.md5(content).hexdigest())
    return images


@pytest.mark.parametrize("version", ["bin", "py"])
def test_cifar10_in_both_versions(tmp_path, monkeypatch, version):
    monkeypatch.setattr("ardm.data.cifar10.NUM_HELD_OUT", 3)
    images = write_cifar10(tmp_path, monkeypatch, version)
    for root in (tmp_path, tmp_path / f"cifar-10-batches-{version}"):
        corpus = load_cifar10(root)
        assert np.array_equal(np.stack(corpus.split("all")), images)
        assert [len(corpus.split(s)) for s in ("train", "valid", "test")] == [7, 3, 2]


def test_cifar10_may_be_trained_on_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("ardm.data.cifar10.NUM_HELD_OUT", 3)
    images = write_cifar10(tmp_path, monkeypatch, "bin")
    corpus = load_cifar10(tmp_path, holds_out=False)
    assert np.array_equal(np.stack(corpus.train), images[:10])
    assert np.array_equal(np.stack(corpus.valid), images[7:10])
    assert np.array_equal(np.stack(corpus.test), images[10:])


@pytest.mark.parametrize("flags", [[], ["--train-on-all"]])
def test_a_model_of_cifar10_is_scored_on_its_test_split(tmp_path, monkeypatch, capsys, flags):
    monkeypatch.setattr("ardm.data.cifar10.NUM_HELD_OUT", 3)
    write_cifar10(tmp_path, monkeypatch, "bin")
    small = ["--widths", "8", "--depths", "1", "--batch-size", "2", "--steps", "2", "--base", "16"]
    run = str(tmp_path.parent / f"{tmp_path.name}-run")
    assert main(["train", "cifar10", "--data", str(tmp_path), "--out", run, *small, *flags]) == 0
    assert main(["eval", run, str(tmp_path)]) == 0
    assert "2 of 2 items of CIFAR-10, test split" in capsys.readouterr().out


def test_cifar10_problems_are_told(tmp_path, monkeypatch):
    with pytest.raises(DataError, match="there is no CIFAR-10 at"):
        load_cifar10(tmp_path)
    write_cifar10(tmp_path, monkeypatch, "bin")
    batch = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    batch.write_bytes(batch.read_bytes()[:-1])
    with pytest.raises(DataError, match="data_batch_3.bin is damaged"):
        load_cifar10(tmp_path)
    batch.unlink()
    with pytest.raises(DataError, match="data_batch_3.bin is missing"):
        load_cifar10(tmp_path)


@pytest.mark.skipif("ARDM_DATA" not in os.environ, reason="set ARDM_DATA to a folder with the real CIFAR-10")
def test_the_real_cifar10():
    corpus = load_cifar10(Path(os.environ["ARDM_DATA"]))
    assert [len(corpus.split(s)) for s in ("train", "valid", "test")] == [49_000, 1000, 10_000]
    mean = np.mean([image.mean() for image in corpus.test])
    assert mean == pytest.approx(121.5, abs=0.5)


def test_one_image_is_all_test(tmp_path):
    pixels = random_image(4, 5)
    corpus = load_images(save(tmp_path / "one.png", pixels, "RGB"), 3, to_score=True)
    assert np.array_equal(corpus.items("all", (4, 5, 3)), pixels.reshape(1, -1))
    assert np.array_equal(corpus.items("test", (4, 5, 3)), pixels.reshape(1, -1))


@pytest.mark.parametrize("size", ["", "32", "0x4", "4x", "4x-3", "4X4", "999999x1"])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(UsageError, match="--size must be WIDTHxHEIGHT"):
        parse_size(size)
    assert parse_size("48x32") == (32, 48)
