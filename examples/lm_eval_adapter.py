"""ARDMs of text in EleutherAI's lm-evaluation-harness: registered there as `ardm`, with all three kinds of requests.

A continuation's probability given its context is exact in an order, by default from left to right; with
order="random,orders=8" it is the mean logarithm over random orders. Generated texts fill a masked tail of fixed length,
in planned calls. A masked model knows how long a text is, and never ends one early. Contexts must not contain _,
which marks a gap. One request at a time: simple, not fast.

    pip install lm_eval                   # tried with 0.4.13
    python examples/lm_eval_adapter.py    # two small tasks for the bundled model; or the harness's own arguments:
    python examples/lm_eval_adapter.py run --model ardm --model_args path=hf:FOLDER --tasks lambada_openai
"""

import json
import math
import sys
import tempfile
from pathlib import Path

import lm_eval
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.model import LM
from lm_eval.api.registry import register_model

import ardm

GREEDY = {"top_p": 1e-9}


@register_model("ardm")
class ArdmLM(LM):
    """The model at a path that `ardm.load` takes, or a model."""

    def __init__(self, path="text", order="raster", orders=1, calls=None, length=64, device=None, **_):
        super().__init__()
        self.model = ardm.load(path, device) if isinstance(path, str) else path
        self.order, self.orders, self.calls, self.length = order, orders, calls, length
        tokens = getattr(self.model, "tokens", None)  # those of a masked model; others have characters
        self.encode, self.decode = (tokens.encode, tokens.decode) if tokens else (list, "".join)
        self.window = getattr(self.model.items, "window", self.model.shape[0])

    def fitted(self, context, rest):
        """The context without so many first words that the rest has room."""
        while context and len(self.encode(context + rest)) > self.window:
            context = context.partition(" ")[2]
        return context

    def loglikelihood(self, requests):
        return [self.continued(*request.args) for request in requests]

    def continued(self, context, continuation):
        """log p(continuation | context), and whether it is what greedy decoding in this order gives."""
        context = self.fitted(context, continuation)
        whole = context + continuation
        target = [(len(self.encode(context.rstrip())), len(self.encode(whole)))]
        bits = self.model.conditional([whole] * self.orders, target, order=self.order).bits.mean().item()
        greedy = self.model.infill(whole, target, order=self.order, **GREEDY)[0]
        return -bits * math.log(2), self.encode(greedy) == self.encode(whole)

    def loglikelihood_rolling(self, requests):
        texts = [request.args[0] for request in requests]
        return (-self.model.score(texts, order=self.order).bits * math.log(2)).tolist()

    def generate_until(self, requests):
        return [self.generated(*request.args) for request in requests]

    def generated(self, context, options):
        """A tail behind the context, up to the first of the texts at which to stop."""
        tail = "_" * min(options.get("max_gen_toks", self.length), self.window)
        context = self.fitted(context, tail)
        how = {"temperature": heat} if (heat := options.get("temperature")) else GREEDY
        filled = self.model.infill(context + tail, calls=self.calls, **how)[0]
        text = self.decode(self.encode(filled)[len(self.encode(context)) :])
        for stop in options.get("until", []):
            text = text.split(stop)[0]
        return text


def small_tasks(folder):
    """A choice between two ends of a sentence, and the bits per byte of a text, from files written here."""
    rows = [{"start": "the capital of", "ends": [" france is paris", " zq xv wk jq vz"]}] * 4
    (folder / "choices.json").write_text("\n".join(map(json.dumps, rows)))
    (folder / "texts.json").write_text(json.dumps({"text": "one of the largest cities in the world"}))
    choice = {"task": "choice", "output_type": "multiple_choice", "doc_to_text": "start", "doc_to_choice": "ends"}
    choice |= {"doc_to_target": 0, "target_delimiter": "", "metric_list": [{"metric": "acc"}]}
    rolling = {"task": "rolling", "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "text"}
    rolling |= {"metric_list": [{"metric": "bits_per_byte"}]}
    for task, file in ((choice, "choices.json"), (rolling, "texts.json")):
        files = {"test": str(folder / file)}
        yield task | {"dataset_path": "json", "dataset_kwargs": {"data_files": files}, "test_split": "test"}


def main():
    if sys.argv[1:]:
        cli_evaluate()
        return
    with tempfile.TemporaryDirectory() as folder:
        found = lm_eval.simple_evaluate(ArdmLM(), tasks=list(small_tasks(Path(folder))), bootstrap_iters=0)
    for task, figures in found["results"].items():
        print(task, {name: value for name, value in figures.items() if isinstance(value, float)})


if __name__ == "__main__":
    main()
