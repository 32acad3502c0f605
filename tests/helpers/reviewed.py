"""A model of a real library, for the action in the workflow of this project."""

import transformers

import deeplimit as dl

gpt_2 = dl.sweep(
    transformers.GPT2LMHeadModel,
    transformers.GPT2Config,
    "n_layer",
    n_embd=32,
    n_head=2,
    n_positions=32,
    vocab_size=64,
)
