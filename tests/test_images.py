"""Images as items: CIFAR-10, folders, crops, tiles and augmentation."""

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ardm.data.cifar10 import MD5, load_cifar10
from ardm.data.images import ImageCorpus, ImageSampler, augment, load_image_folder, load_images, parse_size, read_image
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
    crops = ImageSampler(images, (2, 2, 3), torch.device("cpu")).draw(15_000, generator)
    for crop in crops.numpy().astype(np.uint8):
        places[crop.tobytes()] += 1  # a KeyError for a crop that is none
    assert 800 < min(places.values()) <= max(places.values()) < 1200
    with pytest.raises(DataError, match="no image is as large as an item of 5 x 5"):
        ImageSampler(images, (5, 5, 3), torch.device("cpu"))


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
    with pytest.raises(DataError, match="c.png is in colour, and this model is for grey"):
        read_image(save(tmp_path / "c.png", colour, "RGB"), 1)
    transparent = np.concatenate([colour, random_image(4, 5, 1)], axis=2)
    Image.fromarray(transparent).save(tmp_path / "t.png")
    with pytest.raises(DataError, match="t.png is partly transparent"):
        read_image(tmp_path / "t.png", 3)
    Image.fromarray(np.zeros((4, 5), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(DataError, match="deep.png has mode I;16"):
        read_image(tmp_path / "deep.png", 1)
    (tmp_path / "broken.png").write_bytes((tmp_path / "c.png").read_bytes()[:60])
    with pytest.raises(DataError, match="broken.png cannot be read as an image"):
        read_image(tmp_path / "broken.png", 3)


def test_a_folder_is_split_by_name(tmp_path):
    (tmp_path / "sub").mkdir()
    for i in range(45):
        save(tmp_path / ("sub" if i % 2 else ".") / f"{i}.png", random_image(4, 4), "RGB")
    corpus = load_image_folder(tmp_path, 3)
    assert [len(corpus.split(s)) for s in ("train", "valid", "test", "all")] == [41, 2, 2, 45]
    assert corpus.fingerprint == load_image_folder(tmp_path, 3).fingerprint
    with pytest.raises(DataError, match="has 0 images"):
        (tmp_path / "empty").mkdir()
        load_image_folder(tmp_path / "empty", 3)
    with pytest.raises(DataError, match="there is no folder"):
        load_image_folder(tmp_path / "none", 3)


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
    corpus = load_images(save(tmp_path / "one.png", pixels, "RGB"), 3)
    assert np.array_equal(corpus.items("all", (4, 5, 3)), pixels.reshape(1, -1))
    assert np.array_equal(corpus.items("test", (4, 5, 3)), pixels.reshape(1, -1))


@pytest.mark.parametrize("size", ["", "32", "0x4", "4x", "4x-3", "4X4", "999999x1"])
def test_sizes_that_are_none_are_refused(size):
    with pytest.raises(UsageError, match="--size must be WIDTHxHEIGHT"):
        parse_size(size)
    assert parse_size("48x32") == (32, 48)
