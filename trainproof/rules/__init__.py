"""Rules: importing this package declares all of them, in documentation order."""

from __future__ import annotations

# isort: off
from . import finite as finite
from . import loss as loss
from . import floors as floors
from . import gradients as gradients
from . import scaling as scaling
from . import schedule as schedule
from . import plan as plan
from . import resume as resume
from . import evaluation as evaluation
from . import gain as gain
from . import best as best
from . import reward as reward
from . import policy as policy
from . import adversarial as adversarial
from . import improvement as improvement
from . import throughput as throughput
from . import integrity as integrity
from . import comparison as comparison
from . import siblings as siblings
from . import checkpoint as checkpoint
from . import weights as weights
from . import contents as contents
from . import declared as declared
from . import resumable as resumable
from . import drift as drift
from . import vocabulary as vocabulary
from . import kept as kept
from . import environment as environment
from . import settings as settings
from . import speech as speech
from . import objective as objective
from . import watch as watch
from . import dataset as dataset
from . import answers as answers
from . import tokenizer as tokenizer

# isort: on
from .interface import REGISTRY as REGISTRY
from .interface import Rule as Rule
