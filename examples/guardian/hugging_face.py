"""The callback of transformers' Trainer. Needs the extra ``frameworks``:

python examples/guardian/hugging_face.py DIRECTORY
"""

from __future__ import annotations

import sys

import torch
import transformers

from trainproof.guardian.hugging_face import TrainproofCallback


def main(directory: str) -> None:
    """A tiny language model with a learning rate that warms up to a hundred times too much."""
    transformers.set_seed(0)
    settings = transformers.GPT2Config(
        vocab_size=64,
        n_positions=24,
        n_embd=32,
        n_layer=1,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    rows = torch.cumsum(torch.randint(1, 3, (256, 24)), dim=1) % 64
    trainer = transformers.Trainer(
        model=transformers.GPT2LMHeadModel(settings),
        args=transformers.TrainingArguments(
            output_dir=directory,
            max_steps=300,
            learning_rate=1.0,
            warmup_steps=150,
            max_grad_norm=0.0,
            logging_steps=2,
            save_strategy="no",
            report_to=[],
            use_cpu=True,
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in rows],
        callbacks=[TrainproofCallback(policy="stop_on_fail", objective_check=True)],
    )
    trainer.train()
    print(f"ended at step {trainer.state.global_step} of 300")


if __name__ == "__main__":
    main(sys.argv[1])
