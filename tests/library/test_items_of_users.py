"""What users give and get: every kind of item in every form, and one clear line for what does not fit."""

import math

import numpy as np
import pytest
import torch
from own_models import as_users_call, small
from PIL import Image
from tiny_exact import ALPHABET, tiny_exact

import ardm
from ardm.data.alphabet import BYTES, Alphabet
from ardm.data.sounds import ZERO_CLASS
from ardm.errors import ArdmError, DataError
from ardm.library.items import ImageItems, SoundItems, TextItems, TokenItems, as_array, items_of, places

TEXT = TextItems((16,), Alphabet(characters=ALPHABET))
BYTE = TextItems((16,), BYTES)
COLOUR, GREY = ImageItems((4, 6, 3)), ImageItems((4, 6, 1))
SOUND = SoundItems((20,))
TOKENS = TokenItems((2, 3), np.array([2, 3, 4, 5, 6, 7]))
PIXELS = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 3), dtype=np.uint8)
WAVES = np.random.default_rng(1).integers(-(2**15), 2**15, (3, 20)).astype(np.int16)


def rows(items, values):
    (only,) = items.rows(values)
    return only


# Texts


def test_texts_of_all_lengths_make_rows():
    texts = ["the cat", "a text of sixteen characters or more", "exactly sixteen "]
    found = rows(TEXT, texts)
    assert found.owner.tolist() == [0, 1, 1, 1, 2]
    assert found.num_scored.tolist() == [7, 16, 12, 8, 16]
    assert [int(given.sum()) for given in found.given] == [0, 0, 4, 0, 0]
    assert rows(TEXT, "exactly sixteen ").scored is None
    assert rows(TEXT, "exactly sixteen ").given is None
    assert TEXT.shown(rows(TEXT, texts[2]).x.numpy(), (16,)) == ["exactly sixteen "]


def test_texts_come_as_str_and_bytes():
    for same in ("cat é", ["cat é"], ("cat é",), np.array(["cat é"]), "cat é".encode(), bytearray("cat é".encode())):
        assert torch.equal(rows(TEXT, same).x, rows(TEXT, "cat é").x)
    assert rows(BYTE, b"\x00\xff").x[0, :2].tolist() == [0, 255]
    assert rows(BYTE, "é").x[0, :2].tolist() == [0xC3, 0xA9]
    assert BYTE.shown(np.array([[0, 255]]), (2,)) == [b"\x00\xff"]
    assert (TEXT.unit, BYTE.unit) == ("bits/char", "bits/byte")


def test_hidden_characters_are_shown_as_gaps():
    assert TEXT.shown(np.array([[1, 29, 2]]), (3,)) == ["a_b"]
    assert BYTE.shown(np.array([[97, 256]]), (2,)) == ["a_"]


@pytest.mark.parametrize(
    "mask",
    [
        [2, 3],
        np.array([2, 3]),
        [(2, 4)],
        slice(2, 4),
        "2:4",
        [False, False, True, True, False],
        torch.tensor([False, False, True, True, False]),
        [-3, -2],
    ],
)
def test_gaps_of_a_text_have_many_forms(mask):
    gaps = TEXT.gaps("hello", mask)
    assert gaps.known[:5].tolist() == [True, True, False, False, True]
    assert gaps.length == 5
    marked = TEXT.gaps("he__o")
    assert (marked.known == gaps.known).all()
    assert (marked.values == gaps.values).all()
    assert (TEXT.gaps("he##o", "#").values == gaps.values).all()


# Images


@pytest.mark.parametrize(
    "images",
    [PIXELS, torch.from_numpy(PIXELS), list(PIXELS), tuple(PIXELS), [Image.fromarray(pixels) for pixels in PIXELS]],
)
def test_colour_images_have_many_forms(images):
    found = rows(COLOUR, images)
    assert (found.x.numpy() == PIXELS.reshape(5, -1)).all()
    assert (found.shape, found.owner.tolist()) == ((4, 6, 3), list(range(5)))
    assert (COLOUR.shown(found.x.numpy(), (4, 6, 3)) == PIXELS).all()


@pytest.mark.parametrize(
    "image", [PIXELS[0], Image.fromarray(PIXELS[0]), [PIXELS[0]], PIXELS[:1], Image.fromarray(PIXELS[0]).copy()]
)
def test_a_single_image_needs_no_list(image):
    assert (rows(COLOUR, image).x[0].numpy() == PIXELS[0].ravel()).all()


