"""Rules: importing this package declares all of them, in documentation order."""

from __future__ import annotations

from . import finite as finite
from .interface import REGISTRY as REGISTRY
from .interface import Rule as Rule
