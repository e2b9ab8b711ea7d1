"""A plan in a scheduler of diffusers: each call of its LLaDA2Pipeline unmasks exactly the planned number of tokens.

BlockRefinementScheduler spreads a block's tokens evenly over the calls and picks those of the highest confidence. Here
the numbers come from a plan and the places are random, the order for which plans are optimal.

    pip install diffusers                     # tried with 0.42
    python examples/diffusers_scheduler.py    # fits the tiny model of planned_generate.py first
"""

import torch
from diffusers import BlockRefinementScheduler, LLaDA2Pipeline
from diffusers.configuration_utils import register_to_config

import ardm


class PlannedScheduler(BlockRefinementScheduler):
    """Unmasks counts[i] random tokens of a block of sum(counts) in call i; `save_pretrained` keeps the counts."""

    @register_to_config
    def __init__(self, counts):
        super().__init__(block_length=sum(counts), num_inference_steps=len(counts))

    def get_num_transfer_tokens(self, block_length, num_inference_steps):
        counts = self.config.counts
        if (sum(counts), len(counts)) != (block_length, num_inference_steps):
            raise ValueError(f"planned {len(counts)} calls for {sum(counts)} tokens: pass these to the pipeline")
        return torch.tensor(counts)

    def step(self, model_output, timestep, sample, *, mask_token_id, **options):
        mask = torch.tensor([mask_token_id], device=sample.device)
        logits = model_output.index_fill(-1, mask, -torch.inf)  # else a drawn mask would stay to the end
        options |= {"threshold": 1.0, "editing_threshold": None}  # no token beyond the plan
        return super().step(logits, timestep, sample, mask_token_id=mask_token_id, **options)

    def _sample_from_logits(self, logits, **options):
        tokens, probs = super()._sample_from_logits(logits, **options)
        confidence = torch.rand(probs.shape, generator=options["generator"]).to(probs.device)
        return tokens, confidence


def main(model, calls=6):
    """Print how many of 200 texts repeat a word, for equal and for planned counts."""
    for counts in (ardm.uniform_schedule(24, calls).counts, model.plan(calls).schedule.counts):
        pipeline = LLaDA2Pipeline(model=model.network, scheduler=PlannedScheduler(counts))
        pipeline.set_progress_bar_config(disable=True)
        ids = pipeline(
            input_ids=torch.empty(200, 0, dtype=torch.long),  # a prompt, if any, is made of whole blocks
            gen_length=24,
            num_inference_steps=len(counts),
            temperature=1.0,
            editing_threshold=None,
            mask_token_id=model.tokens.mask,
            generator=torch.Generator().manual_seed(0),
            output_type="seq",
        ).sequences
        texts = [model.tokens.decode(row) for row in ids.tolist()]
        right = sum(text == text[:4] * 6 for text in texts)
        print(f"{counts}: {right} of 200 repeat their word, such as {texts[0]}")


if __name__ == "__main__":
    from planned_generate import tiny_model

    main(tiny_model())
