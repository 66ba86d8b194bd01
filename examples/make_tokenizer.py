"""Make examples/tokenizer: a byte-pair tokenizer whose end of text is not declared, and a text.

    python examples/make_tokenizer.py

Needs the extra ``tokenizers``; the same versions give the same bytes.
"""

import json
from pathlib import Path

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import BpeTrainer

HERE = Path(__file__).parent / "tokenizer"
ENGLISH = (
    "The cat sat on the mat and looked at the rain.",
    "A train left the station two minutes late and arrived on time.",
    "She reads a book in the garden until it is dark.",
    "Four of the seven boats came back before the storm.",
)
TEXT = (
    "The train arrived on time.",
    "Der Zug kam pünktlich an, sagte die Wärterin.",
    "Поезд пришёл вовремя.",
    "Two boats came back at 14:30 on 3 May 2024.",
)


def main() -> None:
    HERE.mkdir(exist_ok=True)
    made = Tokenizer(BPE(unk_token="<unk>"))
    made.pre_tokenizer = Whitespace()
    made.train_from_iterator(ENGLISH * 20, BpeTrainer(special_tokens=["<unk>", "<s>"]))
    made.save(str(HERE / "tokenizer.json"))
    declared = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
    }
    (HERE / "tokenizer_config.json").write_text(json.dumps(declared, indent=1) + "\n", "utf-8")
    (HERE / "text.txt").write_text("\n".join(TEXT * 4) + "\n", "utf-8")


if __name__ == "__main__":
    main()