def test_grey_images_need_no_channel():
    grey = PIXELS[..., 0]
    for images in (grey, grey[..., None], list(grey), [Image.fromarray(pixels) for pixels in grey]):
        assert (rows(GREY, images).x.numpy() == grey.reshape(5, -1)).all()
    assert rows(GREY, grey[0]).x.shape == (1, 24)
    assert GREY.shown(rows(GREY, grey).x.numpy(), (4, 6, 1)).shape == (5, 4, 6)


def test_palettes_are_read_as_colours():
    palette = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6), "L").convert("RGB").quantize(24)
    assert palette.mode == "P"
    assert rows(GREY, palette).x.numpy().ravel().tolist() == list(range(24))
    assert rows(GREY, Image.new("1", (6, 4), 1)).x.unique().tolist() == [255]


def test_images_of_other_sizes_are_grouped():
    images = [PIXELS[0], PIXELS[1, :2], PIXELS[2], PIXELS[3, :2]]
    first, second = COLOUR.rows(images)
    assert (first.shape, second.shape) == ((4, 6, 3), (2, 6, 3))
    assert (first.owner.tolist(), second.owner.tolist()) == ([0, 2], [1, 3])
    model = ardm.Model(tiny_exact("colour").model, items_of(tiny_exact("colour")), trained=tiny_exact("colour"))
    score = model.score(images, "raster", 24, schedule="uniform")
    alone = [model.score(image, "raster", 24, schedule="uniform").bits[0] for image in images]
    assert score.bits == pytest.approx(alone)
    assert score.num_variables.tolist() == [72, 36, 72, 36]


@pytest.mark.parametrize(
    "mask",
    [
        (1, 0, 3, 2),
        np.pad(np.ones((2, 2), bool), ((0, 2), (1, 3))),
        np.repeat(np.pad(np.ones((2, 2), bool), ((0, 2), (1, 3)))[..., None], 3, 2),
        torch.from_numpy(np.pad(np.ones((2, 2), bool), ((0, 2), (1, 3)))),
        Image.fromarray(np.pad(np.ones((2, 2), bool), ((0, 2), (1, 3)))),
        [(3, 9), (21, 27)],
        list(range(3, 9)) + list(range(21, 27)),
    ],
)
def test_gaps_of_an_image_have_many_forms(mask):
    gaps = COLOUR.gaps(PIXELS[0], mask)
    hidden = ~gaps.known.reshape(4, 6, 3)
    assert hidden[:2, 1:3].all()
    assert hidden.sum() == 12
    assert (gaps.values[gaps.known] == PIXELS[0].ravel()[gaps.known]).all()


# Sounds


@pytest.mark.parametrize("sounds", [WAVES, torch.from_numpy(WAVES), list(WAVES), WAVES.tolist()])
def test_sounds_have_many_forms(sounds):
    found = rows(SOUND, sounds)
    assert (found.x.numpy() == WAVES.astype(np.int64) + ZERO_CLASS).all()
    assert (SOUND.shown(found.x.numpy(), (20,)) == WAVES).all()


def test_a_single_sound_needs_no_list():
    for sound in (WAVES[0], WAVES[0].tolist(), [WAVES[0]]):
        assert (rows(SOUND, sound).x.numpy()[0] == WAVES[0].astype(np.int64) + ZERO_CLASS).all()
    first, second = SOUND.rows([WAVES[0], WAVES[1, :7]])
    assert (first.shape, second.shape) == ((20,), (7,))
    assert SOUND.gaps(WAVES[0], [(3, 6)]).known.nonzero()[0].tolist() == [0, 1, 2, *range(6, 20)]


# Tokens


ITEMS = np.array([[[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]]])


@pytest.mark.parametrize(
    "values",
    [ITEMS, torch.from_numpy(ITEMS), ITEMS.tolist(), ITEMS.astype(np.uint8), ITEMS.astype(float), list(ITEMS),
     [torch.from_numpy(item) for item in ITEMS], torch.from_numpy(ITEMS).bfloat16(), ITEMS.astype(np.uint64)],
)  # fmt: skip
def test_tokens_have_many_forms(values):
    found = rows(TOKENS, values)
    assert found.x.tolist() == ITEMS.reshape(2, -1).tolist()
    assert found.scored is None
    assert TOKENS.shown(found.x.numpy(), (2, 3)).tolist() == ITEMS.tolist()
    assert rows(TOKENS, values[0]).x.tolist() == ITEMS[:1].reshape(1, -1).tolist()


