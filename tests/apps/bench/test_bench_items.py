"""Items of benchmarks: which they are, how large, and whether they came back."""

from dataclasses import replace

import numpy as np
from tiny import tiny_image_config, tiny_sound_config

from ardm.apps.bench.items import is_same, item_of, num_variables, spread_items, training_items
from ardm.apps.bench.training import random_corpus
from ardm.data.alphabet import Alphabet
from ardm.data.sound_files import Sound
from ardm.data.text import TEXT8_ALPHABET, TextCorpus


def test_text_is_counted_in_characters():
    assert num_variables("aé€".encode(), "text") == 3
    assert num_variables("aé€".encode(), "bytes") == 6


def test_what_counts_as_restored():
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    clip = Sound(frames=np.arange(5, dtype=np.int16)[:, None], rate=8000)
    assert is_same(grey, grey.repeat(3, axis=2))
    assert not is_same(grey.repeat(3, axis=2), grey)
    assert not is_same(grey, grey.reshape(3, 2, 1))
    assert not is_same(grey, np.stack([grey[..., 0], grey[..., 0], grey[..., 0] ^ 1], axis=2))
    assert is_same(clip, replace(clip, frames=clip.frames.copy()))
    assert not is_same(clip, replace(clip, rate=16_000))
    assert not is_same(clip, replace(clip, frames=clip.frames[:-1]))
    assert not is_same(clip, replace(clip, frames=clip.frames.repeat(2, axis=1)))
    assert not is_same(b"one", grey)
    assert not is_same(clip, grey)


def test_opaque_alpha_may_be_left_out_and_no_other():
    grey = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    opaque = np.dstack([grey, np.full_like(grey, 255)])
    clear = np.dstack([grey, np.full_like(grey, 254)])
    assert is_same(opaque, grey)
    assert is_same(opaque, np.dstack([grey, grey, grey]))
    assert is_same(clear, np.dstack([grey, grey, grey, clear[..., 1:]]))
    assert not is_same(clear, opaque)
    assert not is_same(clear, grey)
    assert not is_same(np.dstack([grey, grey, grey, clear[..., 1:]]), clear)


def test_items_stand_for_their_classes():
    corpus = random_corpus(tiny_sound_config())
    (length,) = tiny_sound_config().data.shape
    (first, *_) = spread_items(corpus, "test", (length,), 4)
    np.testing.assert_array_equal(first.frames[:, 0], corpus.test[0][:length])
    assert first.rate == corpus.sample_rate
    text = TextCorpus(title="t", alphabet=Alphabet(characters="aé"), classes=np.arange(40) % 2, num_held_out=10)
    assert item_of(text.items("test", (3,))[0], text, (3,)) == "aéa".encode()


def test_items_are_spread_and_training_items_are_the_last():
    classes = np.arange(26 * 4, dtype=np.uint8) % 26 + 1
    corpus = TextCorpus(title="t", alphabet=TEXT8_ALPHABET, classes=classes, num_held_out=26)
    assert spread_items(corpus, "test", (2,), 3) == [b"ab", b"ij", b"qr"]
    assert spread_items(corpus, "test", (13,), 9) == [b"abcdefghijklm", b"nopqrstuvwxyz"]
    assert training_items(corpus, (2,), 7) == [b"uv", b"wx", b"yz"]
    assert training_items(random_corpus(tiny_image_config()), (4, 6, 3), 7) == []


def test_seeds_draw_one_item_of_each_stretch():
    corpus = TextCorpus(title="t", alphabet=Alphabet(characters="abcdefgh"), classes=np.arange(24) % 8, num_held_out=8)
    drawn = [spread_items(corpus, "test", (1,), 4, seed) for seed in range(20)]
    assert spread_items(corpus, "test", (1,), 4, 3) == drawn[3]
    assert [set(column) for column in zip(*drawn, strict=True)] == [
        {b"a", b"b"},
        {b"c", b"d"},
        {b"e", b"f"},
        {b"g", b"h"},
    ]
