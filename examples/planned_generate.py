"""A plan as plain counts in a LLaDA-like `generate`: the prompt stays, call i unmasks counts[i] tokens of the tail.

LLaDA's own loop unmasks equally many tokens in each call. Here the counts come from a measured plan, for any network
that `ardm.wrap` takes. They are optimal for remasking="random". With "low_confidence" they can be worse than equal
counts, as they are here: early calls then choose tokens that say nothing new, and the long last one must guess the rest
at once.

    python examples/planned_generate.py    # fits a tiny model to words that repeat, in some ten seconds on a CPU
"""

import random

import torch
from transformers import BertConfig, BertForMaskedLM

import ardm

LETTERS = "abcdefgh"


@torch.no_grad()
def generate(network, prompt, counts, mask_id, temperature=1.0, remasking="random", generator=None):
    """The prompts (B, P), each with sum(counts) new tokens behind it."""
    x = torch.cat([prompt, prompt.new_full((len(prompt), sum(counts)), mask_id)], dim=1)
    for count in counts:
        logits = network(x).logits
        logits[..., mask_id] = -torch.inf  # else a drawn mask would stay to the end
        drawn = logits.argmax(-1)
        if temperature > 0:
            probs = (logits / temperature).softmax(-1)
            drawn = torch.multinomial(probs.flatten(0, 1), 1, generator=generator).view_as(x)
        confidence = torch.rand(x.shape, generator=generator, device=x.device)
        if remasking == "low_confidence":
            confidence = logits.softmax(-1).gather(-1, drawn[..., None])[..., 0]
        chosen = confidence.where(x == mask_id, -torch.inf).topk(count).indices
        x = x.scatter(1, chosen, drawn.gather(1, chosen))
    return x


def tiny_model(steps=300):
    """A small BERT fitted to texts of a random word, six times over; its loss profile is measured."""
    torch.manual_seed(0)
    words = random.Random(0)
    texts = ["".join(words.choices(LETTERS, k=4)) * 6 for _ in range(1000)]
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = BertConfig(vocab_size=9, max_position_embeddings=24, hidden_dropout_prob=0.0, **size)
    model = ardm.wrap(BertForMaskedLM(config), ardm.Vocabulary(["<mask>", *LETTERS]), length=24)
    ardm.fit(model, texts, steps=steps)
    model.measure(texts[:100])
    return model.eval()


def main(model, calls=6):
    """Print how many of 200 texts repeat a word, for equal and for planned counts."""
    prompt = torch.tensor([model.tokens.encode("ab")] * 200)
    new = 24 - prompt.shape[1]
    planned = model.for_shape((new,)).plan(calls).schedule.counts
    for name, counts in {"equal": ardm.uniform_schedule(new, calls).counts, "planned": planned}.items():
        for remasking in ("random", "low_confidence"):
            generator = torch.Generator().manual_seed(0)
            ids = generate(model.network, prompt, counts, model.tokens.mask, 1.0, remasking, generator)
            texts = [model.tokens.decode(row) for row in ids.tolist()]
            right = sum(text == text[:4] * 6 for text in texts)
            print(f"{name} {counts}, {remasking}: {right} of 200 repeat their word, such as {texts[0]}")


if __name__ == "__main__":
    main(tiny_model())
