"""Autoregressive Diffusion Models: train, score, plan, sample and infill discrete data."""

__version__ = "0.1.0"
