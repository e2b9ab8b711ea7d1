"""Training: the loop, the trainer and its optimiser, and the folder of a run."""