def test_bits_may_be_booleans():
    assert rows(TokenItems((3,), np.array([2])), [[True, False, True]]).x.tolist() == [[1, 0, 1]]


def test_missing_tokens_are_not_scored():
    found = rows(TOKENS, [[[0, math.nan, 2], [3, math.nan, 5]], [[1, 2, 3], [4, 5, 6]]])
    assert found.scored.tolist() == [[True, False, True, True, False, True], [True] * 6]
    assert found.x[0, 1] == 0
    gaps = TOKENS.gaps([[0, math.nan, 2], [3, 4, 5]], [0])
    assert gaps.known.tolist() == [False, False, True, True, True, True]
    assert TOKENS.gaps([[math.nan] * 3] * 2, None).known.sum() == 0


# What does not fit


@pytest.mark.parametrize(
    ("items", "values", "text"),
    [
        (TEXT, [], "expected at least one text, got none"),
        (TEXT, "", "the text is empty"),
        (BYTE, [b"a", b""], "the text is empty"),
        (TEXT, None, "expected a text as str or bytes, got NoneType"),
        (TEXT, [3], "expected a text as str or bytes, got int"),
        (TEXT, "UP", "character 'U' at position 0 is not in the model's alphabet"),
        (TEXT, b"\xff", "the text is not UTF-8 text"),
        (TEXT, "a\ud800", "the text has a surrogate at position 1, which is no character"),
        (COLOUR, [], "expected at least one item, got none"),
        (COLOUR, PIXELS[:0], "expected at least one item, got none"),
        (COLOUR, PIXELS.astype(int), r"takes colour images as uint8 arrays \(height, width, 3\), got int64 of shape"),
        (COLOUR, PIXELS[..., 0], r"\(height, width, 3\), got uint8 of shape \(4, 6\)"),
        (COLOUR, PIXELS[0, 0, 0], "got uint8 of shape"),
        (COLOUR, 3, r"got int64 of shape \(\)"),
        (COLOUR, None, r"got object of shape \(\)"),
        (COLOUR, Image.new("RGBA", (6, 4)), r"got uint8 of shape \(4, 6, 4\)"),
        (GREY, PIXELS, r"takes grey images as uint8 arrays \(height, width, 1\), got uint8 of shape \(4, 6, 3\)"),
        (GREY, PIXELS[0, :0, :, 0], r"got uint8 of shape \(0, 6"),
        (SOUND, [], "expected at least one item, got none"),
        (SOUND, WAVES.astype(int), r"sounds are int16 arrays of samples, got int64 of shape \(20,\)"),
        (SOUND, WAVES[:, :0], r"sounds are int16 arrays of samples, got int16 of shape \(0,\)"),
        (SOUND, [40000, 3], "sounds are int16 arrays of samples, got int64"),
        (SOUND, 0.5, r"sounds are int16 arrays of samples, got float64 of shape \(\)"),
        (TOKENS, ITEMS[:0], r"expected items of shape \(2, 3\), one or a stack of them, got shape \(0, 2, 3\)"),
        (TOKENS, ITEMS[0].T, r"expected items of shape \(2, 3\), one or a stack of them, got shape \(3, 2\)"),
        (TOKENS, [], r"got shape \(0,\)"),
        (TOKENS, 3, r"got shape \(\)"),
        (TOKENS, [[1, 2], [3]], "expected items of one shape, got lists of different lengths"),
        (TOKENS, ITEMS + 1, r"item 1 has the value 2 at variable 0, whose classes are 0\.\.1"),
        (TOKENS, -ITEMS, r"item 0 has the value -1 at variable 1, whose classes are 0\.\.2"),
        (TOKENS, ITEMS + 0.25, r"expected whole numbers, got 0\.25; round or bin other values first"),
        (TOKENS, np.full((2, 3), math.inf), "item 0 has the value inf at variable 0"),
        (TOKENS, ITEMS.astype(str), "expected whole numbers, got <U21; number the classes from 0"),
        (TOKENS, ITEMS.astype(object), "expected whole numbers, got object; number the classes from 0"),
        (TOKENS, ITEMS.astype(complex), "expected whole numbers, got complex128"),
        (TOKENS, ITEMS * [[[1]], [[math.nan]]], r"every value of item 1 is missing \(NaN\); leave such items out"),
    ],
)
def test_items_that_do_not_fit_are_told_in_one_line(items, values, text):
    with as_users_call(), pytest.raises(DataError, match=text) as caught:
        items.rows(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "item", "mask", "text"),
    [
        (TEXT, "the cat", None, "nothing to fill: mark each gap with _, or give a mask"),
        (TEXT, "the cat", [False] * 7, "nothing to fill: mark each gap with _, or give a mask"),
        (TEXT, "the cat", [True] * 6, r"the mask has shape \(6,\), but the item has shape \(7,\)"),
        (TEXT, "the cat", [7], r"the mask must lie in 0\.\.6, got 7\.\.7"),
        (TEXT, "the cat", [(2, 8)], r"the mask must lie in 0\.\.6, got 2\.\.8"),
        (TEXT, "the cat", 0.5, r"the mask must be a boolean array, indices or ranges .*, got float64 of shape \(\)"),
        (TEXT, "a text that is too long", None, "the text has 23 characters; this model fills 1 to 16"),
        (TEXT, "", None, "the text has 0 characters; this model fills 1 to 16"),
        (TEXT, b"\xff_", None, "the text is not UTF-8 text"),
        (TEXT, 3, None, "expected a text as str or bytes, got int"),
        (TEXT, "the cat", "ab", "must be one character or ranges such as 10:20"),
        (COLOUR, PIXELS[0], None, r"the mask must be a boolean array, indices or ranges \(start, stop\), got NoneType"),
        (COLOUR, PIXELS[0], np.ones((6, 4), bool), r"the mask has shape \(6, 4\), but the item has shape \(4, 6, 3\)"),
        (COLOUR, PIXELS[0], np.ones((6, 4, 3), bool), r"the mask has shape \(6, 4, 3\), but the item has"),
        (COLOUR, PIXELS[0], np.zeros((4, 6), bool), "nothing to fill: the mask names no place"),
        (COLOUR, PIXELS[0], [], "nothing to fill: the mask names no place"),
        (COLOUR, PIXELS[0], (0, 0, 7, 4), r"the box \(0, 0, 7, 4\) is not \(left, top, right, bottom\) within 6 x 4"),
        (COLOUR, PIXELS[0], (3, 0, 2, 4), r"the box \(3, 0, 2, 4\) is not"),
        (COLOUR, PIXELS[0], (-1, 0, 2, 4), r"the box \(-1, 0, 2, 4\) is not"),
        (COLOUR, PIXELS[0], np.full((4, 6), 255), r"the mask must be a boolean array, .*, got int64 of shape \(4, 6\)"),
        (COLOUR, PIXELS, (0, 0, 1, 1), r"takes colour images as uint8 arrays .*, got uint8 of shape \(5, 4, 6, 3\)"),
        (SOUND, WAVES[0], [20], r"the mask must lie in 0\.\.19, got 20\.\.20"),
        (SOUND, WAVES[0], np.ones(19, bool), r"the mask has shape \(19,\), but the item has shape \(20,\)"),
        (SOUND, WAVES[0], None, "the mask must be a boolean array"),
        (TOKENS, ITEMS[0], None, "nothing to fill: give a mask that is True where to fill, or an item with NaN"),
        (TOKENS, ITEMS[0], np.ones((3, 2), bool), r"the mask has shape \(3, 2\), but the item has shape \(2, 3\)"),
        (TOKENS, ITEMS[0], [(5, 2)], "nothing to fill: the mask names no place"),
        (TOKENS, ITEMS, [1], "expected one item to fill, got 2"),
    ],
)
def test_gaps_that_do_not_fit_are_told_in_one_line(items, item, mask, text):
    with as_users_call(), pytest.raises(ArdmError, match=text) as caught:
        items.gaps(item, mask)
    assert "\n" not in str(caught.value)


def test_places_have_the_shape_of_the_item():
    assert places(4, (2, 3), "mask").tolist() == [[False] * 3, [False, True, False]]
    assert places(np.arange(6) > 3, (2, 3), "mask").tolist() == [[False] * 3, [False, True, True]]
    assert places(slice(None), (2, 2), "mask").all()


def test_lists_become_arrays():
    assert as_array(torch.ones(2, requires_grad=True)).tolist() == [1.0, 1.0]
    assert as_array([[1, 2]]).dtype == np.int64


def test_values_go_in_and_come_out_of_a_model():
    model = small()
    drawn = model.sample(3)
    assert drawn.dtype == np.int64
    assert model.score(drawn.tolist()).bits.shape == model.score(torch.from_numpy(drawn)).bits.shape == (3,)
